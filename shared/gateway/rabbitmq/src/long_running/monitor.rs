//! Detection of a lost connection.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use broker::{Deadline, HealthStatus, Peer, events};
use jiff::Timestamp;
use tokio::task::AbortHandle;

use crate::parts::{Connection, Pulse, Staleness};

/// Maximum time in which a connection of doubtful state has to answer.
const PROBE: Duration = Duration::from_secs(1);

type OnLost = Box<dyn FnOnce(&str) + Send>;

/// Monitor of one connection: `ConnectionMonitor` of the specified connection model.
/// [`Self::evaluate`] checks the connection when it is needed, which is reliable even in a function
/// that was frozen. In between, a background task notices a broken connection and two missed
/// heartbeats.
pub struct ConnectionMonitor {
    connection: Arc<Connection>,
    alarm: Arc<Alarm>,
    watch: AbortHandle,
}

impl ConnectionMonitor {
    /// Starts watching the connection. `on_connection_lost` is called at most once, with the
    /// reason.
    pub(crate) fn start(connection: Arc<Connection>, on_connection_lost: OnLost) -> Self {
        let alarm =
            Arc::new(Alarm { peer: connection.peer.clone(), on_lost: Mutex::new(Some(on_connection_lost)) });
        let broken = Box::pin(connection.broken());
        let watched = watch(broken, connection.pulse(), connection.heartbeat(), Arc::clone(&alarm));
        Self { connection, alarm, watch: tokio::spawn(watched).abort_handle() }
    }

    /// Stops watching the connection, without calling `on_connection_lost`.
    pub fn stop(&self) {
        self.watch.abort();
        self.alarm.disarm();
    }

    /// Returns the negotiated interval of heartbeats; 0 if there are none.
    #[must_use]
    pub fn heartbeat_interval(&self) -> Duration {
        self.connection.heartbeat()
    }

    /// Returns the time at which the broker last sent a heartbeat or any other frame.
    #[must_use]
    pub fn last_heartbeat(&self) -> Timestamp {
        Timestamp::now().checked_sub(self.connection.pulse().age()).unwrap_or(Timestamp::MIN)
    }

    /// Checks the connection. True if it can be used now: it was idle only briefly
    /// ([`Staleness::Fresh`]), or the broker answered on it. Otherwise the connection counts as
    /// lost.
    pub async fn evaluate(&self, deadline: Deadline) -> bool {
        if !self.notices_a_closed_connection() {
            return false;
        }
        match self.connection.staleness() {
            Staleness::Fresh => true,
            Staleness::Doubtful => self.check_health(deadline.min(PROBE)).await.is_healthy(),
            Staleness::Dead => {
                self.alarm.raise("it was idle for too long");
                false
            }
        }
    }

    /// Checks whether the broker answers, and returns the result. A connection without an answer
    /// counts as lost.
    pub async fn check_health(&self, deadline: Deadline) -> HealthStatus {
        let health = self.connection.check_health(deadline).await;
        if health.is_healthy() {
            self.connection.mark_used();
        } else {
            self.alarm.raise("it did not answer");
        }
        health
    }

    /// True if the client library considers the connection open. Otherwise the connection counts as
    /// lost.
    pub(crate) fn notices_a_closed_connection(&self) -> bool {
        let is_open = self.connection.is_connected();
        if !is_open {
            self.alarm.raise("it was closed");
        }
        is_open
    }
}

impl Drop for ConnectionMonitor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for ConnectionMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionMonitor").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// Callback for the loss of the connection, which is called at most once.
struct Alarm {
    peer: Peer,
    on_lost: Mutex<Option<OnLost>>,
}

impl Alarm {
    fn raise(&self, why: &str) {
        // Under the lock, so that there is no call after `disarm`.
        let mut on_lost = self.on_lost.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(on_lost) = on_lost.take() {
            events::lost(&self.peer, why);
            on_lost(why);
        }
    }

    fn disarm(&self) {
        self.on_lost.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

async fn watch(
    mut broken: impl Future<Output = String> + Unpin,
    pulse: Arc<Pulse>,
    heartbeat: Duration,
    alarm: Arc<Alarm>,
) {
    let patience = heartbeat * 2;
    loop {
        let silence = async {
            if patience.is_zero() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(patience.saturating_sub(pulse.age()).max(Duration::from_millis(100))).await;
        };
        tokio::select! {
            why = &mut broken => return alarm.raise(&why),
            () = silence => if pulse.age() >= patience {
                return alarm.raise("two heartbeats were missed");
            },
        }
    }
}
