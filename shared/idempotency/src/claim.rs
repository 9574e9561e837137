//! What a claim asks for, and the decision that follows from the record in its way.

use std::time::Duration;

use api::Reply;
use jiff::Timestamp;

use crate::execution::Execution;
use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;
use crate::record::{OperationType, Record, Status};

/// A request for the right to execute.
#[derive(Clone, Debug)]
pub struct ClaimRequest<'a> {
    pub operation: OperationType,
    pub tenant: &'a str,
    pub key: &'a IdempotencyKey,
    pub fingerprint: &'a Fingerprint,
    /// `<queueManager>:<queue>`, for the index by target.
    pub target: &'a str,
    pub trace_id: &'a str,
    pub retention: Duration,
}

impl ClaimRequest<'_> {
    pub(crate) fn pk(&self) -> String {
        format!("{}#{}#{}", self.operation.as_str(), self.tenant, self.key)
    }
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The caller executes.
    Execute(Execution),
    /// It was done before, at `completed_at`; this is the answer.
    Replay { reply: Reply, completed_at: Timestamp },
    /// It was prepared by an execution whose lease is over: the reply is stored, whether the broker was told is not
    /// known. The caller answers with it and [completes](crate::Store::finish) the execution.
    InDoubt { execution: Execution, reply: Reply },
    /// The key was used with another body.
    Conflict,
    /// The same request is being executed.
    InProgress { retry_after: Duration },
}

/// The answer that the record in a claim's way gives by itself; `None` is to take its execution over. Another body is
/// a conflict whatever the state.
pub(crate) fn decide(record: &Record, fingerprint: &Fingerprint, now: Timestamp) -> Option<Claimed> {
    if record.request_hash != fingerprint.as_str() {
        return Some(Claimed::Conflict);
    }
    let lease_left = record.lease_expires_at.saturating_sub(now.as_millisecond());
    match (record.status, record.reply()) {
        (Status::Completed, Some(reply)) => Some(Claimed::Replay { reply, completed_at: record.updated_at }),
        (Status::Failed, _) => None,
        _ if lease_left <= 0 => None,
        _ => Some(Claimed::InProgress {
            retry_after: Duration::from_millis(u64::try_from(lease_left).unwrap_or_default()),
        }),
    }
}

impl Record {
    /// What earlier attempts may have done beyond the checkpoint: as much as they recorded, and anything at all where
    /// the last one ended without a word.
    pub(crate) fn doubt(&self) -> u64 {
        match self.status {
            Status::Failed => self.in_doubt.unwrap_or_default(),
            Status::InProgress | Status::Prepared | Status::Completed => u64::MAX,
        }
    }

    pub(crate) fn reply(&self) -> Option<Reply> {
        Some(Reply {
            status: self.http_status?,
            headers: self.response_headers.clone()?,
            body: self.response_payload.clone()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: Status, lease_expires_at: i64) -> Record {
        Record {
            request_hash: "aa".to_owned(),
            status,
            owner: "first".to_owned(),
            attempt: 1,
            lease_expires_at,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            checkpoint: None,
            in_doubt: None,
            http_status: Some(201),
            response_headers: Some([("content-type".to_owned(), "application/json".to_owned())].into()),
            response_payload: Some("{}".to_owned()),
        }
    }

    fn fingerprint(hash: &str) -> Fingerprint {
        serde_json::from_value(serde_json::json!(hash)).unwrap()
    }

    #[test]
    fn another_body_is_a_conflict_in_every_state() {
        for status in [Status::InProgress, Status::Prepared, Status::Completed, Status::Failed] {
            for lease in [0, i64::MAX] {
                let decision = decide(&record(status, lease), &fingerprint("bb"), Timestamp::now());
                assert_eq!(decision, Some(Claimed::Conflict), "{status:?}");
            }
        }
    }

    #[test]
    fn a_running_execution_answers_with_the_rest_of_its_lease() {
        let now = Timestamp::from_millisecond(10_000).unwrap();
        let decision = decide(&record(Status::InProgress, 12_500), &fingerprint("aa"), now);
        let retry_after = Duration::from_millis(2_500);
        assert_eq!(decision, Some(Claimed::InProgress { retry_after }));
    }

    #[test]
    fn what_failed_or_outlived_its_lease_is_taken_over() {
        let now = Timestamp::from_millisecond(10_000).unwrap();
        assert_eq!(decide(&record(Status::Failed, 0), &fingerprint("aa"), now), None);
        assert_eq!(decide(&record(Status::InProgress, 10_000), &fingerprint("aa"), now), None);
        assert_eq!(decide(&record(Status::Prepared, 9_999), &fingerprint("aa"), now), None);
    }

    #[test]
    fn what_was_done_is_replayed_whatever_the_lease_says() {
        let decision = decide(&record(Status::Completed, i64::MAX), &fingerprint("aa"), Timestamp::now());
        assert!(matches!(decision, Some(Claimed::Replay { .. })));
    }
}
