//! Decision about a claim that finds an existing idempotency record.

use std::time::Duration;

use jiff::Timestamp;

use super::record::{Record, Status};
use super::transition::Transition;

/// Decision about a claim that found an existing record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The claim itself has written the record, and only DynamoDB's response to this write was
    /// lost. So the claim is granted.
    Own,
    /// The key was used with another request body before.
    Conflict,
    /// The record is completed. The caller gets the stored response.
    Replay,
    /// An attempt is executing the request, or has crashed, and its lease (the time in which no
    /// other attempt may start) ends after `retry_after`.
    #[expect(missing_docs, reason = "what is left of the lease")]
    InProgress { retry_after: Duration },
    /// The last attempt failed or outlived its lease. This write takes the record over for a new
    /// attempt.
    TakeOver(Transition),
}

/// Decides about a claim that found `record`, at `now` by the claim's clock. `request_hash` is the
/// fingerprint of the claim's request, `owner` its token, and `retention` the time for which a
/// takeover keeps the record. A different fingerprint is a conflict, whatever the status of the
/// record.
#[must_use]
pub fn decide(
    record: &Record,
    request_hash: &str,
    owner: &str,
    now: Timestamp,
    retention: Duration,
) -> Decision {
    if record.request_hash != request_hash {
        return Decision::Conflict;
    }
    if record.owner == owner {
        return Decision::Own;
    }
    let lease_left = record.lease_expires_at.saturating_sub(now.as_millisecond());
    match record.status {
        Status::Completed => Decision::Replay,
        Status::InProgress | Status::Prepared if lease_left > 0 => Decision::InProgress {
            retry_after: Duration::from_millis(u64::try_from(lease_left).unwrap_or_default()),
        },
        Status::Failed | Status::InProgress | Status::Prepared => {
            Decision::TakeOver(Transition::take_over(record, owner, now, retention))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Progress;
    use super::*;

    const RETENTION: Duration = Duration::from_secs(7200);

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn record(status: Status, lease_expires_at: i64) -> Record {
        Record {
            request_hash: "aa".to_owned(),
            rights: None,
            status,
            owner: "first".to_owned(),
            attempt: 1,
            lease_expires_at,
            created_at: at(0),
            trace_id: None,
            updated_at: at(0),
            expires_at: at(i64::from(u32::MAX)),
            progress: Progress::default(),
            place_history: Default::default(),
            response: None,
        }
    }

    fn decided(status: Status, lease_expires_at: i64, request_hash: &str) -> Decision {
        decide(&record(status, lease_expires_at), request_hash, "second", at(10_000), RETENTION)
    }

    #[test]
    fn another_body_is_a_conflict_in_every_state() {
        for status in Status::ALL {
            for lease in [0, i64::MAX] {
                assert_eq!(decided(status, lease, "bb"), Decision::Conflict, "{status:?}");
            }
        }
    }

    #[test]
    fn a_running_execution_answers_with_the_rest_of_its_lease() {
        for status in [Status::InProgress, Status::Prepared] {
            let retry_after = Duration::from_millis(2_500);
            assert_eq!(decided(status, 12_500, "aa"), Decision::InProgress { retry_after });
        }
    }

    #[test]
    fn what_failed_or_outlived_its_lease_is_taken_over() {
        for (status, lease) in [(Status::Failed, 0), (Status::InProgress, 10_000), (Status::Prepared, 9_999)]
        {
            assert!(matches!(decided(status, lease, "aa"), Decision::TakeOver(_)), "{status:?}");
        }
    }

    /// Checks that a completed record is replayed for any end of its lease, even without a readable
    /// response: a retry must not repeat completed work.
    #[test]
    fn what_was_done_is_replayed_whatever_the_lease_says() {
        for lease in [0, i64::MAX] {
            assert_eq!(decided(Status::Completed, lease, "aa"), Decision::Replay);
        }
    }
}
