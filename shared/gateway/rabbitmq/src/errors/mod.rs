//! Translates the client library's errors into the gateway's vocabulary. No other module does.

mod replies;

use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use mq::{BrokerError, BrokerKind, BrokerReply, QueueName};

use crate::connect::StepError;
use replies::{classify_reply, reply};

pub(crate) use replies::{NACK, NO_ROUTE};

pub(crate) const PRODUCT: &str = BrokerKind::RabbitMq.product();

/// Operation that was in progress when an error occurred, which decides the kind and text of the
/// error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum During<'a> {
    LogIn { vhost: &'a str },
    Queue(&'a QueueName),
    Connection,
}

/// Failure of a request to the broker.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Error of the client library, or a refusal by the broker.
    Amqp(lapin::Error),
    /// The deadline passed before the broker answered.
    Deadline,
}

impl From<lapin::Error> for Failure {
    fn from(error: lapin::Error) -> Self {
        Self::Amqp(error)
    }
}

impl Failure {
    /// True if the broker closed only the channel, so that the connection can still be used.
    pub(crate) fn spares_the_connection(&self) -> bool {
        matches!(self, Self::Amqp(error) if error.is_amqp_soft_error())
    }

    /// True if nothing was sent, because the channel was already closed.
    pub(crate) fn was_not_sent(&self) -> bool {
        matches!(self, Self::Amqp(error) if matches!(
            error.kind(),
            ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidConnectionState(_) | ErrorKind::InvalidChannel(_)
        ))
    }

    /// True if the broker refused an unknown delivery tag on this channel. RabbitMQ closes a
    /// channel with the same code if deliveries were unsettled for too long. Such a close gives
    /// `false`, because the request may have been applied before.
    pub(crate) fn refuses_a_delivery_tag(&self) -> bool {
        matches!(self, Self::Amqp(error) if matches!(error.kind(), ErrorKind::ProtocolError(refusal)
            if *refusal.kind() == AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED)
                && refusal.get_message().as_str().contains("unknown delivery tag")))
    }

    /// Returns the broker's reply code; `None` if the broker did not refuse the request.
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
            Self::Deadline => BrokerError::timeout("RabbitMQ did not answer in time"),
        }
    }
}

/// Reason why there is no usable connection. Each variant contains the gateway's error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectionError {
    /// No address answered before the timeout of the configuration or the deadline.
    #[error(transparent)]
    ConnectionTimeout(BrokerError),
    /// The broker refused the user or the password.
    #[error(transparent)]
    AuthenticationError(BrokerError),
    /// Any other failure: nothing listens at the address, the connection broke, or the broker
    /// refused, for example, the virtual host.
    #[error(transparent)]
    Other(BrokerError),
}

impl ConnectionError {
    /// True if another attempt may succeed. False if the broker would refuse every attempt, as with
    /// a wrong login.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::ConnectionTimeout(_) => true,
            Self::AuthenticationError(error) | Self::Other(error) => error.is_transient(),
        }
    }
}

impl From<StepError> for ConnectionError {
    fn from(failure: StepError) -> Self {
        match Self::from(failure.error) {
            Self::Other(error) if failure.timed_out => Self::ConnectionTimeout(error),
            error => error,
        }
    }
}

impl From<Failure> for ConnectionError {
    /// Converts the failure of a request on an open connection.
    fn from(failure: Failure) -> Self {
        failure.into_error(During::Connection).into()
    }
}

impl From<BrokerError> for ConnectionError {
    fn from(error: BrokerError) -> Self {
        match error {
            error @ BrokerError::AuthenticationFailed { .. } => Self::AuthenticationError(error),
            error @ BrokerError::Timeout { .. } => Self::ConnectionTimeout(error),
            error => Self::Other(error),
        }
    }
}

/// Converts an error of the client library to the error for the caller. The library's text becomes
/// the source, which only operators see.
pub(crate) fn classify(error: &lapin::Error, during: During<'_>) -> BrokerError {
    let classified = match error.kind() {
        ErrorKind::ProtocolError(refusal) => classify_reply(refusal, during),
        kind => classify_kind(kind, during),
    };
    classified.caused_by(error.clone())
}

fn classify_kind(kind: &ErrorKind, during: During<'_>) -> BrokerError {
    match (kind, during) {
        (ErrorKind::ParsingError(_) | ErrorKind::InvalidProtocolVersion(_), During::LogIn { .. }) => {
            BrokerError::unreachable("what listens there does not speak AMQP 0-9-1")
        }
        (ErrorKind::ParsingError(_) | ErrorKind::InvalidProtocolVersion(_), _) => {
            BrokerError::rejected("RabbitMQ sent a frame that the client cannot read")
        }
        (ErrorKind::IOError(_), During::LogIn { .. }) => {
            BrokerError::unreachable("the connection broke during the login")
        }
        (
            ErrorKind::IOError(_)
            | ErrorKind::MissingHeartbeatError
            | ErrorKind::InvalidConnectionState(_)
            | ErrorKind::InvalidChannel(_)
            | ErrorKind::InvalidChannelState(..)
            | ErrorKind::RuntimeShutdownError(_),
            _,
        ) => BrokerError::unreachable("the connection to RabbitMQ was lost"),
        (ErrorKind::SerialisationError(_), _) => {
            BrokerError::unsupported("the message cannot be encoded in AMQP")
        }
        (ErrorKind::AuthProviderError(_), _) => {
            BrokerError::authentication_failed("the login could not be prepared")
        }
        (ErrorKind::ChannelsLimitReached, _) => BrokerError::rejected("no channel is free on the connection"),
        (ErrorKind::FutureCompleted | ErrorKind::NoDefaultRuntime, _) => {
            BrokerError::rejected("the AMQP client was used wrongly")
        }
        // The library may add kinds, whose meaning is unknown here.
        (_, _) => BrokerError::rejected("the AMQP client failed in a way that is not known"),
    }
}

#[cfg(test)]
mod tests {
    use broker::chain;
    use lapin::protocol::{AMQPError, AMQPHardError};

    use super::*;

    /// Text in simulated refusals of the broker, which no error for a caller may contain.
    const THEIRS: &str = "words-of-the-broker";

    fn all_replies() -> Vec<AMQPErrorKind> {
        let all: Vec<_> = (0..=u16::MAX).filter_map(AMQPErrorKind::from_id).collect();
        assert_eq!(all.len(), 18);
        all
    }

    #[test]
    fn a_broker_s_words_are_for_the_log_and_its_code_for_the_caller() {
        let queue = QueueName::try_from("ORDERS".to_owned()).unwrap();
        for kind in all_replies() {
            for during in [During::LogIn { vhost: "/" }, During::Queue(&queue), During::Connection] {
                for said in [THEIRS.to_owned(), format!("message size {THEIRS}")] {
                    let refusal = AMQPError::new(kind.clone(), said.into());
                    let code = i64::from(refusal.get_id());
                    let error = classify(&ErrorKind::ProtocolError(refusal).into(), during);
                    assert!(!error.to_string().contains(THEIRS), "{kind:?} {during:?}: {error}");
                    assert_eq!(error.reply().map(|reply| reply.code), Some(code), "{error:?}");
                    assert!(chain(&error).contains(THEIRS), "{}", chain(&error));
                }
            }
        }
    }

    #[test]
    fn the_limit_that_a_message_exceeds_is_named() {
        let refused = |said: &str| {
            let kind = AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED);
            let refusal = ErrorKind::ProtocolError(AMQPError::new(kind, said.into())).into();
            classify(&refusal, During::Connection).to_string()
        };
        let said = "PRECONDITION_FAILED - message size 25165824 is larger than configured max size 16777216";
        assert!(refused(said).ends_with("its limit is 16777216 bytes (`max_message_size`)"));
        for unknown in ["message size", "message size 99999999999999999999999999"] {
            assert!(refused(unknown).ends_with("larger than RabbitMQ accepts"), "{}", refused(unknown));
        }
    }

    /// Checks that temporary refusals are told from permanent ones, with the error texts of
    /// RabbitMQ's own source.
    #[test]
    fn a_refusal_that_passes_is_told_from_one_that_stays() {
        let refused = |kind: AMQPHardError, said: &str, during| {
            let refusal = AMQPError::new(AMQPErrorKind::Hard(kind), said.into());
            classify(&ErrorKind::ProtocolError(refusal).into(), during)
        };
        let not_allowed = |said: &str| {
            refused(
                AMQPHardError::NOTALLOWED,
                &format!("NOT_ALLOWED - {said}"),
                During::LogIn { vhost: "/v" },
            )
        };
        for (said, limit) in [
            (
                "access to vhost '/v' refused for user 'u': connection limit (20) is reached",
                "connections of the virtual host (20)",
            ),
            (
                "connection refused for user 'u': user connection limit (3) is reached",
                "connections of the user (3)",
            ),
            ("connection refused: node connection limit (1000) is reached", "connections of the node (1000)"),
            (
                "number of channels opened for user 'u' has reached the maximum allowed user limit of (7)",
                "channels of the user (7)",
            ),
            (
                "number of channels opened on node 'rabbit@h' has reached the maximum allowed limit of (9)",
                "channels of the node (9)",
            ),
        ] {
            let error = not_allowed(said);
            assert!(matches!(error, BrokerError::Unreachable { .. }), "{error:?}");
            assert_eq!(error.to_string(), format!("RabbitMQ's limit of {limit} is reached"));
            assert_eq!(error.reply().map(|reply| reply.code), Some(530));
        }
        let down = "INTERNAL_ERROR - access to vhost '/v' refused for user 'u': vhost '/v' is down";
        let down = refused(AMQPHardError::INTERNALERROR, down, During::LogIn { vhost: "/v" });
        assert!(matches!(down, BrokerError::Unreachable { .. }), "{down:?}");
        let resources = refused(AMQPHardError::RESOURCEERROR, "RESOURCE_ERROR", During::Connection);
        assert!(matches!(resources, BrokerError::Unreachable { .. }), "{resources:?}");
        for said in [
            "vhost /v not found",
            "access to vhost '/v' refused for user 'u'",
            "access to vhost '/v' refused for user 'u': the limit of patience is reached",
        ] {
            let error = not_allowed(said);
            assert!(matches!(error, BrokerError::Rejected { .. }), "{error:?}");
            assert_eq!(error.to_string(), "RabbitMQ refused the virtual host `/v`");
        }
    }

    #[test]
    fn an_operating_system_s_words_are_for_the_log() {
        let broken = || lapin::Error::from(std::io::Error::other(THEIRS));
        for during in [During::LogIn { vhost: "/" }, During::Connection] {
            let error = classify(&broken(), during);
            assert!(matches!(error, BrokerError::Unreachable { .. }), "{error:?}");
            assert!(!error.to_string().contains(THEIRS), "{error}");
            assert!(chain(&error).contains(THEIRS), "{}", chain(&error));
        }
    }
}
