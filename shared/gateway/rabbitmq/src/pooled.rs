//! A connection of a pool, with a channel for its user.

use std::ops::Deref;
use std::sync::Arc;

use broker::{Deadline, Key, PoolKey};
use lapin::Channel;

use crate::connection::Connection;
use crate::errors::ConnectionError;

/// A connection in use with an open channel. Dropping it closes the socket, which ends everything
/// that was open on it.
#[derive(Debug)]
pub struct PooledConnection<K: PoolKey = Arc<Key>> {
    // In this order: the channel of a closed connection sends nothing.
    pooled: broker::PooledConnection<Connection, K>,
    channel: Channel,
}

impl<K: PoolKey> PooledConnection<K> {
    /// Combines a pool's connection with its channel.
    #[must_use]
    pub fn new((pooled, channel): (broker::PooledConnection<Connection, K>, Channel)) -> Self {
        Self { pooled, channel }
    }

    /// Channel for the connection's user, with nothing open on it at first.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Checks whether the broker answers; true if it does.
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
        self.close_channel(&self.channel, deadline).await?;
        self.channel = self.open_channel(deadline).await?;
        Ok(())
    }

    /// Closes the channel, if the broker has not done so, and keeps the connection for the next
    /// use.
    pub async fn release(self, deadline: Deadline) {
        let is_closed = !self.channel.status().connected();
        if is_closed || self.close_channel(&self.channel, deadline).await.is_ok() {
            self.keep();
        } else {
            self.abandon("its channel did not close");
        }
    }

    /// Keeps the connection for the next use. No channel may be open on it.
    pub(crate) fn keep(self) {
        // It receives no more messages.
        self.intake().unbind();
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

impl<K: PoolKey> Deref for PooledConnection<K> {
    type Target = broker::PooledConnection<Connection, K>;

    fn deref(&self) -> &Self::Target {
        &self.pooled
    }
}
