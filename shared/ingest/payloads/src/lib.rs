//! Stored payloads: opens the S3 object that a notification names, with its metadata, and tags the
//! objects of final batches so that they expire.

pub mod retention;

use attempt::{Retry, Retryable};
use ingestion::payload::{InvalidMetadata, PayloadMetadata, PayloadNotice};
use objects::{Head, ObjectError, Objects};

/// Payload in S3 that was opened. The key of its object is the one that follows from its metadata.
#[derive(Debug)]
pub struct Payload {
    /// Metadata of the payload's S3 object, with its ETag and length.
    pub head: Head,
    /// Metadata of the payload, such as its tenant and batch, read from the user metadata of its
    /// object.
    pub metadata: PayloadMetadata,
}

/// Reason why an S3 object cannot be opened as a payload.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum PayloadError {
    #[error("the object is in bucket `{0}`, which is not the payload bucket")]
    OtherBucket(String),
    #[error("cannot read object")]
    Object(#[from] ObjectError),
    #[error("the object is not a payload")]
    Metadata(#[from] InvalidMetadata),
    #[error("the object's metadata belong to object `{0}`")]
    OtherKey(String),
}

impl Retryable for PayloadError {
    fn retry(&self) -> Retry {
        match self {
            Self::OtherBucket(_) | Self::Metadata(_) | Self::OtherKey(_) => Retry::Never,
            Self::Object(error) => error.retry(),
        }
    }
}

/// Opens the payload that a notification names, and records its ids in the current span.
///
/// # Errors
/// If the object is missing, is in another bucket, is not a payload, or S3 does not respond.
pub async fn open_noticed(objects: &Objects, notice: &PayloadNotice) -> Result<Payload, PayloadError> {
    if notice.bucket != objects.bucket() {
        return Err(PayloadError::OtherBucket(notice.bucket.clone()));
    }
    open(objects, &notice.key).await
}

/// Opens the payload with this S3 key, and records its ids in the current span.
///
/// # Errors
/// If the object is missing, is not a payload, or S3 does not respond.
pub async fn open(objects: &Objects, key: &str) -> Result<Payload, PayloadError> {
    let head = objects.head(key).await?;
    let metadata = PayloadMetadata::from_map(&head.metadata, objects.bucket())?;
    let span = tracing::Span::current();
    span.record("correlation_id", &metadata.trace_id);
    span.record("tenant", tracing::field::display(metadata.tenant_id));
    span.record("batch_id", tracing::field::display(metadata.batch_id));
    span.record("idempotency_key", &metadata.idempotency_key);
    if metadata.key() == key {
        Ok(Payload { head, metadata })
    } else {
        Err(PayloadError::OtherKey(metadata.key()))
    }
}
