//! From a configuration to an open connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mq::{BrokerError, Deadline};

use crate::config::ConnectionConfig;
use crate::connect::{self, StepError, StepLog};
use crate::connection::Connection;
use crate::events::{self, Peer};

/// Connects to the addresses of a configuration in order, and remembers which one worked.
#[derive(Debug)]
pub(crate) struct Connector {
    config: ConnectionConfig,
    preferred: AtomicUsize,
}

impl Connector {
    pub(crate) fn new(config: ConnectionConfig) -> Self {
        Self { config, preferred: AtomicUsize::new(0) }
    }

    pub(crate) fn config(&self) -> &ConnectionConfig {
        &self.config
    }

    /// The address that is tried first, for the log. A configuration has one at least.
    pub(crate) fn peer(&self) -> Option<Peer> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        self.config.addresses().get(preferred).map(|address| Peer::new(&self.config, address))
    }

    /// # Errors
    /// What the last address said. A refusal ends the round: it would be the same everywhere.
    pub(crate) async fn connect(&self, deadline: Deadline) -> Result<Connection, StepError> {
        self.connect_step_by_step(deadline).await.1
    }

    /// Connects, and says how far the attempt came that succeeded, or the last one.
    pub(crate) async fn connect_step_by_step(
        &self,
        deadline: Deadline,
    ) -> (StepLog, Result<Connection, StepError>) {
        let mut log = StepLog::default();
        let mut result = Err(StepError {
            step: connect::Step::Resolve,
            error: BrokerError::Unreachable { detail: "the target has no address".to_owned() },
            timed_out: false,
        });
        let order = self.order();
        for (index, left) in order.iter().zip((1..=order.len()).rev()) {
            let Some(address) = self.config.addresses().get(*index) else { continue };
            let share = deadline.remaining() / u32::try_from(left).unwrap_or(u32::MAX);
            let attempt = deadline.min(share.min(self.config.timeout()));
            let started = Instant::now();
            let peer = Peer::new(&self.config, address);
            log = StepLog::default();
            result = connect::open(&self.config, address, attempt, &mut log).await;
            match &result {
                Ok(_) => {
                    self.preferred.store(*index, Ordering::Relaxed);
                    events::established(&peer, started.elapsed());
                    break;
                }
                Err(failure) => {
                    events::failed(&peer, failure.step.name(), &failure.error);
                    if !failure.is_about_the_address() || deadline.has_passed() {
                        break;
                    }
                }
            }
        }
        (log, result)
    }

    /// The addresses as configured, with the one that worked last in front.
    fn order(&self) -> Vec<usize> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        let others = (0..self.config.addresses().len()).filter(|index| *index != preferred);
        std::iter::once(preferred).chain(others).collect()
    }
}
