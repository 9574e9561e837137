//! Conversion of the errors of other crates to the API's problem responses. Each function covers
//! every variant of its error.

use api::{Fault, Problem, Reason};
use mq::{Base64Bytes, BrokerError, ProduceFailure, TargetError};
use serde_json::json;

/// Converts an error of a broker to the problem response; its cause is logged with the problem.
#[must_use]
pub fn from_broker(error: &BrokerError) -> Problem {
    let reason = match error {
        BrokerError::QueueNotFound { .. } | BrokerError::Unroutable { .. } => Reason::QueueNotFound,
        BrokerError::ExchangeNotFound { .. } => Reason::ExchangeNotFound,
        BrokerError::AuthenticationFailed { .. } => Reason::AuthenticationFailed,
        BrokerError::Rejected { .. } => Reason::BrokerRejected,
        BrokerError::QueueFull { .. } => Reason::QueueFull,
        BrokerError::Unreachable { .. } => Reason::BrokerUnreachable,
        BrokerError::Timeout { .. } => Reason::BrokerTimeout,
        BrokerError::InDoubt { .. } => Reason::OutcomeInDoubt,
        BrokerError::Unsupported { .. } => Reason::UnsupportedByBroker,
        BrokerError::MessageTooLarge { .. } => Reason::MessageTooLarge,
        BrokerError::AddressRefused { .. } => Reason::TargetNotAllowed,
        BrokerError::PoolTimeout { .. } => Reason::PoolTimeout,
    };
    let mut problem = Problem::new(reason, error.to_string()).caused_by(error.cause().cloned());
    if let BrokerError::Unsupported { pointer: Some(pointer), detail, .. } = error {
        problem.faults = vec![Fault { pointer: pointer.clone(), detail: detail.clone() }];
    }
    match error.reply() {
        Some(reply) => problem.extension("broker", json!(reply)),
        None => problem,
    }
}

/// Builds the problem of a produce that did not finish. It has the number of messages that are on
/// the queue, the number of those that may be (`in_doubt`), and the ids of the latter as `wire_id`
/// formats them for the broker.
pub fn from_produce(
    failure: &ProduceFailure,
    in_doubt: u64,
    wire_id: impl Fn(&mq::MessageId) -> Vec<u8>,
) -> Problem {
    let problem = from_broker(&failure.error).extension("enqueued", json!(failure.committed));
    if in_doubt == 0 {
        return problem;
    }
    let problem = problem.extension("messagesInDoubt", json!(in_doubt));
    if failure.in_doubt.is_empty() {
        return problem;
    }
    let ids: Vec<_> = failure.in_doubt.iter().map(|id| Base64Bytes::encode(&wire_id(id))).collect();
    problem.extension("msgIdsInDoubtBase64", json!(ids))
}

/// Builds the problem of a move that did not finish. `moved` messages are on their destination
/// queues only; `in_doubt` messages are on the source queue and may be on a destination too.
#[must_use]
pub fn from_move(error: &BrokerError, moved: u64, in_doubt: u64) -> Problem {
    let problem = from_broker(error).extension("moved", json!(moved));
    match in_doubt {
        0 => problem,
        count => problem.extension("messagesInDoubt", json!(count)),
    }
}

/// Converts the error of a target to a problem response. A fault in a profile has the status 503,
/// since no request can correct it.
#[must_use]
pub fn from_target(error: &TargetError) -> Problem {
    match error {
        TargetError::Invalid { pointer, detail } => {
            let fault = Fault { pointer: (*pointer).to_owned(), detail: detail.clone() };
            Problem::faulty(Reason::SchemaViolation, vec![fault])
        }
        // The same problem as for a profile that cannot be read at all.
        TargetError::Profile(_) => Problem::new(Reason::StoreUnavailable, error.to_string()),
        TargetError::NotAllowed(detail) => Problem::new(Reason::TargetNotAllowed, detail.clone()),
        TargetError::SecretNotAllowed(detail) => Problem::new(Reason::SecretNotAllowed, detail.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use api::TraceId;
    use mq::BrokerReply;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_client_reads_what_the_broker_said_and_nothing_of_an_error_s_cause() {
        let reply = BrokerReply { product: "RabbitMQ", code: 403, name: "ACCESS_REFUSED" };
        for error in [
            BrokerError::queue_not_found("ORDERS".to_owned().try_into().unwrap()),
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
        ] {
            let error = error.with_reply(reply).caused_by(std::io::Error::other("theirs"));
            for problem in [
                from_broker(&error),
                from_produce(
                    &ProduceFailure { error: error.clone(), committed: 1, in_doubt: Vec::new() },
                    0,
                    |_| Vec::new(),
                ),
            ] {
                let sent = problem.to_reply(&TraceId::new()).body;
                assert!(!sent.contains("theirs"), "{sent}");
                let sent: Value = serde_json::from_str(&sent).unwrap();
                assert_eq!(sent["detail"], error.to_string());
                assert_eq!(sent["broker"], json!(reply), "{sent}");
                assert_eq!(problem.source().map(ToString::to_string), Some("theirs".to_owned()));
            }
        }
    }
}
