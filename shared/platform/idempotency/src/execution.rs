//! Granted claims, as the claiming function sends them to the function that does the work, and the
//! outcomes of executions.

use std::fmt::Display;
use std::time::Duration;

use api::Reply;
use api::idempotency_key::Fingerprint;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::claim::ClaimRequest;
use crate::protocol::{Arrival, Place, PlaceHistory, Progress, Record, Token};

/// Granted claim: the right to execute a request. Its holder is the only writer of the idempotency
/// record until the lease ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    pub(crate) pk: String,
    pub(crate) owner: String,
    pub(crate) attempt: u32,
    /// Latest time at which the work may start, in epoch milliseconds by the worker's clock, which
    /// may be ahead of the claiming function's by [`Self::SKEW`].
    pub start_before: i64,
    pub(crate) retention_seconds: u64,
    /// Type of the work to execute, such as `PRODUCE`.
    pub operation: String,
    /// Id of the tenant that sent the request.
    pub tenant: String,
    /// Idempotency key of the client, in canonical spelling.
    pub idempotency_key: String,
    /// Target of the work, such as a queue as `<queueManager>:<queue>`; may be empty.
    pub target: String,
    /// Trace id of the request that made this attempt.
    pub trace_id: String,
    /// Trace id of the first attempt's request; `None` if it is equal to `trace_id`, or was not
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_trace_id: Option<String>,
    /// Fingerprint of the request's body, the same in every attempt.
    pub fingerprint: Fingerprint,
    /// Time of the first attempt's claim.
    pub created_at: Timestamp,
    /// Time at which this attempt was claimed.
    pub(crate) claimed_at: Timestamp,
    /// Progress that earlier attempts recorded, with which this attempt starts.
    pub progress: Progress,
    /// Place (for example a queue) where the units of `progress` (for example messages) were done,
    /// and the units that earlier attempts did, or may have done, at other places.
    #[serde(default, rename = "whereabouts")]
    pub place_history: PlaceHistory,
}

impl Execution {
    /// Time after a claim within which the worker accepts the work, however much the clocks differ.
    /// The worker's limit by its own clock is longer by [`Self::SKEW`], because this clock may be
    /// ahead of the claim's.
    pub const START_WITHIN: Duration = Duration::from_secs(3);
    /// Maximum duration of the work: the timeout of the function that does it.
    pub const WORK: Duration = Duration::from_secs(24);
    /// Maximum difference between the clocks of two functions.
    pub const SKEW: Duration = Duration::from_secs(5);

    /// Returns the duration of a lease, during which no other attempt can claim the record. Work
    /// that starts in time ends within it.
    ///
    /// The clock skew counts twice. The worker's clock may be ahead of the claim's, so the worker
    /// accepts work for that much longer than [`Self::START_WITHIN`]. And the clock of the next
    /// claim may be ahead of the worker's. Let the claim be at 0 by its own clock, and let the
    /// worker's clock be ahead of it by `w`, and the next claim's by `t`. Then the work ends at
    /// `START_WITHIN + SKEW - w + WORK` at the latest, and the next claim succeeds at `lease - t`
    /// at the earliest. As `t - w` is at most `SKEW`, this lease is long enough.
    #[must_use]
    pub const fn lease() -> Duration {
        Self::start_bound().saturating_add(Self::WORK).saturating_add(Self::SKEW)
    }

    /// Returns the maximum time between a claim and the start of its work by the worker's clock,
    /// which may be ahead of the claim's by [`Self::SKEW`].
    const fn start_bound() -> Duration {
        Self::START_WITHIN.saturating_add(Self::SKEW)
    }

    /// Builds the execution from the record that a claim or takeover of this request has just
    /// written.
    pub(crate) fn granted(request: &ClaimRequest<'_>, record: &Record) -> Self {
        Self {
            pk: request.pk(),
            owner: record.owner.clone(),
            attempt: record.attempt,
            start_before: (record.updated_at + Self::start_bound()).as_millisecond(),
            retention_seconds: request.retention.as_secs(),
            operation: request.operation.to_string(),
            tenant: request.tenant.to_owned(),
            idempotency_key: request.key.to_string(),
            target: request.target.to_owned(),
            trace_id: request.trace_id.to_owned(),
            first_trace_id: record.trace_id.clone().filter(|first| first != request.trace_id),
            fingerprint: request.fingerprint.clone(),
            created_at: record.created_at,
            claimed_at: record.updated_at,
            progress: record.progress,
            place_history: record.place_history.clone(),
        }
    }

    /// Returns the execution with the progress with which it begins at `place` (for example a
    /// queue), and true if the record must be updated first: see [`Arrival::has_moved`].
    pub(crate) fn at(&self, place: Place) -> (Self, bool) {
        let Arrival { progress, place_history, has_moved } = self.place_history.arrive(self.progress, place);
        (Self { progress, place_history, ..self.clone() }, has_moved)
    }

    /// Returns the remaining time of this claim's lease, during which no other attempt can claim
    /// the record; zero after its end.
    #[must_use]
    pub fn lease_left(&self, now: Timestamp) -> Duration {
        Duration::try_from((self.claimed_at + Self::lease()).duration_since(now)).unwrap_or_default()
    }

    /// Returns the trace id of the first attempt's request.
    #[must_use]
    pub fn first_trace_id(&self) -> &str {
        self.first_trace_id.as_deref().unwrap_or(&self.trace_id)
    }

    /// Returns the number of attempts at the request before this one.
    #[must_use]
    pub const fn earlier_attempts(&self) -> u32 {
        self.attempt.saturating_sub(1)
    }

    /// True if at `now`, by the worker's clock, it is too late to start the work.
    #[must_use]
    pub fn is_stale(&self, now: Timestamp) -> bool {
        now.as_millisecond() > self.start_before
    }

    /// Returns the outcome of an attempt that failed before it did any unit of work.
    #[must_use]
    pub fn failed(&self, error: &impl Display) -> Outcome {
        Outcome::Failed { error: error.to_string(), progress: self.progress, in_doubt: 0 }
    }

    pub(crate) fn token(&self) -> Token {
        Token { owner: self.owner.clone(), attempt: self.attempt }
    }

    pub(crate) fn retention(&self) -> Duration {
        Duration::from_secs(self.retention_seconds)
    }
}

/// Outcome of an execution. [`Store::end`](crate::Store::end) writes it to the idempotency record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The work was done. A retry of the request gets this response.
    Completed(Reply),
    /// The work was done. A retry of the request gets the response that was
    /// [prepared](crate::Store::prepare).
    AsPrepared,
    /// The work failed. A retry of the request executes it again, from the progress of this
    /// attempt.
    Failed {
        /// Description of the failure, for people who read the record.
        error: String,
        /// Progress of this attempt and earlier ones, from which a retry resumes.
        progress: Progress,
        /// Maximum number of units (for example messages) that this attempt may have done besides
        /// those known to be done. `progress.in_doubt` also counts those of earlier attempts.
        in_doubt: u64,
    },
}

/// Volume of the work that all attempts at a request did, for the usage statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Number of messages that were put, got or moved.
    pub messages: u64,
    /// Bytes of the message bodies; 0 if the work does not see them.
    pub bytes: u64,
}

impl Volume {
    /// Returns the sum of two volumes.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::Transition;
    use crate::{IdempotencyKey, KeyForm, OperationType};

    /// Builds an execution that was claimed at second 100 by the claiming function's clock.
    fn execution(retention: Duration) -> (Execution, Record) {
        let fingerprint = Fingerprint::of(&json!({})).unwrap();
        let now = Timestamp::from_second(100).unwrap();
        let (request_hash, owner) = (fingerprint.to_string(), "owner".to_owned());
        let claim = Transition::Claim { request_hash, owner, now, retention };
        let record = claim.apply(None).unwrap();
        let request = ClaimRequest {
            operation: OperationType::named("PRODUCE"),
            tenant: "tenant",
            key: &IdempotencyKey::parse("5c1e0a56-4a58-4aaf-9359-83ec8f663f10", KeyForm::Uuid).unwrap(),
            fingerprint: &fingerprint,
            rights: None,
            target: "",
            key_name: "",
            trace_id: "",
            retention,
        };
        (Execution::granted(&request, &record), record)
    }

    #[test]
    fn work_that_comes_in_time_is_not_stale_by_any_clock_within_the_skew() {
        let (execution, _) = execution(Duration::from_secs(60));
        for (after, ahead) in [(0, 0), (0, 5), (3, 5), (3, -5), (8, 0)] {
            let now = Timestamp::from_second(100 + after + ahead).unwrap();
            assert!(!execution.is_stale(now), "{after} s after the claim, {ahead} s ahead");
        }
        for (after, ahead) in [(9, 0), (4, 5), (14, -5)] {
            let now = Timestamp::from_second(100 + after + ahead).unwrap();
            assert!(execution.is_stale(now), "{after} s after the claim, {ahead} s ahead");
        }
    }

    #[test]
    fn every_attempt_knows_the_trace_id_of_the_first() {
        let (execution, mut record) = execution(Duration::from_secs(60));
        assert_eq!(execution.first_trace_id(), execution.trace_id);
        record.trace_id = Some("first".to_owned());
        let Transition::TakeOver { first_trace_id, .. } =
            Transition::take_over(&record, "second", Timestamp::from_second(200).unwrap(), Duration::ZERO)
        else {
            panic!("a takeover")
        };
        assert_eq!(first_trace_id.as_deref(), Some("first"));
        let taken_over = Execution { first_trace_id, ..execution };
        assert_eq!(taken_over.first_trace_id(), "first");
    }

    #[test]
    fn nothing_that_starts_outlives_its_lease_by_any_clock_within_the_skew() {
        let (execution, record) = execution(Duration::from_secs(60));
        let skew = i64::try_from(Execution::SKEW.as_millis()).unwrap();
        let work = i64::try_from(Execution::WORK.as_millis()).unwrap();
        // By the claim's clock; the two others differ from it and from each other by the skew at
        // most.
        for (worker, successor) in
            [(-skew, 0), (0, skew), (skew, skew), (-skew, -skew), (-skew / 2, skew / 2)]
        {
            let ends = execution.start_before - worker + work;
            let taken_over = record.lease_expires_at - successor;
            assert!(ends <= taken_over, "{worker} {successor}: {ends} {taken_over}");
        }
    }

    /// Checks that a record expires after its lease even if its retention is shorter. DynamoDB may
    /// delete an item whose TTL has passed, regardless of the lease.
    #[test]
    fn a_record_that_is_kept_for_a_second_does_not_expire_before_its_lease() {
        let (_, record) = execution(Duration::from_secs(1));
        assert!(record.expires_at.as_millisecond() >= record.lease_expires_at);
    }
}
