//! Errors of reading and writing the usage table.

use std::error::Error;

/// Underlying error of a [`UsageError`], for the log.
type Cause = Box<dyn Error + Send + Sync>;

/// Error of reading or writing the usage table ([`UsageTable`](crate::UsageTable)).
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// DynamoDB did not respond or refused the call. A write may have been made or not. A repeated
    /// write counts nothing twice, except for [approximate](crate::UsageTable::add_approximate)
    /// counters.
    #[error("the usage table is unavailable")]
    Unavailable(#[source] Cause),
    /// An item of the usage table cannot be parsed.
    #[error("the item `{pk}`, `{sk}` of the usage table is malformed")]
    Malformed {
        /// Partition key of the malformed item.
        pk: String,
        /// Sort key of the malformed item.
        sk: String,
    },
    /// The call would return more usage lines than one call may.
    #[error("the answer has more than {most} lines")]
    TooMany {
        /// Maximum number of usage lines that one call returns.
        most: usize,
    },
}

impl UsageError {
    pub(crate) fn unavailable(cause: impl Into<Cause>) -> Self {
        Self::Unavailable(cause.into())
    }
}
