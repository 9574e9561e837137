//! The right to execute, as it travels to the one who does.

use std::time::Duration;

use api::Reply;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;

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
    pub tenant: String,
    pub idempotency_key: String,
    pub fingerprint: Fingerprint,
    /// When the first claim was made; the same in every takeover.
    pub created_at: Timestamp,
    /// When this attempt was claimed.
    pub(crate) claimed_at: Timestamp,
    /// How many messages an earlier attempt is known to have put.
    pub checkpoint: u64,
    /// How many messages after the checkpoint earlier attempts may have put as well, at most.
    pub in_doubt: u64,
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

    /// How long this claim still keeps others out.
    pub fn lease_left(&self, now: Timestamp) -> Duration {
        Duration::try_from((self.claimed_at + Self::lease()).duration_since(now)).unwrap_or_default()
    }

    /// Whether it is too late to start.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        now.as_millisecond() > self.start_before
    }
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Retries are answered with this reply.
    Completed(Reply),
    /// Retries run again, after the first `checkpoint` messages; `in_doubt` more may have been put.
    Failed { error: String, checkpoint: u64, in_doubt: u64 },
}
