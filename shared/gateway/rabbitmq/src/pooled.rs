//! A connection in use.

use broker::Deadline;
use lapin::Channel;

use crate::connection::Connection;
use crate::events;
use crate::pools::Place;

/// A connection with a channel of its user. Dropping it cuts it, so whatever was open on it ends.
pub(crate) struct PooledConnection {
    // In this order: the connection ends before its place becomes free.
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

    /// Ends the channel, if the broker has not done so, and keeps the connection for the next
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

    /// Keeps the connection, which must have no channel open.
    pub(crate) fn keep(self) {
        if !self.connection.seems_open() {
            let why = self.connection.why_given_up("it was closed while in use");
            return self.abandon(why);
        }
        let Self { connection, channel: _, place } = self;
        connection.mark_unused();
        place.keep(connection);
    }

    /// Cuts the connection, whose state is not known.
    pub(crate) fn abandon(self, why: &str) {
        events::lost(&self.connection.peer, why);
    }
}
