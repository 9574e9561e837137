//! Why the store did not do what was asked.

use std::error::Error;

/// Source of an error, which an operator needs beyond the error's own text.
type Cause = Box<dyn Error + Send + Sync>;

/// Errors of the [`Store`](crate::Store). Their causes are for the log; none of them is for a
/// client.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum StoreError {
    /// The table or the bucket did not answer; whether a write was done is not known.
    #[error("the idempotency store is unavailable")]
    Unavailable(#[source] Cause),
    /// A record or a stored response is missing, altered or of another form. The work was done and
    /// must not be done again.
    #[error("what was stored cannot be read")]
    Unreadable(#[source] Cause),
    /// A response that no record can hold, and there is no bucket for it; or one of more than 8
    /// MiB. Nothing was stored.
    #[error("a response of {bytes} bytes cannot be stored")]
    TooLarge { bytes: usize },
    /// A response that could not say of its effect that it is in doubt. It is neither stored nor
    /// answered.
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
