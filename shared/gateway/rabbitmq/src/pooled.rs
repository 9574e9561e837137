//! A connection of a pool, with a channel for the caller that acquired it.

use std::ops::Deref;
use std::sync::Arc;

use broker::{Deadline, Key, PoolKey};
use lapin::Channel;

use crate::connection::Connection;
use crate::errors::ConnectionError;

/// Pooled connection in use, with an open channel. Dropping it closes the socket, with everything
/// that is open on it.
#[derive(Debug)]
pub struct PooledConnection<K: PoolKey = Arc<Key>> {
    // In this order: the channel of a closed connection sends nothing.
    pooled: broker::PooledConnection<Connection, K>,
    channel: Channel,
}

impl<K: PoolKey> PooledConnection<K> {
    /// Combines a connection of a pool with the channel that was opened on it.
    #[must_use]
    pub fn new((pooled, channel): (broker::PooledConnection<Connection, K>, Channel)) -> Self {
        Self { pooled, channel }
    }

    /// Returns the channel that was opened when the connection was acquired. At first it has no
    /// consumers and no deliveries.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Opens another channel to check whether the broker answers, and records the result. Returns
    /// true if it answers.
    pub async fn check_health(&mut self, deadline: Deadline) -> bool {
        let health = self.connection().check_health(deadline).await;
        self.pooled.mark_checked(health);
        self.health_status().is_healthy()
    }

    /// Closes the channel with everything that is open on it, and opens a new one.
    ///
    /// # Errors
    /// If the broker did not answer. The connection cannot be used any more then.
    pub async fn reset(&mut self, deadline: Deadline) -> Result<(), ConnectionError> {
        self.close_channel(&self.channel, deadline).await?;
        self.channel = self.open_channel(deadline).await?;
        Ok(())
    }

    /// Closes the channel, unless the broker has closed it, and returns the connection to the pool.
    pub async fn release(self, deadline: Deadline) {
        let is_closed = !self.channel.status().connected();
        if is_closed || self.close_channel(&self.channel, deadline).await.is_ok() {
            self.keep();
        } else {
            self.abandon("its channel did not close");
        }
    }

    /// Returns the connection to the pool. No channel may be open on it.
    pub(crate) fn keep(self) {
        // It receives no more messages.
        self.intake().unbind();
        self.pooled.release();
    }

    /// Closes the socket of a connection whose state is unknown, and logs the reason.
    pub(crate) fn abandon(self, why: &str) {
        self.pooled.abandon(why);
    }

    /// Closes the connection in an orderly way.
    pub async fn close(self) {
        self.pooled.close().await;
    }
}

impl<K: PoolKey> Deref for PooledConnection<K> {
    type Target = broker::PooledConnection<Connection, K>;

    fn deref(&self) -> &Self::Target {
        &self.pooled
    }
}
