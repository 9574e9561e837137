//! Opens a connection from a configuration, by trying its addresses in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use broker::{Deadline, Peer, Step, StepLog, events};
use mq::BrokerError;

use crate::config::ConnectionConfig;
use crate::connect::{self, Dials, Remedy, StepError};
use crate::connection::Connection;
use crate::errors::ConnectionError;

/// Maximum number of addresses of a configuration that one attempt to connect tries.
pub(crate) const MOST_ADDRESSES: usize = 16;

/// Connector that tries the addresses of a configuration in order, beginning with the one that
/// answered last.
#[derive(Debug)]
pub struct Connector {
    config: Arc<ConnectionConfig>,
    preferred: AtomicUsize,
}

impl Connector {
    /// Creates a connector that begins with the first address, until another one has answered.
    #[must_use]
    pub fn new(config: Arc<ConnectionConfig>) -> Self {
        Self { config, preferred: AtomicUsize::new(0) }
    }

    /// Returns the configuration with which connections are opened.
    pub fn config(&self) -> &ConnectionConfig {
        &self.config
    }

    /// Sets the index, in the configuration's list, of the address that is tried first.
    pub(crate) fn preferring(self, index: usize) -> Self {
        Self { preferred: AtomicUsize::new(index), ..self }
    }

    /// Returns the index of the address that is tried first.
    pub(crate) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed)
    }

    /// Returns the description of a connection to the address that is tried first, for log lines.
    pub fn peer(&self) -> Peer {
        let first = self.config.addresses().get(self.preferred());
        Peer { address: first.cloned(), ..self.config.unconnected_peer() }
    }

    /// Connects in one round that tries each address once.
    ///
    /// # Errors
    /// The error of the last address that was tried. A refusal that every address would repeat ends
    /// the round early.
    pub async fn connect(&self, deadline: Deadline) -> Result<Connection, ConnectionError> {
        Ok(self.round(deadline, &mut Dials::new()).await.1?)
    }

    /// Connects in one round that tries each address once, within the TCP connections that `dials`
    /// allows. Returns also the completed steps of the last attempt.
    pub(crate) async fn round(
        &self,
        deadline: Deadline,
        dials: &mut Dials,
    ) -> (StepLog, Result<Connection, StepError>) {
        let mut log = StepLog::default();
        let mut last = StepError {
            step: Step::Resolve,
            error: BrokerError::unreachable("the target has no address"),
            timed_out: false,
        };
        let order = self.order();
        let mut tried = Vec::with_capacity(order.len());
        for (index, left) in order.iter().zip((1..=order.len()).rev()) {
            let Some(address) = self.config.addresses().get(*index) else { continue };
            let share = deadline.remaining() / u32::try_from(left).unwrap_or(u32::MAX);
            let attempt = deadline.min(share.min(self.config.timeout()));
            let started = Instant::now();
            log = StepLog::default();
            tried.push(address);
            match connect::open(&self.config, address, attempt, &mut log, dials).await {
                Ok(connection) => {
                    self.preferred.store(*index, Ordering::Relaxed);
                    events::established(&connection.peer, started.elapsed());
                    return (log, Ok(connection));
                }
                Err(failure) => last = failure,
            }
            if last.remedy() == Remedy::Nothing || deadline.has_passed() || dials.are_spent() {
                break;
            }
        }
        // One log line for the round, however many addresses were tried.
        if let Some(address) = tried.last() {
            events::failed(&self.config.peer(address), last.step.name(), &last.error, tried.len());
        }
        (log, Err(last))
    }

    /// Returns the indices of the addresses in the order of trying: the preferred one, then the
    /// others as configured.
    fn order(&self) -> Vec<usize> {
        let preferred = self.preferred();
        let count = self.config.addresses().len().min(MOST_ADDRESSES);
        let others = (0..count).filter(|index| *index != preferred);
        std::iter::once(preferred).chain(others).collect()
    }
}
