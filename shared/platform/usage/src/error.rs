//! Errors of the table.

use std::error::Error;

/// Source of a usage error, for the log.
type Cause = Box<dyn Error + Send + Sync>;

/// Error of the [`UsageTable`](crate::UsageTable).
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
    /// The result would have more lines than one call may return.
    #[error("the answer has more than {most} lines")]
    TooMany {
        /// Maximum number of lines that one call returns.
        most: usize,
    },
}

impl UsageError {
    pub(crate) fn unavailable(cause: impl Into<Cause>) -> Self {
        Self::Unavailable(cause.into())
    }
}
