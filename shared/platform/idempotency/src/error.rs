//! Errors of the store.

use std::error::Error;

/// Source of an error, which an operator needs beyond the error's own text.
type Cause = Box<dyn Error + Send + Sync>;

/// Errors of the [`Store`](crate::Store). Their causes are for the log; none of them is for a
/// client.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum StoreError {
    /// The table or the bucket did not respond; it is unknown whether a write was done.
    #[error("the idempotency store is unavailable")]
    Unavailable(#[source] Cause),
    /// A record or a stored response is missing, altered or malformed. The work was done and must
    /// not be done again.
    #[error("what was stored cannot be read")]
    Unreadable(#[source] Cause),
    /// The response is too large for a record, and there is no bucket for it; or it has more than 8
    /// MiB. Nothing was stored.
    #[error("a response of {bytes} bytes cannot be stored")]
    TooLarge { bytes: usize },
    /// The response has no place for the label that marks its effect as in doubt. It is neither
    /// stored nor returned.
    #[error("a response cannot be labelled")]
    Unlabelled(#[source] Cause),
}

impl StoreError {
    pub(crate) fn unavailable(cause: impl Into<Cause>) -> Self {
        Self::Unavailable(cause.into())
    }

    pub(crate) fn unreadable(cause: impl Into<Cause>) -> Self {
        Self::Unreadable(cause.into())
    }
}
