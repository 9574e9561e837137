//! The one place that turns what the client library says into the gateway's vocabulary.

use std::fmt::Write as _;
use std::time::Duration;

use lapin::ErrorKind;
use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};
use mq::{BrokerError, BrokerReply, QueueName};

use crate::connect::StepError;

pub(crate) const PRODUCT: &str = "RabbitMQ";

/// What was being done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum During<'a> {
    LogIn { vhost: &'a str },
    Queue(&'a QueueName),
    Connection,
}

/// Why an exchange with the broker did not end well.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Amqp(lapin::Error),
    /// The deadline passed while an answer was awaited.
    Deadline,
}

impl From<lapin::Error> for Failure {
    fn from(error: lapin::Error) -> Self {
        Self::Amqp(error)
    }
}

impl Failure {
    /// Whether the broker closed the channel alone, so that the connection is as good as before.
    pub(crate) fn spares_the_connection(&self) -> bool {
        matches!(self, Self::Amqp(error) if error.is_amqp_soft_error())
    }

    /// Whether the channel was known to be closed, so that nothing was sent on it.
    pub(crate) fn was_not_sent(&self) -> bool {
        matches!(self, Self::Amqp(error) if matches!(
            error.kind(),
            ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidConnectionState(_) | ErrorKind::InvalidChannel(_)
        ))
    }

    /// Whether the broker knows no such delivery on the channel. It closes channels with the same code whose deliveries
    /// were not settled for too long; then it is not known which came first.
    pub(crate) fn refuses_a_delivery_tag(&self) -> bool {
        matches!(self, Self::Amqp(error) if matches!(error.kind(), ErrorKind::ProtocolError(refusal)
            if *refusal.kind() == AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED)
                && refusal.get_message().as_str().contains("unknown delivery tag")))
    }

    /// The reply that says what the broker refused, where there was one.
    pub(crate) fn reply(&self) -> Option<BrokerReply> {
        match self {
            Self::Amqp(error) => match error.kind() {
                ErrorKind::ProtocolError(error) => Some(reply(error)),
                _ => None,
            },
            Self::Deadline => None,
        }
    }

    pub(crate) fn into_error(self, during: During<'_>) -> BrokerError {
        match self {
            Self::Amqp(error) => classify(&error, during),
            Self::Deadline => BrokerError::Timeout { detail: "RabbitMQ did not answer in time".to_owned() },
        }
    }
}

/// What can be done when a connection was not made. Nothing was sent by then, so trying again is
/// safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Another address may answer, and this one may after a while.
    TryAgain,
    /// Another address may fare better; this one says the same when it is asked again.
    AnotherAddress,
    /// The broker refused what will be asked of it again, at every address.
    Nothing,
}

impl Remedy {
    /// The one place that decides which errors of connecting are tried again.
    pub(crate) fn of(error: &BrokerError) -> Self {
        match error {
            BrokerError::Unreachable { .. } | BrokerError::Timeout { .. } => Self::TryAgain,
            // A broker that starts says of a virtual host that it is down.
            BrokerError::Rejected { reply: Some(reply), .. }
                if reply.code == i64::from(AMQPHardError::INTERNALERROR.get_id()) =>
            {
                Self::TryAgain
            }
            BrokerError::Rejected { .. }
            | BrokerError::AuthenticationFailed { .. }
            | BrokerError::QueueNotFound { .. }
            | BrokerError::QueueFull { .. }
            | BrokerError::InDoubt { .. }
            | BrokerError::Unsupported { .. }
            | BrokerError::MessageTooLarge { .. }
            | BrokerError::PoolTimeout => Self::Nothing,
        }
    }
}

/// Why there is no connection. Each holds what the gateway says of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// No address answered before the timeout of the configuration or the deadline.
    #[error("{0}")]
    ConnectionTimeout(BrokerError),
    /// The broker refused the user or the password.
    #[error("{0}")]
    AuthenticationError(BrokerError),
    /// Nobody listens, the connection broke, or the broker refused something else, as the virtual host.
    #[error("{0}")]
    Other(BrokerError),
}

impl ConnectionError {
    pub(crate) fn timeout() -> Self {
        Self::from(Failure::Deadline)
    }

    pub(crate) fn lost() -> Self {
        Self::Other(BrokerError::Unreachable { detail: "the connection to RabbitMQ was lost".to_owned() })
    }

    /// As the last of several rounds of attempts; the caller learns how many there were.
    pub(crate) fn after(mut self, rounds: u64, took: Duration) -> Self {
        if rounds > 1
            && let Self::ConnectionTimeout(error) | Self::AuthenticationError(error) | Self::Other(error) =
                &mut self
            && let BrokerError::Unreachable { detail } | BrokerError::Timeout { detail } = error
        {
            let _ = write!(detail, " (tried {rounds} times in {:.1} s)", took.as_secs_f64());
        }
        self
    }

    /// Whether another attempt may fare better: not where the broker refused what will be asked of it again.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::ConnectionTimeout(_) => true,
            Self::AuthenticationError(error) | Self::Other(error) => Remedy::of(error) == Remedy::TryAgain,
        }
    }
}

impl From<StepError> for ConnectionError {
    fn from(failure: StepError) -> Self {
        match failure.error {
            error @ BrokerError::AuthenticationFailed { .. } => Self::AuthenticationError(error),
            error @ BrokerError::Timeout { .. } => Self::ConnectionTimeout(error),
            error if failure.timed_out => Self::ConnectionTimeout(error),
            error => Self::Other(error),
        }
    }
}

impl From<Failure> for ConnectionError {
    /// What a round trip on an open connection says of it.
    fn from(failure: Failure) -> Self {
        let is_timeout = matches!(failure, Failure::Deadline);
        let error = failure.into_error(During::Connection);
        if is_timeout { Self::ConnectionTimeout(error) } else { Self::Other(error) }
    }
}

impl From<ConnectionError> for BrokerError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ConnectionTimeout(error)
            | ConnectionError::AuthenticationError(error)
            | ConnectionError::Other(error) => error,
        }
    }
}

/// Why a pool gave no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Every connection that the pool may have was in use.
    #[error("no connection to the broker became free in time")]
    PoolTimeout,
    #[error("the pool is closed")]
    Closed,
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

impl From<PoolError> for BrokerError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::PoolTimeout => Self::PoolTimeout,
            PoolError::Closed => Self::Unreachable { detail: error.to_string() },
            PoolError::Connection(error) => error.into(),
        }
    }
}

/// What `error` means to a caller.
pub(crate) fn classify(error: &lapin::Error, during: During<'_>) -> BrokerError {
    let lost = |detail: &str| BrokerError::Unreachable { detail: detail.to_owned() };
    let rejected = |detail: &str| BrokerError::Rejected { detail: detail.to_owned(), reply: None };
    match (error.kind(), during) {
        (ErrorKind::ProtocolError(refusal), during) => classify_reply(refusal, during),
        (ErrorKind::ParsingError(_) | ErrorKind::InvalidProtocolVersion(_), During::LogIn { .. }) => {
            lost("what listens there does not speak AMQP 0-9-1")
        }
        (ErrorKind::ParsingError(_) | ErrorKind::InvalidProtocolVersion(_), _) => {
            rejected("RabbitMQ sent a frame that the client cannot read")
        }
        (ErrorKind::IOError(_), During::LogIn { .. }) => lost("the connection broke during the login"),
        (
            ErrorKind::IOError(_)
            | ErrorKind::MissingHeartbeatError
            | ErrorKind::InvalidConnectionState(_)
            | ErrorKind::InvalidChannel(_)
            | ErrorKind::InvalidChannelState(..)
            | ErrorKind::RuntimeShutdownError(_),
            _,
        ) => lost("the connection to RabbitMQ was lost"),
        (ErrorKind::SerialisationError(_), _) => {
            BrokerError::Unsupported { detail: "the message cannot be encoded in AMQP".to_owned() }
        }
        (ErrorKind::AuthProviderError(_), _) => BrokerError::AuthenticationFailed {
            detail: "the login could not be prepared".to_owned(),
            reply: None,
        },
        (ErrorKind::ChannelsLimitReached, _) => rejected("no channel is free on the connection"),
        (ErrorKind::FutureCompleted | ErrorKind::NoDefaultRuntime, _) => {
            rejected("the AMQP client was used wrongly")
        }
        // The library may add kinds; what they mean is not known.
        (_, _) => rejected("the AMQP client failed in a way that is not known"),
    }
}

fn classify_reply(error: &AMQPError, during: During<'_>) -> BrokerError {
    use AMQPErrorKind::{Hard, Soft};
    let said = error.get_message().as_str();
    let reply = Some(reply(error));
    let rejected = |reply| BrokerError::Rejected { detail: format!("RabbitMQ refused: {said}"), reply };
    match (error.kind(), during) {
        (Soft(AMQPSoftError::ACCESSREFUSED), During::LogIn { .. }) => BrokerError::AuthenticationFailed {
            detail: "RabbitMQ refused the user or the password".to_owned(),
            reply,
        },
        (Hard(AMQPHardError::NOTALLOWED), During::LogIn { vhost }) => BrokerError::Rejected {
            detail: format!("RabbitMQ refused the virtual host `{vhost}`: {said}"),
            reply,
        },
        (Soft(AMQPSoftError::NOTFOUND), During::Queue(queue)) => {
            BrokerError::QueueNotFound { queue: queue.clone() }
        }
        (Soft(AMQPSoftError::CONTENTTOOLARGE), _) => {
            BrokerError::MessageTooLarge { detail: format!("RabbitMQ refused: {said}") }
        }
        (Soft(AMQPSoftError::PRECONDITIONFAILED), _) if said.contains("message size") => {
            BrokerError::MessageTooLarge { detail: format!("RabbitMQ refused: {said}") }
        }
        (Hard(AMQPHardError::NOTIMPLEMENTED), _) => {
            BrokerError::Unsupported { detail: format!("RabbitMQ cannot do this: {said}") }
        }
        (Hard(AMQPHardError::CONNECTIONFORCED), _) => {
            BrokerError::Unreachable { detail: format!("RabbitMQ closed the connection: {said}") }
        }
        (
            Soft(
                AMQPSoftError::ACCESSREFUSED
                | AMQPSoftError::NOTFOUND
                | AMQPSoftError::RESOURCELOCKED
                | AMQPSoftError::PRECONDITIONFAILED
                | AMQPSoftError::NOROUTE
                | AMQPSoftError::NOCONSUMERS,
            )
            | Hard(
                AMQPHardError::INVALIDPATH
                | AMQPHardError::FRAMEERROR
                | AMQPHardError::SYNTAXERROR
                | AMQPHardError::COMMANDINVALID
                | AMQPHardError::CHANNELERROR
                | AMQPHardError::UNEXPECTEDFRAME
                | AMQPHardError::RESOURCEERROR
                | AMQPHardError::NOTALLOWED
                | AMQPHardError::INTERNALERROR,
            ),
            _,
        ) => rejected(reply),
    }
}

fn reply(error: &AMQPError) -> BrokerReply {
    BrokerReply {
        product: PRODUCT.to_owned(),
        code: i64::from(error.get_id()),
        name: reply_name(error.kind()).to_owned(),
    }
}

/// A refused publish. `basic.nack` carries no reply code, so this is the method's own number in its class (RabbitMQ's
/// extension of AMQP 0-9-1: class 60, method 120).
pub(crate) fn nack() -> BrokerReply {
    BrokerReply { product: PRODUCT.to_owned(), code: 120, name: "basic.nack".to_owned() }
}

/// The name that the AMQP specification gives a reply code.
fn reply_name(kind: &AMQPErrorKind) -> &'static str {
    match kind {
        AMQPErrorKind::Soft(kind) => match kind {
            AMQPSoftError::CONTENTTOOLARGE => "CONTENT_TOO_LARGE",
            AMQPSoftError::NOROUTE => "NO_ROUTE",
            AMQPSoftError::NOCONSUMERS => "NO_CONSUMERS",
            AMQPSoftError::ACCESSREFUSED => "ACCESS_REFUSED",
            AMQPSoftError::NOTFOUND => "NOT_FOUND",
            AMQPSoftError::RESOURCELOCKED => "RESOURCE_LOCKED",
            AMQPSoftError::PRECONDITIONFAILED => "PRECONDITION_FAILED",
        },
        AMQPErrorKind::Hard(kind) => match kind {
            AMQPHardError::CONNECTIONFORCED => "CONNECTION_FORCED",
            AMQPHardError::INVALIDPATH => "INVALID_PATH",
            AMQPHardError::FRAMEERROR => "FRAME_ERROR",
            AMQPHardError::SYNTAXERROR => "SYNTAX_ERROR",
            AMQPHardError::COMMANDINVALID => "COMMAND_INVALID",
            AMQPHardError::CHANNELERROR => "CHANNEL_ERROR",
            AMQPHardError::UNEXPECTEDFRAME => "UNEXPECTED_FRAME",
            AMQPHardError::RESOURCEERROR => "RESOURCE_ERROR",
            AMQPHardError::NOTALLOWED => "NOT_ALLOWED",
            AMQPHardError::NOTIMPLEMENTED => "NOT_IMPLEMENTED",
            AMQPHardError::INTERNALERROR => "INTERNAL_ERROR",
        },
    }
}
