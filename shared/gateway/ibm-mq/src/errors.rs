//! Converts MQI calls that IBM's client library or the queue manager refused to errors for the
//! caller.

use broker::Step;
use libmqm_sys as mqi;
use mq::{BrokerError, BrokerKind, BrokerReply, QueueName};

use crate::key_repository::Malformed;
use crate::mqi::Refusal;
use crate::reason::{Kind, Reason};

/// Operation that was in progress when an error occurred, which decides the kind and the text of
/// the error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum During<'a> {
    /// Connecting to the queue manager of this name, including the login.
    LogIn {
        queue_manager: &'a str,
    },
    Queue(&'a QueueName),
    /// Operation that concerns the connection, but no queue.
    Connection,
}

impl During<'_> {
    fn what(self) -> String {
        match self {
            Self::LogIn { queue_manager: "" } => "IBM MQ gave no connection".to_owned(),
            Self::LogIn { queue_manager } => format!("IBM MQ gave no connection to `{queue_manager}`"),
            Self::Queue(queue) => format!("IBM MQ refused an operation on the queue `{queue}`"),
            Self::Connection => "IBM MQ refused an operation".to_owned(),
        }
    }
}

/// Returns the step of connecting that failed with this error.
pub(crate) fn step_of(error: &BrokerError) -> Step {
    if error.cause().is_some_and(|cause| cause.is::<Malformed>()) {
        return Step::Tls;
    }
    let Some(refusal) = refusal_of(error) else { return Step::Connect };
    match refusal.reason {
        mqi::MQRC_NOT_AUTHORIZED
        | mqi::MQRC_SECURITY_ERROR
        | mqi::MQRC_CONNECTION_NOT_AUTHORIZED
        | mqi::MQRC_CHANNEL_BLOCKED
        | mqi::MQRC_CSP_ERROR
        | mqi::MQRC_PASSWORD_PROTECTION_ERROR
        | mqi::MQRC_Q_MGR_NAME_ERROR => Step::Authenticate,
        mqi::MQRC_SCO_ERROR..=mqi::MQRC_SSL_PEER_NAME_ERROR
        | mqi::MQRC_UNSUPPORTED_CIPHER_SUITE
        | mqi::MQRC_SSL_CERTIFICATE_REVOKED
        | mqi::MQRC_SSL_CERT_STORE_ERROR
        | mqi::MQRC_CHANNEL_SSL_ERROR
        | mqi::MQRC_SSL_ALT_PROVIDER_REQUIRED
        | mqi::MQRC_CERT_LABEL_NOT_ALLOWED => Step::Tls,
        _ => Step::Connect,
    }
}

/// Returns the failed MQI call that caused the error, with its reason code; `None` for other
/// errors.
pub(crate) fn refusal_of(error: &BrokerError) -> Option<&Refusal> {
    error.cause().and_then(|cause| cause.downcast_ref::<Refusal>())
}

impl Refusal {
    pub(crate) fn into_error(self, during: During<'_>) -> BrokerError {
        let Reason { code, name, kind, words } = Reason::of(self.reason);
        let detail = format!("{} ({code}, {name}). {words}", during.what());
        let error = match (kind, during) {
            (Kind::Authentication, During::LogIn { .. }) => BrokerError::authentication_failed(detail),
            (Kind::UnknownQueue, During::Queue(queue)) => BrokerError::queue_not_found(queue.clone()),
            (Kind::UnknownQueue | Kind::Authentication | Kind::Rejected, _) => BrokerError::rejected(detail),
            (Kind::Full, _) => BrokerError::queue_full(detail),
            (Kind::Unreachable, _) => BrokerError::unreachable(detail),
            (Kind::TooLarge, _) => BrokerError::too_large(detail),
            (Kind::Unsupported, _) => BrokerError::unsupported(detail),
            (Kind::InDoubt, _) => BrokerError::in_doubt(detail),
        };
        let reply = BrokerReply { product: BrokerKind::IbmMq.product(), code: code.into(), name };
        error.with_reply(reply).caused_by(self)
    }

    /// True if the connection can be used further after this refused call: it still exists, and the
    /// client library is in a known state.
    pub(crate) fn spares_the_connection(self) -> bool {
        let is_unknown = matches!(
            self.reason,
            mqi::MQRC_UNEXPECTED_ERROR | mqi::MQRC_CALL_IN_PROGRESS | mqi::MQRC_STORAGE_NOT_AVAILABLE
        );
        !is_unknown && !matches!(Reason::of(self.reason).kind, Kind::Unreachable | Kind::InDoubt)
    }

    /// True if an MQCMIT with this reason may have committed. False if the queue manager reports a
    /// backout, or the library refused to make the call.
    pub(crate) fn may_have_committed(self) -> bool {
        !matches!(
            self.reason,
            mqi::MQRC_BACKED_OUT
                | mqi::MQRC_HCONN_ERROR
                | mqi::MQRC_ENVIRONMENT_ERROR
                | mqi::MQRC_FUNCTION_NOT_SUPPORTED
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqi::Verb;

    fn queue() -> QueueName {
        QueueName::try_from("ORDERS".to_owned()).unwrap()
    }

    fn refusal(reason: mqi::MQLONG) -> Refusal {
        Refusal::failed(Verb::Put, reason)
    }

    #[test]
    fn a_refusal_tells_its_code_its_name_and_what_to_do() {
        let queue = queue();
        let error = refusal(2053).into_error(During::Queue(&queue));
        assert!(matches!(error, BrokerError::QueueFull { .. }), "{error:?}");
        let reply = error.reply().unwrap();
        assert_eq!((reply.product, reply.code, reply.name), ("IBM MQ", 2053, "MQRC_Q_FULL"));
        let text = error.to_string();
        assert!(text.contains("ORDERS") && text.contains("2053, MQRC_Q_FULL") && text.contains("MAXDEPTH"));
        // If a response has no member for the code, its text contains it.
        let error = refusal(2538).into_error(During::LogIn { queue_manager: "QM1" });
        assert!(error.to_string().contains("`QM1` (2538, MQRC_HOST_NOT_AVAILABLE)"), "{error}");
    }

    #[test]
    fn the_same_code_is_a_wrong_login_at_a_connection_and_a_refusal_at_a_queue() {
        let queue = queue();
        let at_login = refusal(2035).into_error(During::LogIn { queue_manager: "QM1" });
        assert!(matches!(at_login, BrokerError::AuthenticationFailed { .. }), "{at_login:?}");
        let at_queue = refusal(2035).into_error(During::Queue(&queue));
        assert!(matches!(at_queue, BrokerError::Rejected { .. }), "{at_queue:?}");
    }

    #[test]
    fn a_queue_is_not_found_only_if_it_is_the_one_that_was_named() {
        let queue = queue();
        let missing = refusal(2085).into_error(During::Queue(&queue));
        assert!(matches!(missing, BrokerError::QueueNotFound { .. }), "{missing:?}");
        for other in [2082, 2087, 2196] {
            let error = refusal(other).into_error(During::Queue(&queue));
            assert!(matches!(error, BrokerError::Rejected { .. }), "{error:?}");
        }
    }

    #[test]
    fn a_commit_is_in_doubt_unless_it_certainly_did_not_happen() {
        for reason in [2003, 2018] {
            assert!(!refusal(reason).may_have_committed(), "{reason}");
        }
        for reason in [2009, 2549, 2122, 2123, 2124, 2162, 2195, 2102, 99_999] {
            assert!(refusal(reason).may_have_committed(), "{reason}");
        }
    }

    #[test]
    fn a_connection_is_used_again_only_if_it_is_known_to_be_well() {
        for reason in [2053, 2085, 2030, 2016] {
            assert!(refusal(reason).spares_the_connection(), "{reason}");
        }
        for reason in [2009, 2018, 2161, 2195, 2219, 2549] {
            assert!(!refusal(reason).spares_the_connection(), "{reason}");
        }
    }
}
