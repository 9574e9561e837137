//! The record's attributes.

use serde::{Deserialize, Serialize};

/// What kind of work a record is for; the first part of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OperationType {
    Produce,
    Consume,
}

impl OperationType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Produce => "PRODUCE",
            Self::Consume => "CONSUME",
        }
    }
}

/// Where an execution stands. Expired is computed, not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    InProgress,
    /// The result is stored and the broker is about to be told; from here on a retry answers with what is stored.
    Prepared,
    Completed,
    /// Nothing happened, or only what the checkpoint says; a retry runs again.
    Failed,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Prepared => "PREPARED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }
}

/// A record as a failed condition returns it: what decides how a retry is answered.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) request_hash: String,
    pub(crate) status: Status,
    pub(crate) owner: String,
    pub(crate) attempt: u32,
    /// Epoch milliseconds; 0 once the execution ended.
    pub(crate) lease_expires_at: i64,
    pub(crate) created_at: jiff::Timestamp,
    pub(crate) updated_at: jiff::Timestamp,
    pub(crate) checkpoint: Option<u64>,
    pub(crate) in_doubt: Option<u64>,
    pub(crate) http_status: Option<u16>,
    pub(crate) response_headers: Option<std::collections::BTreeMap<String, String>>,
    pub(crate) response_payload: Option<String>,
}
