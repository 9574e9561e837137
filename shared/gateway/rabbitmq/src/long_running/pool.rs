//! Connection pool of a program that runs all the time. It keeps connections between uses, up to a
//! limit.

use std::sync::Arc;
use std::time::Duration;

use broker::{ConnectionCap, ConnectionSettings, Deadline, PoolError, PoolStats};

use crate::config::faults::Faults;
use crate::parts::{Connection, Connector, Dialler};
use crate::{ConfigError, ConnectionConfig};

/// Maximum time for closing a channel in an orderly way when its connection is returned.
const RESET: Duration = Duration::from_secs(3);

/// Size of a pool, and maximum waiting time of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Maximum number of open connections, in use or idle; at least 1.
    pub max_size: usize,
    /// Maximum time for which [`acquire`](ConnectionPool::acquire) waits for a connection; at least
    /// 1 s.
    pub timeout: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { max_size: 5, timeout: ConnectionSettings::default().pool_timeout }
    }
}

/// Pool of connections with one configuration: `ConnectionPool` of the specified connection model.
/// Waiting callers are served in order, and may stop waiting at any time.
#[derive(Debug)]
pub struct ConnectionPool {
    connector: Connector,
    limits: ConnectionSettings,
    pool: broker::ConnectionPool<Connection, ()>,
}

/// Connection of a [`ConnectionPool`], with an open channel.
pub type PooledConnection = crate::PooledConnection<()>;

impl ConnectionPool {
    /// Creates an empty pool.
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

    /// Acquires a working connection, idle or new. Dropping the connection closes it;
    /// [`release`](Self::release) returns it to the pool. Connecting to an unreachable broker is
    /// retried for at most half of the time left.
    ///
    /// # Errors
    /// [`PoolError::PoolTimeout`] if no connection became free in time; otherwise the reason why
    /// none could be opened.
    pub async fn acquire(&self, deadline: Deadline) -> Result<PooledConnection, PoolError> {
        let mut dialler = Dialler::new(&self.connector);
        let acquired = Box::pin(self.pool.acquire(&(), &mut dialler, &self.limits, deadline)).await;
        acquired.map(PooledConnection::new)
    }

    /// Returns a connection to the pool. Its channel is closed, with everything that is open on it.
    pub async fn release(&self, connection: PooledConnection) {
        if self.pool.is_closed() {
            connection.close().await;
        } else {
            connection.release(Deadline::after(RESET)).await;
        }
    }

    /// Closes the pool: idle connections end now, those in use end when they are returned, and no
    /// caller gets a connection any more.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Returns how many connections of the pool are in use, idle and open, and the maximum that may
    /// be open.
    pub fn get_stats(&self) -> PoolStats {
        self.pool.get_stats(&())
    }
}
