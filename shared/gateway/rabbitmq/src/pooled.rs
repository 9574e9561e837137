//! A pooled connection in use by one operation.

use broker::Deadline;
use lapin::Channel;

use crate::connection::Connection;
use crate::events;
use crate::pools::Place;

/// A connection with an open channel. Dropping it closes the socket, which ends everything that was
/// open on it.
pub(crate) struct PooledConnection {
    // In this order: the connection must close before its permit becomes free.
    connection: Connection,
    channel: Channel,
    place: Place,
}

impl PooledConnection {
    pub(crate) fn new(connection: Connection, channel: Channel, place: Place) -> Self {
        Self { connection, channel, place }
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Closes the channel, if the broker has not done so, and keeps the connection for the next
    /// request.
    pub(crate) async fn release(self, deadline: Deadline) {
        if !self.channel.status().connected() {
            return self.keep();
        }
        if self.connection.close_channel(&self.channel, deadline).await.is_ok() {
            self.keep();
        } else {
            self.abandon("its channel did not close");
        }
    }

    /// Keeps the connection for the next request. No channel may be open on it.
    pub(crate) fn keep(self) {
        if !self.connection.seems_open() {
            let why = self.connection.why_given_up("it was closed while in use");
            return self.abandon(why);
        }
        let Self { connection, channel: _, place } = self;
        connection.mark_unused();
        place.keep(connection);
    }

    /// Closes the socket of a connection in an unknown state, and logs the reason.
    pub(crate) fn abandon(self, why: &str) {
        events::lost(&self.connection.peer, why);
    }
}
