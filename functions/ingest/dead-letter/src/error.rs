use attempt::{Malformed, Retry, Retryable};
use batch_items::BatchItemError;
use catalog::DatabaseError;
use events::EventError;
use payloads::PayloadError;
use transport::UnknownNotice;

/// Reason why a message in a dead-letter queue could not be recorded as failed work.
#[derive(Debug, thiserror::Error)]
pub enum DeadLetterError {
    #[error("the message is not JSON")]
    Json(#[from] Malformed),
    #[error("the event is not a chunk's")]
    Event(#[from] EventError),
    #[error("the message is not a notification")]
    Notice(#[from] UnknownNotice),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("cannot read the batch's item")]
    Accepted(#[from] BatchItemError),
    #[error("the event names {0}, which is not its chunk's object")]
    OtherObject(String),
    #[error("the batch was never accepted")]
    NotAccepted,
    #[error("database error")]
    Database(#[from] DatabaseError),
}

impl Retryable for DeadLetterError {
    fn retry(&self) -> Retry {
        match self {
            Self::Json(_) | Self::OtherObject(_) | Self::NotAccepted => Retry::Never,
            Self::Event(error) => error.retry(),
            Self::Notice(error) => error.retry(),
            Self::Payload(error) => error.retry(),
            Self::Accepted(error) => error.retry(),
            Self::Database(error) => error.retry(),
        }
    }
}
