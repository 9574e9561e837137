//! Idempotency record, with the attributes that the protocol uses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::place::PlaceHistory;
use super::progress::Progress;

/// Status of an idempotency record. There is no status for an expired record:
/// [`Record::has_expired`] computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// An attempt is executing the request, or crashed while doing so.
    InProgress,
    /// The response is stored, and the effect of the work (for example that messages are removed)
    /// is about to be made final. A retry gets this response, and the work is not repeated.
    Prepared,
    /// The stored response is final. A retry gets it.
    Completed,
    /// The work failed, or was done only up to the checkpoint. A retry executes it again from
    /// there.
    Failed,
}

impl Status {
    /// All statuses of a record.
    pub const ALL: [Self; 4] = [Self::InProgress, Self::Prepared, Self::Completed, Self::Failed];

    /// Returns the name of the status in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Prepared => "PREPARED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }

    /// True if the record's attempt has not ended, so that it may still write the record.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::InProgress | Self::Prepared)
    }
}

/// Response in the form in which an idempotency record stores it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredResponse {
    /// HTTP status of the response, or a number by which work without HTTP distinguishes its
    /// outcomes.
    pub status: u16,
    /// Headers by lower-case name, without headers that differ in each response, such as the trace
    /// id.
    pub headers: BTreeMap<String, String>,
    /// Digest of the uncompressed body in the format of `Content-Digest` (RFC 9530). The body is
    /// checked against it when it is read.
    pub digest: String,
    /// Body of the response, in the record or in S3.
    pub body: Body,
}

/// Body of a stored response, by the way in which it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Plain text in the record.
    Text(String),
    /// Gzip-compressed text in the record.
    Gzip(Vec<u8>),
    /// Key of an S3 object that holds the gzip-compressed text.
    Object(String),
}

/// Idempotency record: the state of the request that a tenant sent with one key for one operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Fingerprint of the request's body.
    pub request_hash: String,
    /// Fingerprint of the caller's rights at the first claim. `None` if the response does not
    /// depend on rights, or in a record of an earlier version.
    pub rights: Option<String>,
    /// Status of the last attempt at the request, which decides what a retry gets.
    pub status: Status,
    /// Owner token: the id of the execution that claimed or took over the record last.
    pub owner: String,
    /// Number of the present attempt: 1 at the first claim, and one more with each takeover.
    pub attempt: u32,
    /// End of the lease (the time in which no other attempt may start) in epoch milliseconds; 0
    /// after the attempt has ended.
    pub lease_expires_at: i64,
    /// Time of the claim that created the record.
    pub created_at: Timestamp,
    /// Trace id of the first claim's request; `None` if it was not stored.
    pub trace_id: Option<String>,
    /// Time at which the record was last written.
    pub updated_at: Timestamp,
    /// End of the retention. DynamoDB deletes the item some time later.
    pub expires_at: Timestamp,
    /// Units of work (for example messages) that are known to be done, may have been done, or may
    /// have been done twice.
    pub progress: Progress,
    /// Place (for example a queue) of the units that `progress` counts, and the units that earlier
    /// attempts did, or may have done, at other places.
    pub place_history: PlaceHistory,
    /// Stored response; `None` unless the record is prepared or completed.
    pub response: Option<StoredResponse>,
}

impl Record {
    /// True if a new claim may replace the record, because both its retention and its lease have
    /// ended.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now && self.lease_expires_at <= now.as_millisecond()
    }

    /// True if a caller with these rights may get the stored response. A record without rights is
    /// for every caller of the tenant, so retries of requests to an earlier version still succeed.
    #[must_use]
    pub fn answers(&self, rights: Option<&str>) -> bool {
        self.rights.is_none() || self.rights.as_deref() == rights
    }

    /// Returns the progress with which the next attempt begins. If the last attempt ended without a
    /// report, any number of units beyond its checkpoint is in doubt.
    #[must_use]
    pub fn next_progress(&self) -> Progress {
        match self.status {
            Status::Failed => self.progress,
            Status::InProgress | Status::Prepared | Status::Completed => {
                Progress { in_doubt: u64::MAX, ..self.progress }
            }
        }
    }
}
