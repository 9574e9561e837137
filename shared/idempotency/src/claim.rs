//! What a claim asks for, and the answers that there are.

use std::time::Duration;

use jiff::Timestamp;
use reply::Reply;

use crate::execution::Execution;
use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;
use crate::protocol::OperationType;

/// A request for the right to execute.
#[derive(Clone, Debug)]
pub struct ClaimRequest<'a> {
    /// What kind of work it is; keys of different kinds never meet, but for the two ways in which a payload comes.
    pub operation: OperationType,
    /// Whose request it is; keys of different tenants never meet. Without `#`.
    pub tenant: &'a str,
    /// The client's key.
    pub key: &'a IdempotencyKey,
    /// What tells the request from another under the key.
    pub fingerprint: &'a Fingerprint,
    /// What the work is done to, for the index by target: `<queueManager>:<queue>`. Of an event, the handler: it is part of the record's key then,
    /// since one event may have several handlers, each of which does its own work once.
    pub target: &'a str,
    /// For logs and the record.
    pub trace_id: &'a str,
    /// How long the result is kept, in whole seconds.
    pub retention: Duration,
}

impl ClaimRequest<'_> {
    pub(crate) fn pk(&self) -> String {
        let Self { operation, tenant, key, target, .. } = self;
        match operation {
            OperationType::Event => format!("{operation}#{tenant}#{key}#{target}"),
            OperationType::Produce
            | OperationType::Consume
            | OperationType::Ingest
            | OperationType::Replay => {
                format!("{operation}#{tenant}#{key}")
            }
            // A tenant's key is one batch's, by whichever way its payload comes.
            OperationType::Upload => format!("{}#{tenant}#{key}", OperationType::Ingest),
        }
    }
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The caller executes.
    Execute(Execution),
    /// It was done before, at `completed_at`; this is the answer.
    Replay { response: Reply, completed_at: Timestamp },
    /// It was prepared by an execution whose lease is over: the response is stored, whether the side effect was made final is not
    /// known, and the response says so. The caller answers with it and [completes](crate::Store::finish) the execution.
    InDoubt { execution: Execution, response: Reply },
    /// The key was used with another body.
    Conflict,
    /// Keys were used with other bodies too often; refused until `retry_after` has passed.
    ReusedTooOften { retry_after: Duration },
    /// The same request is being executed.
    InProgress { retry_after: Duration },
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn pk(operation: OperationType) -> String {
        let key = IdempotencyKey::parse("5C1E0A56-4A58-4AAF-9359-83EC8F663F10").unwrap();
        let fingerprint = Fingerprint::of(&Value::Null).unwrap();
        let retention = Duration::from_secs(1);
        ClaimRequest {
            operation,
            tenant: "t",
            key: &key,
            fingerprint: &fingerprint,
            target: "handler",
            trace_id: "",
            retention,
        }
        .pk()
    }

    #[test]
    fn keys_meet_only_where_they_name_the_same_thing() {
        assert_eq!(pk(OperationType::Produce), "PRODUCE#t#5c1e0a56-4a58-4aaf-9359-83ec8f663f10");
        assert_eq!(pk(OperationType::Event), "EVENT#t#5c1e0a56-4a58-4aaf-9359-83ec8f663f10#handler");
        assert_eq!(pk(OperationType::Ingest), "INGEST#t#5c1e0a56-4a58-4aaf-9359-83ec8f663f10");
        assert_eq!(pk(OperationType::Upload), pk(OperationType::Ingest), "both ways in are one batch");
    }
}
