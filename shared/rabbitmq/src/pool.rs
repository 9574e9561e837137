//! Connections that are kept between uses, under a bound.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq::Deadline;

use crate::capacity::{Capacity, Member};
use crate::config::{ConnectionConfig, Settings};
use crate::connector::Connector;
use crate::errors::PoolError;
use crate::events;
use crate::pooled::PooledConnection;
use crate::retry::{Jitter, RetryPolicy};

/// How long the polite end of a channel may take when its connection goes back.
const RESET: Duration = Duration::from_secs(3);

/// How large a pool is, and how long it lets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// How many connections may be open at once, in use or not; at least 1.
    pub max_size: usize,
    /// How long [`acquire`](ConnectionPool::acquire) waits for one of them to become free; at least
    /// 1 s.
    pub timeout: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { max_size: 5, timeout: Duration::from_secs(10) }
    }
}

/// A limit out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says which range it is")]
pub enum InvalidPoolLimits {
    #[error("a pool has one connection at least")]
    MaxSize,
    #[error("a pool lets wait for a second at least")]
    Timeout,
}

/// How many connections there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Connections that are open.
    pub total: usize,
    /// Those that were acquired and not released.
    pub in_use: usize,
    /// Those that are idle.
    pub available: usize,
    /// How many may be open at once.
    pub max_size: usize,
}

/// The connections of one configuration, `ConnectionPool` of the connection model. Who waits gets a
/// connection in the order of waiting, and may stop waiting at any point.
pub struct ConnectionPool {
    connector: Connector,
    member: Arc<Member>,
    capacity: Arc<Capacity>,
    retry_for: Duration,
}

impl ConnectionPool {
    /// # Errors
    /// When a limit is out of its range.
    pub fn new(config: ConnectionConfig, limits: PoolLimits) -> Result<Self, InvalidPoolLimits> {
        if limits.max_size == 0 {
            return Err(InvalidPoolLimits::MaxSize);
        }
        if limits.timeout < Duration::from_secs(1) {
            return Err(InvalidPoolLimits::Timeout);
        }
        let retry_for = Settings::default().retry_for;
        Ok(Self::sharing(Arc::new(config), Arc::new(Capacity::new(limits)), retry_for))
    }

    /// A pool under a bound that holds for others too.
    pub(crate) fn sharing(
        config: Arc<ConnectionConfig>,
        capacity: Arc<Capacity>,
        retry_for: Duration,
    ) -> Self {
        let member = Arc::new(Member::new(Arc::clone(&config)));
        Self { connector: Connector::new(config), member, capacity, retry_for }
    }

    /// Takes a connection that answers: one that is idle, or a new one. Dropping it cuts it;
    /// [`release`](Self::release) keeps it for others. A broker that cannot be reached is tried
    /// again for a while, and half of the time is kept for what the connection is wanted for.
    ///
    /// # Errors
    /// [`PoolError::PoolTimeout`] when none became free in time, or why a new one could not be had.
    pub async fn acquire(&self, deadline: Deadline) -> Result<PooledConnection, PoolError> {
        let started = Instant::now();
        let Some((place, idle)) = self.capacity.enter(&self.member, deadline).await else {
            events::pool_timeout(&self.member.peer(), started.elapsed(), self.capacity.max_size());
            return Err(PoolError::PoolTimeout);
        };
        if self.member.is_closed() {
            return Err(PoolError::Closed);
        }
        // One is enough for a use; the others wait for their own.
        if let Some(mut idle) = idle
            && idle.answers(deadline).await
        {
            idle.mark_in_use(place);
            events::acquired(idle.peer(), started.elapsed(), false, self.get_stats());
            return Ok(idle);
        }
        let retry_until = deadline.min(self.retry_for.min(deadline.remaining() / 2));
        let retry = RetryPolicy::default().with_jitter(Jitter::Half);
        let (connection, channel, health) =
            Box::pin(self.connector.persist(retry, retry_until, deadline)).await?;
        let pooled = PooledConnection::new(connection, channel, health, place);
        events::acquired(pooled.peer(), started.elapsed(), true, self.get_stats());
        Ok(pooled)
    }

    /// Gives a connection back, for others to use. Its channel ends with all that was open on it.
    pub async fn release(&self, connection: PooledConnection) {
        connection.release(Deadline::after(RESET)).await;
    }

    /// Closes the connections that are idle, and those in use as they come back. Nobody gets one
    /// any more.
    pub async fn close(&self) {
        self.member.close();
        for idle in self.capacity.take_idle(&self.member) {
            idle.close().await;
        }
    }

    /// The counts at this moment.
    pub fn get_stats(&self) -> PoolStats {
        self.capacity.stats(&self.member)
    }

    pub(crate) fn has_connections(&self) -> bool {
        self.get_stats().total > 0
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPool")
            .field("config", self.connector.config())
            .field("stats", &self.get_stats())
            .finish_non_exhaustive()
    }
}
