//! The right to execute, as it travels to the one who does.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::claim::ClaimRequest;
use crate::fingerprint::Fingerprint;
use crate::protocol::{OperationType, Progress, Record, Token};
use crate::response::Response;

/// A claim that was won. Whoever holds it is the record's only writer until the lease ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    pub(crate) pk: String,
    pub(crate) owner: String,
    pub(crate) attempt: u32,
    /// Epoch milliseconds. Work that has not started by then must not start.
    pub start_before: i64,
    pub(crate) retention_seconds: u64,
    /// What kind of work it is.
    pub operation: OperationType,
    /// Whose request it is.
    pub tenant: String,
    /// The client's key, in its one spelling.
    pub idempotency_key: String,
    /// What the work is done to.
    pub target: String,
    /// Of the request that made this attempt.
    pub trace_id: String,
    /// Of the body; the same in every attempt.
    pub fingerprint: Fingerprint,
    /// When the first claim was made; the same in every takeover.
    pub created_at: Timestamp,
    /// When this attempt was claimed.
    pub(crate) claimed_at: Timestamp,
    /// What earlier attempts did.
    pub progress: Progress,
}

impl Execution {
    /// The time between a claim and the last moment at which its work may start.
    pub const START_WITHIN: Duration = Duration::from_secs(3);
    /// The longest that work may take, which is the time-out of the function that does it.
    pub const WORK: Duration = Duration::from_secs(24);
    /// By how much clocks may differ.
    pub const SKEW: Duration = Duration::from_secs(5);

    /// How long a claim keeps others out: nothing that starts in time outlives it.
    pub const fn lease() -> Duration {
        Self::START_WITHIN.saturating_add(Self::WORK).saturating_add(Self::SKEW)
    }

    /// The execution that a record grants to the claim that wrote it last.
    pub(crate) fn granted(request: &ClaimRequest<'_>, record: &Record) -> Self {
        Self {
            pk: request.pk(),
            owner: record.owner.clone(),
            attempt: record.attempt,
            start_before: (record.updated_at + Self::START_WITHIN).as_millisecond(),
            retention_seconds: request.retention.as_secs(),
            operation: request.operation,
            tenant: request.tenant.to_owned(),
            idempotency_key: request.key.to_string(),
            target: request.target.to_owned(),
            trace_id: request.trace_id.to_owned(),
            fingerprint: request.fingerprint.clone(),
            created_at: record.created_at,
            claimed_at: record.updated_at,
            progress: record.progress,
        }
    }

    /// How long this claim still keeps others out.
    pub fn lease_left(&self, now: Timestamp) -> Duration {
        Duration::try_from((self.claimed_at + Self::lease()).duration_since(now)).unwrap_or_default()
    }

    /// Whether it is too late to start.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        now.as_millisecond() > self.start_before
    }

    pub(crate) fn token(&self) -> Token {
        Token { owner: self.owner.clone(), attempt: self.attempt }
    }

    pub(crate) fn retention(&self) -> Duration {
        Duration::from_secs(self.retention_seconds)
    }
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Retries are answered with this response.
    Completed(Response),
    /// Retries are answered with the response that was [prepared](crate::Store::prepare).
    AsPrepared,
    /// Retries run again, from where this execution got to.
    Failed { error: String, progress: Progress },
}
