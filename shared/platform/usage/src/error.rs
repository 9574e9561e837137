//! Errors of the table.

use std::error::Error;

/// Cause of a usage error, for the log.
type Cause = Box<dyn Error + Send + Sync>;

/// Errors of [`UsageTable`](crate::UsageTable).
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The table did not respond; it is unknown whether a write was done. A write that is tried
    /// again counts nothing twice, but for [approximate](crate::UsageTable::add_approximate)
    /// counters.
    #[error("the usage table is unavailable")]
    Unavailable(#[source] Cause),
    /// An item of the usage table cannot be parsed.
    #[error("the item `{pk}`, `{sk}` of the usage table is malformed")]
    Malformed {
        /// Partition key of the item.
        pk: String,
        /// Sort key of the item.
        sk: String,
    },
    /// The answer would have more lines than one call may return.
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
