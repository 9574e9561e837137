//! The record's attributes that the protocol uses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::place::LocationHistory;
use super::progress::Progress;

/// Status of an execution. Expired is computed, not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// An execution holds the lease, or held it when it crashed.
    InProgress,
    /// The response is stored and the side effect is about to be made final; from here on a retry
    /// gets the stored response.
    Prepared,
    /// The response is final, and is replayed.
    Completed,
    /// The work was not done, or only up to the checkpoint; a retry runs again.
    Failed,
}

impl Status {
    /// All states of an execution, each once.
    pub const ALL: [Self; 4] = [Self::InProgress, Self::Prepared, Self::Completed, Self::Failed];

    /// Returns the state's name in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Prepared => "PREPARED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }

    /// True if an execution may still write.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::InProgress | Self::Prepared)
    }
}

/// Response as a record stores it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredResponse {
    /// HTTP status, or any number that distinguishes outcomes.
    pub status: u16,
    /// Headers by lower-case name, without those of each request, such as a trace id.
    pub headers: BTreeMap<String, String>,
    /// Digest of the body as it is sent, in the form of `Content-Digest` (RFC 9530); the body is
    /// checked against it after a read.
    pub digest: String,
    /// Body of the response, checked against `digest` when it is read.
    pub body: Body,
}

/// Body of a stored response, in the record or in an object of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Plain text in the record.
    Text(String),
    /// The body is in the record, compressed.
    Gzip(Vec<u8>),
    /// The body is in the S3 object of that key, compressed.
    Object(String),
}

/// Record of one operation, tenant and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Fingerprint of the request that made the record.
    pub request_hash: String,
    /// Fingerprint of the rights of the caller that made the record. `None` if the work does not
    /// depend on them, or if the record was made before records had them.
    pub rights: Option<String>,
    /// Status of the execution.
    pub status: Status,
    /// Owner: the id of the execution that wrote last, fresh for each.
    pub owner: String,
    /// Number of the attempt: 1 for the claim, and one more with each takeover.
    pub attempt: u32,
    /// End of the lease in epoch milliseconds; 0 once the execution ended.
    pub lease_expires_at: i64,
    /// Time at which the key was first claimed. A takeover keeps it.
    pub created_at: Timestamp,
    /// Trace id of the first request that executed, if the record has one. A takeover keeps it.
    pub trace_id: Option<String>,
    /// Time at which the record was last written.
    pub updated_at: Timestamp,
    /// Time at which the retention ends. DynamoDB deletes the item some time after.
    pub expires_at: Timestamp,
    /// Units of the work that are known to be done, and those that may be.
    pub progress: Progress,
    /// Place of the progress, and the places where earlier attempts left units.
    pub whereabouts: LocationHistory,
    /// Stored response, present while the record is prepared or completed.
    pub response: Option<StoredResponse>,
}

impl Record {
    /// True if a new claim may replace the record: both its retention and its lease have passed.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now && self.lease_expires_at <= now.as_millisecond()
    }

    /// True if a caller with these rights gets the record's response. A record without rights is
    /// for every caller, so that no retry of an earlier version's request is refused.
    #[must_use]
    pub fn answers(&self, rights: Option<&str>) -> bool {
        self.rights.is_none() || self.rights.as_deref() == rights
    }

    /// Returns the progress with which the next attempt begins. If the last one ended without a
    /// report, it may have done any units beyond its checkpoint.
    #[must_use]
    pub fn left_behind(&self) -> Progress {
        match self.status {
            Status::Failed => self.progress,
            Status::InProgress | Status::Prepared | Status::Completed => {
                Progress { in_doubt: u64::MAX, ..self.progress }
            }
        }
    }
}
