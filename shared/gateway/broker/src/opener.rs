//! Interfaces that a kind of broker implements for its pool: a [`Connection`], and an [`Opener`],
//! which opens or reuses a connection for one caller.

use attempt::Deadline;
use mq::BrokerError;

use crate::cap::Permit;
use crate::events::Peer;
use crate::health::HealthStatus;

/// Broker connection that a pool can keep. Dropping it closes everything that is open on it.
pub trait Connection: Send + Sync + 'static {
    /// Returns the broker, address and login of the connection, for log lines.
    fn peer(&self) -> &Peer;

    /// Returns the reason why the connection must not be used again; `None` if it may be.
    fn unusable(&self) -> Option<&'static str>;

    /// Records that the connection is used now; its idle time is counted from this call.
    fn mark_used(&mut self);

    /// Closes the connection in an orderly way, and then drops its [`Permit`].
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Procedure that reuses or opens a connection for a pool, and begins the caller's work on it.
pub trait Opener: Send {
    /// Type of the connections that this procedure opens.
    type Connection: Connection;
    /// Result of beginning the caller's work, for example a channel or the response to a first
    /// call.
    type Started: Send;

    /// Returns the broker, address and user of the connections that this procedure opens, for log
    /// lines. If there are several addresses, the result has the one that is tried first.
    fn peer(&self) -> Peer;

    /// Begins the caller's work on an idle connection, which shows that the broker answers. `None`
    /// if it does not.
    fn reuse(
        &mut self,
        connection: &Self::Connection,
        deadline: Deadline,
    ) -> impl Future<Output = Option<(Self::Started, HealthStatus)>> + Send;

    /// Opens a connection, with one attempt for each address, and begins the caller's work on it.
    fn open(
        &mut self,
        permit: Permit,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Opened<Self::Connection, Self::Started>, OpenError>> + Send;
}

/// New connection, the result of the work begun on it, and its health.
pub type Opened<C, B> = (C, B, HealthStatus);

/// Failed attempt to open a connection, before anything was sent to a queue.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct OpenError {
    /// Error of the last address that was tried.
    pub error: BrokerError,
    /// True if connecting is retried, because another attempt may succeed soon.
    pub may_pass: bool,
}
