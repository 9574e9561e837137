//! Manager of one connection, which a program keeps for as long as it wants.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker::{ConnectionState, Deadline, HealthStatus, RetryPolicy, RetryStats, events};
use lapin::Channel;
use mq::BrokerError;
use tokio::sync::watch;

use super::monitor::ConnectionMonitor;
use crate::parts::{Connection, Connector, Failure};
use crate::{ConnectionConfig, ConnectionError};

type Callback = Arc<dyn Fn(&str) + Send + Sync>;

/// Manager of one connection, which it opens, watches and reopens: `ConnectionManager` of the
/// specified connection model. There is at most one connection at a time. Every operation ends by
/// its deadline, and its future may be dropped at any time.
pub struct ConnectionManager {
    connector: Connector,
    state: Arc<StateCell>,
    current: Mutex<Option<Current>>,
    retry: Mutex<RetryPolicy>,
    on_connection_lost: Option<Callback>,
    /// Lock that serializes the calls that open or close the connection.
    change_lock: tokio::sync::Mutex<()>,
}

/// Open connection with its monitor. Dropping it closes the socket, even if a caller still holds
/// the monitor.
struct Current {
    monitor: Arc<ConnectionMonitor>,
    connection: Arc<Connection>,
}

impl Drop for Current {
    fn drop(&mut self) {
        self.monitor.stop();
        self.connection.cut();
    }
}

impl ConnectionManager {
    /// Creates a manager without a connection. The state is DISCONNECTED until
    /// [`connect`](Self::connect).
    #[must_use]
    pub fn new(config: ConnectionConfig) -> Self {
        Self {
            connector: Connector::new(Arc::new(config)),
            state: Arc::new(StateCell(watch::Sender::new(ConnectionState::Disconnected))),
            current: Mutex::default(),
            retry: Mutex::default(),
            on_connection_lost: None,
            change_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Sets the delays between attempts to reconnect; by default [`RetryPolicy::default`].
    #[must_use]
    pub fn with_retry_policy(mut self, retry: RetryPolicy) -> Self {
        self.retry = Mutex::new(retry);
        self
    }

    /// Sets the callback for a lost connection. It gets the reason, and must not block.
    #[must_use]
    pub fn on_connection_lost(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_connection_lost = Some(Arc::new(callback));
        self
    }

    /// Returns the configuration with which connections are opened.
    pub fn config(&self) -> &ConnectionConfig {
        self.connector.config()
    }

    /// Connects with one attempt at each address, unless the connection is already open.
    ///
    /// # Errors
    /// If no connection could be opened. The state is DISCONNECTED then.
    pub async fn connect(&self, deadline: Deadline) -> Result<(), ConnectionError> {
        let _lock = self.lock_changes(deadline).await?;
        if self.get_status() == ConnectionState::Connected {
            return Ok(());
        }
        self.drop_current();
        let attempt = self.state.begin();
        let connection = Box::pin(self.connector.connect(deadline)).await?;
        self.install(connection, attempt);
        Ok(())
    }

    /// Closes the connection in an orderly way; closes the socket if that takes too long.
    pub async fn disconnect(&self) {
        let _lock = self.change_lock.lock().await;
        let current = self.current().take();
        // A state that is DISCONNECTED stays so.
        self.state.change(ConnectionState::Disconnected);
        if let Some(current) = current {
            current.monitor.stop();
            current.connection.close().await;
        }
    }

    /// Closes the connection and opens a new one: at once, and if that fails, by the retry policy
    /// until `deadline`.
    ///
    /// # Errors
    /// If the deadline passed, or the broker refused the login, so that a retry is useless. The
    /// state is FAILED then.
    pub async fn reconnect(&self, deadline: Deadline) -> Result<(), ConnectionError> {
        let _lock = self.lock_changes(deadline).await?;
        self.persist(deadline).await
    }

    /// Makes sure that there is a usable connection: keeps the current one if it was idle only
    /// briefly or the broker answers on it, otherwise calls [`reconnect`](Self::reconnect).
    ///
    /// # Errors
    /// As for [`reconnect`](Self::reconnect).
    pub async fn ensure_connected(&self, deadline: Deadline) -> Result<(), ConnectionError> {
        let _lock = self.lock_changes(deadline).await?;
        if let Some(monitor) = self.monitor()
            && self.get_status() == ConnectionState::Connected
            && monitor.evaluate(deadline).await
        {
            return Ok(());
        }
        self.persist(deadline).await
    }

    /// Checks whether the connection is still open, and returns its state.
    pub fn get_status(&self) -> ConnectionState {
        if let Some(current) = self.current().as_ref() {
            current.monitor.notices_a_closed_connection();
        }
        self.state.get()
    }

    /// Returns a receiver for changes of the connection's state.
    pub fn subscribe(&self) -> watch::Receiver<ConnectionState> {
        self.state.0.subscribe()
    }

    /// Checks whether the broker answers on the connection, and returns the result. A connection
    /// without an answer counts as lost.
    pub async fn check_health(&self, deadline: Deadline) -> HealthStatus {
        match self.monitor() {
            Some(monitor) => monitor.check_health(deadline).await,
            None => HealthStatus::unhealthy(false, Duration::ZERO, "there is no connection"),
        }
    }

    /// Opens a channel, after making sure that the connection is usable.
    ///
    /// # Errors
    /// If there is no connection, or no channel can be opened on it.
    pub async fn channel(&self, deadline: Deadline) -> Result<Channel, ConnectionError> {
        self.ensure_connected(deadline).await?;
        let connection = self.current().as_ref().map(|current| Arc::clone(&current.connection));
        let lost = || BrokerError::unreachable("the connection to RabbitMQ was lost");
        let connection = connection.ok_or_else(lost)?;
        let channel = connection.open_channel(deadline).await?;
        connection.mark_used();
        Ok(channel)
    }

    /// Returns the monitor of the connection; `None` if there is no connection.
    pub fn monitor(&self) -> Option<Arc<ConnectionMonitor>> {
        self.current().as_ref().map(|current| Arc::clone(&current.monitor))
    }

    /// Returns the number of delays that the retry policy has returned since its last reset, and
    /// the next and the maximum delay.
    pub fn retry_stats(&self) -> RetryStats {
        self.retry().get_stats()
    }

    async fn lock_changes(
        &self,
        deadline: Deadline,
    ) -> Result<tokio::sync::MutexGuard<'_, ()>, ConnectionError> {
        deadline.run(self.change_lock.lock()).await.map_err(|_| Failure::Deadline.into())
    }

    async fn persist(&self, deadline: Deadline) -> Result<(), ConnectionError> {
        self.drop_current();
        self.retry().reset();
        let attempt = self.state.begin();
        let mut delay = Duration::ZERO;
        loop {
            let retries = self.retry().get_stats().attempts;
            // A first attempt does not count as a reconnection.
            if retries > 0 || self.state.get() == ConnectionState::Reconnecting {
                events::reconnecting(&self.connector.peer(), retries + 1, delay);
            }
            let error = match Box::pin(self.connector.connect(deadline)).await {
                Ok(connection) => {
                    self.retry().reset();
                    self.install(connection, attempt);
                    return Ok(());
                }
                Err(error) => error,
            };
            let next = if error.is_transient() { self.retry().next_delay_before(deadline) } else { None };
            let Some(next) = next else {
                attempt.end(ConnectionState::Failed);
                return Err(error);
            };
            delay = next;
            tokio::time::sleep(delay).await;
        }
    }

    /// Sets `connection` as the current connection, and starts watching it.
    fn install(&self, connection: Connection, attempt: Attempt<'_>) {
        let connection = Arc::new(connection);
        // Before a caller can see that it is lost.
        attempt.end(ConnectionState::Connected);
        let (state, callback) = (Arc::clone(&self.state), self.on_connection_lost.clone());
        let on_lost = move |why: &str| {
            state.lose();
            if let Some(callback) = callback {
                callback(why);
            }
        };
        let monitor = Arc::new(ConnectionMonitor::start(Arc::clone(&connection), Box::new(on_lost)));
        *self.current() = Some(Current { monitor, connection });
    }

    /// Drops the current connection if there is one, and so closes its socket.
    fn drop_current(&self) {
        let current = self.current().take();
        if let Some(current) = current {
            current.monitor.stop();
            if self.state.get() == ConnectionState::Connected {
                events::lost(&current.connection.peer, "another connection replaces it");
                self.state.lose();
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retry(&self) -> MutexGuard<'_, RetryPolicy> {
        self.retry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ConnectionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionManager")
            .field("config", self.config())
            .field("state", &self.state.get())
            .finish_non_exhaustive()
    }
}

/// State of the connection, which changes only to one of the [`ConnectionState::successors`] of the
/// present state.
struct StateCell(watch::Sender<ConnectionState>);

impl StateCell {
    fn get(&self) -> ConnectionState {
        *self.0.borrow()
    }

    /// Changes the state to `to`. Returns `false`, without a change, if `to` may not follow the
    /// present state.
    fn change(&self, to: ConnectionState) -> bool {
        self.0.send_if_modified(|state| {
            let reached = state.transition_to(to);
            *state = reached.unwrap_or(*state);
            reached.is_ok()
        })
    }

    /// Changes the state to RECONNECTING after the connection was lost, if that may follow the
    /// present state.
    fn lose(&self) {
        self.change(ConnectionState::Reconnecting);
    }

    /// Changes the state from DISCONNECTED to CONNECTING, or from another state to RECONNECTING.
    /// Returns the attempt to connect, which changes the state again when it ends.
    fn begin(&self) -> Attempt<'_> {
        let to = match self.get() {
            ConnectionState::Disconnected => ConnectionState::Connecting,
            _ => ConnectionState::Reconnecting,
        };
        // A connection that was lost is RECONNECTING already.
        self.change(to);
        Attempt { state: self, is_over: false }
    }
}

/// Attempt to connect that is in progress. Dropping it unfinished changes the state to
/// DISCONNECTED.
struct Attempt<'a> {
    state: &'a StateCell,
    is_over: bool,
}

impl Attempt<'_> {
    fn end(mut self, state: ConnectionState) {
        self.is_over = self.state.change(state);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.state.change(ConnectionState::Disconnected);
        }
    }
}
