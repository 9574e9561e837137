//! Failures of operations on a broker. There are three outcomes: work that returns `Ok` was done,
//! work that returns [`BrokerError::InDoubt`] may have been done, and any other error had no effect
//! beyond the messages that the failure counts as committed, such as [`ProduceFailure::committed`].
//!
//! An error has two readers. The caller reads the error's text and the broker's code
//! ([`BrokerReply`]); the text is written here, and contains no secret and no text of a broker, a
//! library or an operating system. The operator reads those other texts in the log, as the
//! [cause](BrokerError::cause). Every variant has a field for the code and a field for the cause.

use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::exchange::ExchangeName;
use crate::message::MessageId;
use crate::names::QueueName;

/// Underlying error of a library, which the operator sees in the log. It is in an `Arc`, so that
/// [`BrokerError`] can be cloned.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// Code with which the broker itself refused a call, for example `{"IBM MQ", 2053, "MQRC_Q_FULL"}`
/// or `{"RabbitMQ", 403, "ACCESS_REFUSED"}`. `name` comes from the product's specification. The
/// text that the broker sent with the code is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "`broker` of `Problem` in openapi.yaml describes each member")]
pub struct BrokerReply {
    pub product: &'static str,
    pub code: i64,
    pub name: &'static str,
}

/// Failure of an operation on a broker. `detail` describes the failure for the caller.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's name or message says what failed")]
pub enum BrokerError {
    #[error("the queue `{queue}` does not exist")]
    QueueNotFound { queue: QueueName, reply: Option<BrokerReply>, source: Option<Cause> },
    #[error("the exchange `{exchange}` does not exist")]
    ExchangeNotFound { exchange: ExchangeName, reply: Option<BrokerReply>, source: Option<Cause> },
    /// No queue is bound to the exchange for a message's routing key, so the message is on no
    /// queue.
    #[error("the exchange `{exchange}` has no queue for the routing key of a message")]
    Unroutable { exchange: ExchangeName, reply: Option<BrokerReply>, source: Option<Cause> },
    #[error("{detail}")]
    AuthenticationFailed { detail: String, reply: Option<BrokerReply>, source: Option<Cause> },
    #[error("{detail}")]
    Rejected { detail: String, reply: Option<BrokerReply>, source: Option<Cause> },
    #[error("{detail}")]
    QueueFull { detail: String, reply: Option<BrokerReply>, source: Option<Cause> },
    /// No address of the target answered, so nothing was sent.
    #[error("{detail}")]
    Unreachable { detail: String, reply: Option<BrokerReply>, source: Option<Cause> },
    /// The operation's deadline passed. Work that was not committed was not done.
    #[error("{detail}")]
    Timeout { detail: String, reply: Option<BrokerReply>, source: Option<Cause> },
    /// The broker was asked to commit, and its answer did not arrive: the work may have been done.
    #[error("{detail}")]
    InDoubt { detail: String, reply: Option<BrokerReply>, source: Option<Cause> },
    /// The broker cannot do the requested work. `pointer` is the JSON Pointer to the member of the
    /// request that asks for it, if one member does.
    #[error("{detail}")]
    Unsupported { detail: String, pointer: Option<String>, reply: Option<BrokerReply>, source: Option<Cause> },
    #[error("{detail}")]
    MessageTooLarge { detail: String, reply: Option<BrokerReply>, source: Option<Cause> },
    /// The target's host is, or resolves to, a loopback, link-local, multicast or unspecified
    /// address that the operator has not listed. No connection was opened.
    #[error("{detail}")]
    AddressRefused { detail: String, reply: Option<BrokerReply>, source: Option<Cause> },
    /// No connection became free while the request waited: all that the pool may open were in use.
    #[error("no connection to the broker became free in time")]
    PoolTimeout { reply: Option<BrokerReply>, source: Option<Cause> },
}

/// Declares constructors of the [`BrokerError`] variants that have a `detail`.
macro_rules! with_detail {
    ($($name:ident => $variant:ident,)+) => {
        $(
            pub fn $name(detail: impl Into<String>) -> Self {
                Self::$variant { detail: detail.into(), reply: None, source: None }
            }
        )+
    };
}

/// Borrows the fields `reply` and `source` of a [`BrokerError`] of any variant.
macro_rules! reply_and_source {
    ($error:expr) => {
        match $error {
            BrokerError::QueueNotFound { reply, source, .. }
            | BrokerError::AuthenticationFailed { reply, source, .. }
            | BrokerError::Rejected { reply, source, .. }
            | BrokerError::QueueFull { reply, source, .. }
            | BrokerError::ExchangeNotFound { reply, source, .. }
            | BrokerError::Unroutable { reply, source, .. }
            | BrokerError::Unreachable { reply, source, .. }
            | BrokerError::Timeout { reply, source, .. }
            | BrokerError::InDoubt { reply, source, .. }
            | BrokerError::Unsupported { reply, source, .. }
            | BrokerError::MessageTooLarge { reply, source, .. }
            | BrokerError::AddressRefused { reply, source, .. }
            | BrokerError::PoolTimeout { reply, source } => (reply, source),
        }
    };
}

#[expect(missing_docs, reason = "a constructor makes the variant of its name, without reply and cause")]
impl BrokerError {
    /// True if the broker may have stopped: it was unreachable, timed out, or left a commit
    /// unanswered.
    #[must_use]
    pub const fn may_mean_a_lost_broker(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Timeout { .. } | Self::InDoubt { .. })
    }

    #[must_use]
    pub fn queue_not_found(queue: QueueName) -> Self {
        Self::QueueNotFound { queue, reply: None, source: None }
    }

    #[must_use]
    pub fn exchange_not_found(exchange: ExchangeName) -> Self {
        Self::ExchangeNotFound { exchange, reply: None, source: None }
    }

    #[must_use]
    pub fn unroutable(exchange: ExchangeName) -> Self {
        Self::Unroutable { exchange, reply: None, source: None }
    }

    #[must_use]
    pub fn pool_timeout() -> Self {
        Self::PoolTimeout { reply: None, source: None }
    }

    with_detail! {
        authentication_failed => AuthenticationFailed,
        rejected => Rejected,
        queue_full => QueueFull,
        unreachable => Unreachable,
        timeout => Timeout,
        in_doubt => InDoubt,
        too_large => MessageTooLarge,
        address_refused => AddressRefused,
    }

    pub fn unsupported(detail: impl Into<String>) -> Self {
        Self::Unsupported { detail: detail.into(), pointer: None, reply: None, source: None }
    }

    pub fn unsupported_member(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let pointer = Some(pointer.into());
        Self::Unsupported { detail: detail.into(), pointer, reply: None, source: None }
    }

    /// Sets the JSON Pointer to the member at fault, if the error is [`Self::Unsupported`].
    #[must_use]
    pub fn at(mut self, member: impl Into<String>) -> Self {
        if let Self::Unsupported { pointer, .. } = &mut self {
            *pointer = Some(member.into());
        }
        self
    }

    /// Sets the code with which the broker refused the call.
    #[must_use]
    pub fn with_reply(mut self, said: BrokerReply) -> Self {
        *self.reply_and_source_mut().0 = Some(said);
        self
    }

    /// Sets the underlying error, which only the operator sees in the log.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        *self.reply_and_source_mut().1 = Some(Arc::new(cause));
        self
    }

    /// Copies the broker reply and the cause of `other` to this error, which is reported in its
    /// place.
    #[must_use]
    pub fn standing_for(mut self, other: &Self) -> Self {
        let (reply, source) = self.reply_and_source_mut();
        (*reply, *source) = (other.reply(), other.cause().cloned());
        self
    }

    /// Appends the number of attempts and their duration to the detail of [`Self::Unreachable`] and
    /// [`Self::Timeout`], if there was more than one attempt.
    #[must_use]
    pub fn after(mut self, attempts: u64, took: Duration) -> Self {
        if attempts > 1
            && let Self::Unreachable { detail, .. } | Self::Timeout { detail, .. } = &mut self
        {
            let _ = write!(detail, " (tried {attempts} times in {:.1} s)", took.as_secs_f64());
        }
        self
    }

    /// Converts the failure to [`Self::InDoubt`], for work that the broker may have done. `detail`
    /// describes the outcome for the caller.
    #[must_use]
    pub fn left_in_doubt(self, detail: impl Into<String>) -> Self {
        Self::InDoubt { detail: detail.into(), reply: self.reply(), source: self.cause().cloned() }
    }

    /// Returns the code with which the broker refused the call, for the caller; `None` without a
    /// refusal.
    #[must_use]
    pub fn reply(&self) -> Option<BrokerReply> {
        *self.reply_and_source().0
    }

    /// Returns the underlying error, which only the operator sees in the log.
    #[must_use]
    pub fn cause(&self) -> Option<&Cause> {
        self.reply_and_source().1.as_ref()
    }

    fn reply_and_source(&self) -> (&Option<BrokerReply>, &Option<Cause>) {
        reply_and_source!(self)
    }

    fn reply_and_source_mut(&mut self) -> (&mut Option<BrokerReply>, &mut Option<Cause>) {
        reply_and_source!(self)
    }

    /// True if another attempt to connect may succeed. Retrying is safe only if nothing was sent.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => true,
            // RabbitMQ reports a virtual host that is down as an internal error (AMQP 0-9-1,
            // section 1.3). While it starts, all of them are.
            Self::Rejected { reply, .. } => reply.is_some_and(|reply| reply.name == "INTERNAL_ERROR"),
            _ => false,
        }
    }
}

/// Failure of a produce. The first `committed` messages of the request are on the queue. Later
/// messages whose ids are in `in_doubt` may be on it, too.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct ProduceFailure {
    /// Error that stopped the produce.
    pub error: BrokerError,
    /// Number of messages that are on the queue, including those that earlier attempts put.
    pub committed: u64,
    /// Ids of the messages that were sent and whose confirmation did not arrive.
    pub in_doubt: Vec<MessageId>,
}

/// Failure of a move. The outcome is unknown for `in_doubt` messages.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct MoveFailure {
    /// Error that ended the move.
    pub error: BrokerError,
    /// Number of messages of unknown outcome: each may be on the source queue, at its destination,
    /// or on both.
    pub in_doubt: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<BrokerError> {
        vec![
            BrokerError::queue_not_found("ORDERS".to_owned().try_into().unwrap()),
            BrokerError::exchange_not_found("orders".to_owned().try_into().unwrap()),
            BrokerError::unroutable("orders".to_owned().try_into().unwrap()),
            BrokerError::authentication_failed("ours"),
            BrokerError::rejected("ours"),
            BrokerError::queue_full("ours"),
            BrokerError::unreachable("ours"),
            BrokerError::timeout("ours"),
            BrokerError::in_doubt("ours"),
            BrokerError::unsupported("ours"),
            BrokerError::too_large("ours"),
            BrokerError::address_refused("ours"),
            BrokerError::pool_timeout(),
        ]
    }

    #[test]
    fn the_caller_reads_our_words_and_the_broker_s_code_and_the_operator_the_cause() {
        for error in all() {
            let before = error.to_string();
            let reply = BrokerReply { product: "RabbitMQ", code: 403, name: "ACCESS_REFUSED" };
            let error = error.with_reply(reply).caused_by(std::io::Error::other("theirs"));
            assert_eq!(error.to_string(), before);
            assert_eq!(error.reply(), Some(reply), "{error:?}");
            assert_eq!(error.source().map(ToString::to_string), Some("theirs".to_owned()));
            assert_eq!(error.cause().map(ToString::to_string), Some("theirs".to_owned()));
            let in_doubt = error.left_in_doubt("nobody knows");
            assert_eq!((in_doubt.to_string().as_str(), in_doubt.reply()), ("nobody knows", Some(reply)));
            assert_eq!(in_doubt.cause().map(ToString::to_string), Some("theirs".to_owned()));
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let transient: Vec<_> = all().into_iter().filter(BrokerError::is_transient).collect();
        assert!(
            matches!(transient[..], [BrokerError::Unreachable { .. }, BrokerError::Timeout { .. }]),
            "{transient:?}"
        );
        let rejected = |code, name| {
            BrokerError::rejected("ours").with_reply(BrokerReply { product: "RabbitMQ", code, name })
        };
        assert!(rejected(541, "INTERNAL_ERROR").is_transient());
        assert!(!rejected(530, "NOT_ALLOWED").is_transient());
    }
}
