//! Conditional writes of an idempotency record.

use std::time::Duration;

use jiff::Timestamp;

use super::place::PlaceHistory;
use super::progress::Progress;
use super::record::{Record, Status, StoredResponse};
use crate::execution::Execution;

/// Token of an execution. The execution's writes succeed only while the record has this token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Unique id of the execution, generated for its claim.
    pub owner: String,
    /// Number of the attempt (execution of the request), from 1.
    pub attempt: u32,
}

/// Conditional write of an idempotency record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are what the write sets, or expects to find")]
pub enum Transition {
    /// Creates a record if there is none, or if the retention and the lease of the existing record
    /// have ended.
    Claim { request_hash: String, owner: String, now: Timestamp, retention: Duration },
    /// Takes a record over for a new attempt, if its token, status and progress have not changed
    /// since it was read: a checkpoint written since then may count further duplicates. Keeps the
    /// creation time, and the status and response of a prepared record. Writes progress and place
    /// together as they were read, so that both belong to the same place.
    TakeOver {
        seen: Token,
        seen_status: Status,
        owner: String,
        now: Timestamp,
        retention: Duration,
        progress: Progress,
        place_history: PlaceHistory,
        first_trace_id: Option<String>,
    },
    /// Records the progress of an attempt that is still executing. The condition fails if the
    /// record already has this progress, or more, at the same place (for example a queue).
    Checkpoint { token: Token, progress: Progress, place_history: PlaceHistory, now: Timestamp },
    /// Stores the response of a record in progress, before the effect of the work (for example that
    /// messages are removed) is made final.
    Prepare { token: Token, response: StoredResponse, now: Timestamp },
    /// Ends the execution with `response`, or with the prepared response if it is `None`. The
    /// retention starts again at `now`.
    Complete { token: Token, response: Option<StoredResponse>, now: Timestamp, retention: Duration },
    /// Ends the execution as failed, and drops a prepared response, so that a retry executes the
    /// request again. The place is recorded only if units are done or in doubt there: see
    /// [`PlaceHistory::after`].
    Fail {
        token: Token,
        progress: Progress,
        place_history: PlaceHistory,
        now: Timestamp,
        retention: Duration,
    },
}

impl Transition {
    /// Builds the takeover of `record` by the execution `owner` at `now`. The record is then kept
    /// for `retention`.
    #[must_use]
    pub fn take_over(record: &Record, owner: &str, now: Timestamp, retention: Duration) -> Self {
        Self::TakeOver {
            seen: Token { owner: record.owner.clone(), attempt: record.attempt },
            seen_status: record.status,
            owner: owner.to_owned(),
            now,
            retention,
            progress: record.next_progress(),
            place_history: record.place_history.clone(),
            first_trace_id: record.trace_id.clone(),
        }
    }

    /// True if the condition of the write holds for the current record.
    #[must_use]
    pub fn permits(&self, current: Option<&Record>) -> bool {
        let Some(record) = current else { return matches!(self, Self::Claim { .. }) };
        let is_of = |token: &Token| record.owner == token.owner && record.attempt == token.attempt;
        match self {
            Self::Claim { now, .. } => record.has_expired(*now),
            Self::TakeOver { seen, seen_status, progress, .. } => {
                let is_as_seen =
                    record.progress.done == progress.done && record.progress.repeated == progress.repeated;
                is_of(seen) && record.status == *seen_status && is_as_seen
            }
            Self::Checkpoint { token, progress, place_history, .. } => {
                let is_further = record.progress.done < progress.done
                    || record.progress.repeated < progress.repeated
                    || record.place_history.place != place_history.place;
                is_of(token) && record.status == Status::InProgress && is_further
            }
            Self::Prepare { token, .. } => is_of(token) && record.status == Status::InProgress,
            Self::Complete { token, response: None, .. } => is_of(token) && record.status == Status::Prepared,
            Self::Complete { token, .. } | Self::Fail { token, .. } => {
                is_of(token) && record.status.is_open()
            }
        }
    }

    /// Returns the record after the write; `None` if the write's condition fails.
    #[must_use]
    pub fn apply(&self, current: Option<&Record>) -> Option<Record> {
        self.permits(current).then_some(())?;
        if let Self::Claim { request_hash, owner, now, retention } = self {
            return Some(claimed(request_hash, owner, *now, *retention));
        }
        let mut record = current?.clone();
        self.change(&mut record);
        Some(record)
    }

    fn change(&self, record: &mut Record) {
        match self {
            Self::Claim { .. } => {}
            Self::TakeOver { seen, seen_status, owner, now, progress, place_history, .. } => {
                record.status =
                    if *seen_status == Status::Prepared { Status::Prepared } else { Status::InProgress };
                record.owner.clone_from(owner);
                record.attempt = seen.attempt.saturating_add(1);
                record.lease_expires_at = lease_end(*now);
                record.progress = *progress;
                record.place_history.clone_from(place_history);
            }
            Self::Checkpoint { progress, place_history, .. } => {
                record.progress = *progress;
                record.place_history.clone_from(place_history);
            }
            Self::Prepare { response, .. } => {
                record.status = Status::Prepared;
                record.response = Some(response.clone());
            }
            Self::Complete { response, .. } => {
                record.status = Status::Completed;
                record.lease_expires_at = 0;
                if response.is_some() {
                    record.response.clone_from(response);
                }
            }
            Self::Fail { progress, place_history, .. } => {
                record.status = Status::Failed;
                record.lease_expires_at = 0;
                record.progress = *progress;
                record.place_history = place_history.after(*progress);
                record.response = None;
            }
        }
        let (updated_at, expires_at) = self.times();
        record.updated_at = updated_at;
        record.expires_at = expires_at.unwrap_or(record.expires_at);
    }

    /// Returns the time of the write, and the record's new expiry if the write changes it.
    pub(crate) fn times(&self) -> (Timestamp, Option<Timestamp>) {
        match self {
            Self::Claim { now, retention, .. } | Self::TakeOver { now, retention, .. } => {
                (*now, Some(kept_until(*now, *retention)))
            }
            Self::Checkpoint { now, .. } | Self::Prepare { now, .. } => (*now, None),
            Self::Complete { now, retention, .. } | Self::Fail { now, retention, .. } => {
                (*now, Some(*now + *retention))
            }
        }
    }

    /// True if the record `found`, which fails this write's condition, shows that the same write
    /// was made before and only DynamoDB's response was lost.
    #[must_use]
    pub fn is_done_in(&self, found: &Record) -> bool {
        let is_of = |token: &Token| found.owner == token.owner && found.attempt == token.attempt;
        match self {
            Self::Claim { owner, .. } | Self::TakeOver { owner, .. } => found.owner == *owner,
            Self::Checkpoint { token, progress, place_history, .. } => {
                is_of(token)
                    && found.place_history.place == place_history.place
                    && found.progress.done >= progress.done
                    && found.progress.repeated >= progress.repeated
            }
            Self::Prepare { token, response, .. } => {
                is_of(token) && found.status == Status::Prepared && found.response.as_ref() == Some(response)
            }
            Self::Complete { token, response, .. } => {
                is_of(token)
                    && found.status == Status::Completed
                    && (response.is_none() || found.response == *response)
            }
            Self::Fail { token, .. } => is_of(token) && found.status == Status::Failed,
        }
    }
}

fn claimed(request_hash: &str, owner: &str, now: Timestamp, retention: Duration) -> Record {
    Record {
        request_hash: request_hash.to_owned(),
        rights: None,
        status: Status::InProgress,
        owner: owner.to_owned(),
        attempt: 1,
        lease_expires_at: lease_end(now),
        created_at: now,
        trace_id: None,
        updated_at: now,
        expires_at: kept_until(now, retention),
        progress: Progress::default(),
        place_history: PlaceHistory::default(),
        response: None,
    }
}

/// Returns the end of the lease of a claim made at `now`, in epoch milliseconds.
pub(crate) fn lease_end(now: Timestamp) -> i64 {
    (now + Execution::lease()).as_millisecond()
}

/// Returns the expiry of a record that is claimed at `now`: the end of its retention, or the end of
/// its lease if that is later.
fn kept_until(now: Timestamp, retention: Duration) -> Timestamp {
    now + retention.max(Execution::lease())
}
