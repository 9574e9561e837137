//! Errors of the idempotency store.

use std::error::Error;

/// Source of a store error, for the log.
type Cause = Box<dyn Error + Send + Sync>;

/// Error of the idempotency [`Store`](crate::Store). Its source is for the log, and never for a
/// client.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum StoreError {
    /// DynamoDB or S3 did not respond or refused the call. A write may have been made or not.
    #[error("the idempotency store is unavailable")]
    Unavailable(#[source] Cause),
    /// A record or a stored response is missing, altered or malformed. The work was executed
    /// before, and must not be repeated.
    #[error("what was stored cannot be read")]
    Unreadable(#[source] Cause),
    /// The response has more than 8 MiB, or does not fit into a record while the store has no
    /// bucket. Nothing was stored.
    #[error("a response of {bytes} bytes cannot be stored")]
    TooLarge { bytes: usize },
    /// The response cannot be labelled as in doubt (outcome unknown), because its body lacks the
    /// member `deliveryInDoubt`. It is neither stored nor returned.
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
