use access::AccessTableError;
use attempt::{Retry, Retryable};
use batch_items::BatchItemError;
use events::PublishError;
use idempotency::{FingerprintError, OnceError, StoreError};
use objects::ObjectError;
use transport::UnknownNotice;

/// Reason why a dropped object could be neither accepted nor refused. The object stays in the
/// bucket.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    #[error("cannot read the notification")]
    Notice(#[from] UnknownNotice),
    #[error("the object is in bucket `{0}`, where nothing is dropped")]
    OtherBucket(String),
    #[error("storage error")]
    Object(#[from] ObjectError),
    #[error("cannot tell whether the tenant may drop objects")]
    Grant(#[from] AccessTableError),
    #[error("the tenant's item DROPS# has something else than CNPJs")]
    Cnpjs(#[source] ingestion::CnpjError),
    #[error("cannot write the batch's item")]
    Accepted(#[from] BatchItemError),
    #[error("cannot identify the object")]
    Fingerprint(#[from] FingerprintError),
    #[error("cannot claim the object's record")]
    Store(#[from] StoreError),
    /// Failure to publish the event that the object was refused. `None` if a destination refused
    /// only this event; the log has the reason then.
    #[error("the event of a refusal was not published")]
    Unpublished(#[source] Option<PublishError>),
    #[error("another attempt at this object is under way")]
    InProgress,
    #[error("the object's idempotency key was used for something else")]
    Conflict,
}

impl Retryable for IntakeError {
    fn retry(&self) -> Retry {
        match self {
            Self::Notice(error) => error.retry(),
            Self::Object(error) => error.retry(),
            Self::Accepted(error) => error.retry(),
            Self::Store(StoreError::Unavailable(_)) | Self::Grant(AccessTableError::Unavailable) => {
                Retry::Later
            }
            Self::Unpublished(error) => error.as_ref().map_or(Retry::Later, Retryable::retry),
            Self::InProgress => Retry::Contended,
            Self::Grant(AccessTableError::Malformed) | Self::Cnpjs(_) => Retry::AfterRepair,
            Self::OtherBucket(_) | Self::Fingerprint(_) | Self::Store(_) | Self::Conflict => Retry::Never,
        }
    }
}

impl From<OnceError<Self>> for IntakeError {
    fn from(error: OnceError<Self>) -> Self {
        match error {
            OnceError::InProgress { .. } => Self::InProgress,
            OnceError::Conflict => Self::Conflict,
            OnceError::Store(error) => Self::Store(error),
            OnceError::Work(error) => error,
        }
    }
}
