//! Pool: connections that are kept between uses, up to a limit.

use std::sync::Arc;
use std::time::Duration;

use broker::{ConnectionCap, ConnectionSettings, Deadline, PoolError, PoolStats};

use crate::config::faults::Faults;
use crate::parts::{Connection, Connector, Dialler};
use crate::{ConfigError, ConnectionConfig};

/// Longest time for closing a channel politely when its connection goes back.
const RESET: Duration = Duration::from_secs(3);

/// Size of a pool, and the time that its callers may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Maximum number of connections that are open at once, in use or not; at least 1.
    pub max_size: usize,
    /// Time that [`acquire`](ConnectionPool::acquire) waits for a connection to become free; at
    /// least 1 s.
    pub timeout: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { max_size: 5, timeout: ConnectionSettings::default().pool_timeout }
    }
}

/// Connections of one configuration: `ConnectionPool` of the connection model. Waiting callers get
/// a connection in their order, and may stop waiting at any point.
#[derive(Debug)]
pub struct ConnectionPool {
    connector: Connector,
    limits: ConnectionSettings,
    pool: broker::ConnectionPool<Connection, ()>,
}

/// A connection of a [`ConnectionPool`], with a channel.
pub type PooledConnection = crate::PooledConnection<()>;

impl ConnectionPool {
    /// Creates a pool without connections.
    ///
    /// # Errors
    /// If a limit is out of its range.
    pub fn new(config: ConnectionConfig, limits: PoolLimits) -> Result<Self, ConfigError> {
        let mut faults = Faults::default();
        if limits.max_size == 0 {
            faults.push("max_size", "is not at least 1");
        }
        if limits.timeout < Duration::from_secs(1) {
            faults.push("timeout", "is not at least 1 s");
        }
        faults.into_result()?;
        let cap = ConnectionCap::new(limits.max_size);
        let limits = ConnectionSettings { pool_timeout: limits.timeout, ..ConnectionSettings::default() };
        let connector = Connector::new(Arc::new(config));
        Ok(Self { connector, limits, pool: broker::ConnectionPool::new(cap) })
    }

    /// Takes a working connection: an idle or a new one. Dropping it cuts it;
    /// [`release`](Self::release) keeps it for others. An unreachable broker is tried again for a
    /// while, and half of the time is kept for the connection's use.
    ///
    /// # Errors
    /// [`PoolError::PoolTimeout`] if none became free in time, or the reason why no new one could
    /// be opened.
    pub async fn acquire(&self, deadline: Deadline) -> Result<PooledConnection, PoolError> {
        let mut dialler = Dialler::new(&self.connector);
        let acquired = Box::pin(self.pool.acquire(&(), &mut dialler, &self.limits, deadline)).await;
        acquired.map(PooledConnection::new)
    }

    /// Gives a connection back, for others to use. Its channel ends with everything that was open
    /// on it.
    pub async fn release(&self, connection: PooledConnection) {
        if self.pool.is_closed() {
            connection.close().await;
        } else {
            connection.release(Deadline::after(RESET)).await;
        }
    }

    /// Closes the connections that are idle, and those in use as they come back. No caller gets one
    /// any more.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Returns the counts at this moment.
    pub fn get_stats(&self) -> PoolStats {
        self.pool.get_stats(&())
    }
}
