//! Connections as a pool sees them, and the way in which a use of the pool opens one.

use attempt::Deadline;
use mq::BrokerError;

use crate::cap::Permit;
use crate::events::Peer;
use crate::health::HealthStatus;

/// A connection that a pool can keep. Dropping it ends everything that is open on it.
pub trait Connection: Send + Sync + 'static {
    /// Returns the broker's address and the login, as log lines name them.
    fn peer(&self) -> &Peer;

    /// Returns why the connection must not be used again; `None` if it may be.
    fn unusable(&self) -> Option<&'static str>;

    /// Records that a use begins or ends; idle time is counted from then.
    fn mark_used(&mut self);

    /// Ends the connection in an orderly way, and then returns its permit.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Way in which a use gets its connection, and begins on it.
pub trait Opener: Send {
    /// Kind of connection.
    type Connection: Connection;
    /// Result of the beginning: a channel, or the answer to a first call.
    type Begun: Send;

    /// Returns the peer that is tried first, for the log.
    fn peer(&self) -> Peer;

    /// Begins on a connection that was idle, which proves that it answers. `None` if it does not.
    fn reuse(
        &mut self,
        connection: &Self::Connection,
        deadline: Deadline,
    ) -> impl Future<Output = Option<(Self::Begun, HealthStatus)>> + Send;

    /// Opens a connection, with one attempt at each address, and begins on it.
    fn open(
        &mut self,
        permit: Permit,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Opened<Self::Connection, Self::Begun>, OpenError>> + Send;
}

/// A new connection, the result of the first work on it, and the health that it showed.
pub type Opened<C, B> = (C, B, HealthStatus);

/// Failed attempt to open a connection. Nothing was sent to a queue yet.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct OpenError {
    /// Error of the address that was tried last.
    pub error: BrokerError,
    /// True if another attempt may succeed soon.
    pub may_pass: bool,
}
