use attempt::{Retry, Retryable};
use batch_items::BatchItemError;
use catalog::DatabaseError;
use objects::ObjectError;
use payloads::PayloadError;
use transport::{AnnounceError, UnknownNotice};
use worker::{Failure, ServeError};

use crate::pipeline::RunError;

/// Reason why the processing of a payload failed before its end. The payload's object stays in the
/// bucket.
#[derive(Debug, thiserror::Error)]
pub enum ChunkerError {
    #[error("cannot read the notification")]
    Notice(#[from] UnknownNotice),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("the batch was never accepted")]
    NotAccepted,
    #[error("cannot read or write the batch's item")]
    Accepted(#[from] BatchItemError),
    #[error("cannot tag object")]
    Object(#[from] ObjectError),
    #[error("database error")]
    Database(#[from] DatabaseError),
    #[error("the payload was not read to its end")]
    Run(#[source] RunError),
    #[error("cannot announce the chunks")]
    Announce(#[from] AnnounceError),
}

impl Retryable for ChunkerError {
    fn retry(&self) -> Retry {
        match self {
            Self::Notice(error) => error.retry(),
            Self::Payload(error) => error.retry(),
            Self::NotAccepted => Retry::Never,
            Self::Accepted(error) => error.retry(),
            Self::Object(error) => error.retry(),
            Self::Database(error) => error.retry(),
            // The next attempt asks storage and the database anew, and its error is more precise.
            Self::Run(_) => Retry::Later,
            Self::Announce(error) => error.retry(),
        }
    }
}

/// Reason why a whole invocation of the chunker failed, rather than a single message.
#[derive(Debug, thiserror::Error)]
pub enum InvocationError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Failure of a payload whose S3 event invoked the function directly, so that there is no queue
    /// message to retry.
    #[error(transparent)]
    Payload(#[from] Failure<ChunkerError>),
}
