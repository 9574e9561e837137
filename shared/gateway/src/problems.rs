//! Where the errors of the crates below become problems of the contract; one exhaustive function for each.

use api::{BrokerStatement, Fault, Problem, Reason};
use mq::{Base64Bytes, BrokerError, BrokerReply, ProduceFailure, TargetError};
use serde_json::json;

pub fn from_broker(error: &BrokerError) -> Problem {
    let (reason, reply) = match error {
        BrokerError::QueueNotFound { .. } => (Reason::QueueNotFound, &None),
        BrokerError::AuthenticationFailed { reply, .. } => (Reason::AuthenticationFailed, reply),
        BrokerError::Rejected { reply, .. } => (Reason::BrokerRejected, reply),
        BrokerError::QueueFull { reply, .. } => (Reason::QueueFull, reply),
        BrokerError::Unreachable { .. } => (Reason::BrokerUnreachable, &None),
        BrokerError::Timeout { .. } => (Reason::BrokerTimeout, &None),
        BrokerError::InDoubt { .. } => (Reason::OutcomeInDoubt, &None),
        BrokerError::Unsupported { .. } => (Reason::UnsupportedByBroker, &None),
        BrokerError::MessageTooLarge { .. } => (Reason::MessageTooLarge, &None),
        BrokerError::PoolTimeout => (Reason::PoolTimeout, &None),
    };
    Problem::new(reason, error.to_string()).broker(reply.clone().map(statement))
}

/// A produce that did not finish, with what is known to be on the queue and what may be.
pub fn from_produce(failure: &ProduceFailure, wire_id: impl Fn(&mq::MessageId) -> Vec<u8>) -> Problem {
    let problem = from_broker(&failure.error).extension("enqueued", json!(failure.committed));
    if failure.in_doubt.is_empty() {
        return problem;
    }
    let ids: Vec<_> = failure.in_doubt.iter().map(|id| Base64Bytes::encode(&wire_id(id))).collect();
    let count = failure.in_doubt.len();
    problem.extension("messagesInDoubt", json!(count)).extension("msgIdsInDoubtBase64", json!(ids))
}

fn statement(reply: BrokerReply) -> BrokerStatement {
    BrokerStatement { product: reply.product, code: reply.code, name: reply.name }
}

pub fn from_target(error: &TargetError) -> Problem {
    match error {
        TargetError::Invalid { pointer, detail } => {
            let fault = Fault { pointer: (*pointer).to_owned(), detail: detail.clone() };
            Problem::faulty(Reason::SchemaViolation, vec![fault])
        }
        // As for a profile that cannot be read at all.
        TargetError::Profile(_) => Problem::new(Reason::StoreUnavailable, error.to_string()),
        TargetError::NotAllowed(detail) => Problem::new(Reason::TargetNotAllowed, detail.clone()),
        TargetError::SecretNotAllowed(detail) => Problem::new(Reason::SecretNotAllowed, detail.clone()),
    }
}
