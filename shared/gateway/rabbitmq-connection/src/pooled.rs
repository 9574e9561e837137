//! A connection of a pool.

use std::fmt;

use broker::Deadline;
use jiff::Timestamp;
use lapin::Channel;
use rabbitmq::parts::{Connection, Peer, Staleness, events};
use rabbitmq::{ConnectionError, HealthStatus};

use crate::capacity::Place;

/// A connection with a channel: `PooledConnection` of the connection model. Dropping one that is in
/// use cuts it, so everything that was open on it ends;
/// [`ConnectionPool::release`](crate::ConnectionPool::release) keeps it.
pub struct PooledConnection {
    // In this order: the connection ends before its place becomes free.
    connection: Connection,
    channel: Channel,
    created_at: Timestamp,
    last_used: Timestamp,
    health: HealthStatus,
    place: Option<Place>,
}

impl PooledConnection {
    /// Makes a connection in use, which has just answered with `health`.
    pub(crate) fn new(connection: Connection, channel: Channel, health: HealthStatus, place: Place) -> Self {
        let now = Timestamp::now();
        Self { connection, channel, created_at: now, last_used: now, health, place: Some(place) }
    }

    /// Channel for the connection's user, with nothing open on it at first.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// True if the connection was acquired and not released.
    pub fn in_use(&self) -> bool {
        self.place.is_some()
    }

    /// Returns the time at which the connection was opened.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Returns the time at which the connection was last acquired or released.
    pub fn last_used(&self) -> Timestamp {
        self.last_used
    }

    /// Returns the result of the connection's last check: the broker opens a channel for each use,
    /// and the check measures how soon it did.
    pub fn health_status(&self) -> &HealthStatus {
        &self.health
    }

    /// Asks the broker for an answer; true if it came.
    pub async fn check_health(&mut self, deadline: Deadline) -> bool {
        self.health = self.connection.check_health(deadline).await;
        self.health.is_healthy()
    }

    /// Ends the channel with everything that was open on it, and opens another one.
    ///
    /// # Errors
    /// If the broker did not answer; the connection cannot be used any more.
    pub async fn reset(&mut self, deadline: Deadline) -> Result<(), ConnectionError> {
        self.connection.close_channel(&self.channel, deadline).await?;
        self.channel = self.connection.open_channel(deadline).await?;
        Ok(())
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.connection.peer
    }

    pub(crate) fn seems_open(&self) -> bool {
        self.connection.seems_open()
    }

    pub(crate) fn staleness(&self) -> Staleness {
        self.connection.staleness()
    }

    /// Opens a channel on a connection that was idle, which proves that it is alive; true if it
    /// succeeded.
    pub(crate) async fn answers(&mut self, deadline: Deadline) -> bool {
        let Some((channel, health)) = self.connection.reopen(self.staleness(), deadline).await else {
            return false;
        };
        (self.channel, self.health) = (channel, health);
        true
    }

    pub(crate) fn mark_in_use(&mut self, place: Place) {
        self.connection.mark_used();
        self.last_used = Timestamp::now();
        self.place = Some(place);
    }

    /// Ends the use and returns the place, which the caller passes on.
    fn mark_available(&mut self) -> Option<Place> {
        self.connection.mark_unused();
        self.last_used = Timestamp::now();
        self.place.take()
    }

    /// Ends the channel and keeps the connection for others.
    pub(crate) async fn release(self, deadline: Deadline) {
        if self.place.as_ref().is_none_or(Place::pool_is_closed) {
            self.close().await;
        } else if self.connection.close_channel(&self.channel, deadline).await.is_ok() {
            self.keep();
        } else {
            self.abandon("its channel did not close");
        }
    }

    /// Keeps the connection, which must have no channel open.
    pub(crate) fn keep(mut self) {
        if !self.seems_open() {
            return self.abandon("it was closed while in use");
        }
        if let Some(place) = self.mark_available()
            && !place.pool_is_closed()
        {
            place.keep(self);
        }
    }

    /// Cuts the connection, whose state is not known.
    pub(crate) fn abandon(self, why: &str) {
        events::lost(self.peer(), why);
    }

    pub(crate) async fn close(self) {
        self.connection.close().await;
    }
}

impl fmt::Debug for PooledConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledConnection")
            .field("connection", &self.connection)
            .field("in_use", &self.in_use())
            .field("created_at", &self.created_at)
            .field("last_used", &self.last_used)
            .field("health_status", &self.health)
            .finish_non_exhaustive()
    }
}
