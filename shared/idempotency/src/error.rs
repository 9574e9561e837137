//! Why the store did not do what was asked.

use aws_sdk_dynamodb::error::DisplayErrorContext;

/// Errors of the [`Store`](crate::Store).
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The table or the bucket did not answer; whether a write was done is not known.
    #[error("the idempotency store is unavailable: {0}")]
    Unavailable(String),
    /// A record or a stored response is missing, altered or of another form. The work was done and must not be done again.
    #[error("what was stored cannot be read: {0}")]
    Unreadable(String),
    /// A response that no record can hold, and there is no bucket for it; or one of more than 8 MiB. Nothing was stored.
    #[error("a response of {bytes} bytes cannot be stored")]
    TooLarge { bytes: usize },
    /// A response that could not say of its effect that it is in doubt. It is neither stored nor answered.
    #[error("a response cannot be labelled: {0}")]
    Unlabelled(String),
}

impl StoreError {
    pub(crate) fn unavailable(error: impl std::error::Error) -> Self {
        Self::Unavailable(DisplayErrorContext(error).to_string())
    }
}
