//! A connection of a pool, with a channel for its user.

use std::fmt;
use std::sync::Arc;

use broker::{Deadline, HealthStatus, Key, PoolKey};
use jiff::Timestamp;
use lapin::Channel;

use crate::connection::Connection;
use crate::errors::ConnectionError;

/// A connection in use with an open channel. Dropping it closes the socket, which ends everything
/// that was open on it.
pub struct PooledConnection<K: PoolKey = Arc<Key>> {
    // In this order: the channel of a closed connection sends nothing.
    pooled: broker::PooledConnection<Connection, K>,
    channel: Channel,
}

impl<K: PoolKey> PooledConnection<K> {
    /// Takes what a pool gave.
    #[must_use]
    pub fn new((pooled, channel): (broker::PooledConnection<Connection, K>, Channel)) -> Self {
        Self { pooled, channel }
    }

    /// Channel for the connection's user, with nothing open on it at first.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(crate) fn connection(&self) -> &Connection {
        self.pooled.connection()
    }

    /// True if the connection was acquired and not released.
    pub fn in_use(&self) -> bool {
        self.pooled.in_use()
    }

    /// Returns the time at which the connection was opened.
    pub fn created_at(&self) -> Timestamp {
        self.pooled.created_at()
    }

    /// Returns the time at which the connection was last acquired or released.
    pub fn last_used(&self) -> Timestamp {
        self.pooled.last_used()
    }

    /// Returns the result of the connection's last check: the broker opens a channel for each use,
    /// and the check measures how soon it did.
    pub fn health_status(&self) -> &HealthStatus {
        self.pooled.health_status()
    }

    /// Asks the broker for an answer; true if it came.
    pub async fn check_health(&mut self, deadline: Deadline) -> bool {
        let health = self.connection().check_health(deadline).await;
        self.pooled.mark_checked(health);
        self.health_status().is_healthy()
    }

    /// Ends the channel with everything that was open on it, and opens another one.
    ///
    /// # Errors
    /// If the broker did not answer; the connection cannot be used any more.
    pub async fn reset(&mut self, deadline: Deadline) -> Result<(), ConnectionError> {
        self.connection().close_channel(&self.channel, deadline).await?;
        self.channel = self.connection().open_channel(deadline).await?;
        Ok(())
    }

    /// Closes the channel, if the broker has not done so, and keeps the connection for the next
    /// use.
    pub async fn release(self, deadline: Deadline) {
        let is_closed = !self.channel.status().connected();
        if is_closed || self.connection().close_channel(&self.channel, deadline).await.is_ok() {
            self.keep();
        } else {
            self.abandon("its channel did not close");
        }
    }

    /// Keeps the connection for the next use. No channel may be open on it.
    pub(crate) fn keep(self) {
        // It receives no more messages.
        self.connection().intake().unbind();
        self.pooled.release();
    }

    /// Closes the socket of a connection in an unknown state, and logs the reason.
    pub(crate) fn abandon(self, why: &str) {
        self.pooled.abandon(why);
    }

    /// Closes the connection in an orderly way.
    pub async fn close(self) {
        self.pooled.close().await;
    }
}

impl<K: PoolKey> fmt::Debug for PooledConnection<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pooled.fmt(f)
    }
}
