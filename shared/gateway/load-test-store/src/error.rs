//! Errors of the store.

use std::error::Error;

use failure::{Retry, Retryable};
use load_test::IllegalTransition;
use objects::ObjectError;
use uuid::Uuid;

/// Source of an error, which an operator needs beyond the error's own text.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// Reason why something of a load test was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum TestStoreError {
    /// The table did not respond, or is busy; it is unknown whether a write was done.
    #[error("the table of load tests is unavailable")]
    Unavailable(#[source] Cause),
    /// The bucket did not do as it was asked.
    #[error("the bucket of load tests did not do its part")]
    Bucket(#[from] ObjectError),
    /// The item, tally or report is malformed.
    #[error("what is stored of a load test cannot be read")]
    Unreadable(#[source] Cause),
    /// The definition, tally or report has no form in which it can be stored.
    #[error("a part of a load test cannot be encoded")]
    Unencodable(#[source] Cause),
    /// The definition or the tally is too large for the table.
    #[error("a {what} of {bytes} bytes cannot be stored")]
    #[expect(missing_docs, reason = "the message says what they are")]
    TooLarge { what: &'static str, bytes: usize },
    /// There is no test of this id.
    #[error("there is no load test {0}")]
    Unknown(Uuid),
    /// The test is in a state in which this cannot happen to it.
    #[error("the state of the load test does not allow this")]
    Illegal(#[from] IllegalTransition),
}

impl Retryable for TestStoreError {
    fn retry(&self) -> Retry {
        match self {
            Self::Unavailable(_) => Retry::Later,
            Self::Bucket(error) => error.retry(),
            Self::Unreadable(_)
            | Self::Unencodable(_)
            | Self::TooLarge { .. }
            | Self::Unknown(_)
            | Self::Illegal(_) => Retry::Never,
        }
    }
}

impl TestStoreError {
    pub(crate) fn unavailable(cause: impl Into<Cause>) -> Self {
        Self::Unavailable(cause.into())
    }

    pub(crate) fn unreadable(cause: impl Into<Cause>) -> Self {
        Self::Unreadable(cause.into())
    }

    pub(crate) fn unencodable(cause: impl Into<Cause>) -> Self {
        Self::Unencodable(cause.into())
    }
}
