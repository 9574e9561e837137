use attempt::{Malformed, Retry, Retryable};
use batch_items::BatchItemError;
use events::{EventError, PublishError};
use payloads::PayloadError;

/// Reason why the event that a batch was received was not published to every destination.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    #[error("not an event of S3 from EventBridge")]
    Form(#[from] Malformed),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("cannot read the batch's item")]
    Accepted(#[from] BatchItemError),
    #[error("the batch was never accepted")]
    NotAccepted,
    #[error("the receipt is no event")]
    Event(#[from] EventError),
    /// Failure to publish the event that the batch was received. `None` if a destination refused
    /// only this event; the log has the reason then.
    #[error("the receipt was not published")]
    Unpublished(#[source] Option<PublishError>),
}

impl Retryable for ReceiptError {
    fn retry(&self) -> Retry {
        match self {
            Self::Form(_) | Self::NotAccepted => Retry::Never,
            // Its batch may be final already, so this message alone leads to it.
            Self::Payload(PayloadError::Object(_)) | Self::Event(_) => Retry::Later,
            Self::Payload(error) => error.retry(),
            Self::Accepted(error) => error.retry(),
            Self::Unpublished(error) => error.as_ref().map_or(Retry::Later, Retryable::retry),
        }
    }
}
