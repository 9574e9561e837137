use attempt::{Malformed, Retry, Retryable};
use batch_items::BatchItemError;
use events::{EventError, PublishError};
use payloads::PayloadError;

/// Reason why a receipt was not published to every destination.
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
    /// The receipt was not published. Without a cause, a destination refused this event alone,
    /// which is logged.
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
