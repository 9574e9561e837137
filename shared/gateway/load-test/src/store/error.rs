//! Errors of the store of load tests.

use std::error::Error;

use attempt::{Retry, Retryable};
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use objects::ObjectError;
use uuid::Uuid;

use crate::IllegalTransition;

/// Underlying cause of an error; operators need it in addition to the error's own text.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// Error codes of DynamoDB for faults that a person has to repair, such as missing permissions, so
/// that a retry is useless.
const REFUSALS: [&str; 4] = [
    "AccessDeniedException",
    "ResourceNotFoundException",
    "UnrecognizedClientException",
    "ValidationException",
];

/// Reason why an operation on the table or the bucket of load tests failed.
#[derive(Debug, thiserror::Error)]
pub enum TestStoreError {
    /// The DynamoDB table of load tests did not respond, or is busy. It is unknown whether a write
    /// was done.
    #[error("the table of load tests is unavailable")]
    Unavailable(#[source] Cause),
    /// The DynamoDB table of load tests does not exist, access to it is denied, or it rejects the
    /// request as invalid.
    #[error("the table of load tests refuses the request")]
    Refused(#[source] Cause),
    /// The S3 bucket with the reports of load tests failed or refused a request.
    #[error("the bucket of load tests did not do its part")]
    Bucket(#[from] ObjectError),
    /// Stored data of a load test are malformed: an item, a report, or the counts of a worker.
    #[error("what is stored of a load test cannot be read")]
    Unreadable(#[source] Cause),
    /// Data to be stored cannot be encoded (a test's definition, a report, or the counts of a
    /// worker), or a request to the table cannot be built.
    #[error("a part of a load test cannot be encoded")]
    Unencodable(#[source] Cause),
    /// Data to be stored are too large for the table: a test's definition, or the counts of a
    /// worker in one minute.
    #[error("a {what} of {bytes} bytes cannot be stored")]
    #[expect(missing_docs, reason = "the message says what they are")]
    TooLarge { what: &'static str, bytes: usize },
    /// No load test has this id.
    #[error("there is no load test {0}")]
    Unknown(Uuid),
    /// The load test's state does not allow the event, such as the begin of a run after the test's
    /// end.
    #[error("the state of the load test does not allow this")]
    Illegal(#[from] IllegalTransition),
}

impl Retryable for TestStoreError {
    fn retry(&self) -> Retry {
        match self {
            Self::Unavailable(_) => Retry::Later,
            Self::Refused(_) => Retry::AfterRepair,
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
    /// Builds the error for a failed request to the table: [`Refused`](Self::Refused) for the codes
    /// in [`REFUSALS`], otherwise [`Unavailable`](Self::Unavailable).
    pub(crate) fn unavailable<E>(error: E) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let is_refusal = error.code().is_some_and(|code| REFUSALS.contains(&code));
        if is_refusal { Self::Refused(error.into()) } else { Self::Unavailable(error.into()) }
    }

    pub(crate) fn unreadable(cause: impl Into<Cause>) -> Self {
        Self::Unreadable(cause.into())
    }

    pub(crate) fn unencodable(cause: impl Into<Cause>) -> Self {
        Self::Unencodable(cause.into())
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ErrorMetadata;
    use aws_sdk_dynamodb::operation::update_item::UpdateItemError;

    use super::*;

    #[test]
    fn what_a_person_has_to_mend_is_not_retried_as_an_outage() {
        for (code, expected) in [
            ("AccessDeniedException", Retry::AfterRepair),
            ("ResourceNotFoundException", Retry::AfterRepair),
            ("UnrecognizedClientException", Retry::AfterRepair),
            ("ValidationException", Retry::AfterRepair),
            ("ProvisionedThroughputExceededException", Retry::Later),
            ("ThrottlingException", Retry::Later),
            ("InternalServerError", Retry::Later),
        ] {
            let error = UpdateItemError::generic(ErrorMetadata::builder().code(code).build());
            assert_eq!(TestStoreError::unavailable(error).retry(), expected, "{code}");
        }
        let unanswered = UpdateItemError::generic(ErrorMetadata::builder().build());
        assert_eq!(TestStoreError::unavailable(unanswered).retry(), Retry::Later);
    }
}
