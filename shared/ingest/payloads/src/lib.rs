//! Stored payloads: the way from a notification to the object and its batch, and back to a
//! notification.

pub mod retention;

use attempt::{Retry, Retryable};
use batch_items::{BatchItemError, BatchItems};
use ingestion::Viewer;
use ingestion::payload::{AcceptedBatch, InvalidMetadata, PayloadMetadata};
use objects::{Head, ObjectError, Objects};
use transport::{AnnounceError, PayloadNotice, PayloadQueue};
use uuid::Uuid;

/// A payload whose object has the key that its own metadata give.
#[derive(Debug)]
pub struct Payload {
    /// Metadata of the S3 object.
    pub head: Head,
    /// Metadata of the payload, read from the object's.
    pub metadata: PayloadMetadata,
}

/// Reason why a payload cannot be opened.
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
    #[error("cannot read the batch's item")]
    Accepted(#[from] BatchItemError),
}

impl Retryable for PayloadError {
    fn retry(&self) -> Retry {
        match self {
            Self::OtherBucket(_) | Self::Metadata(_) | Self::OtherKey(_) => Retry::Never,
            Self::Object(error) => error.retry(),
            Self::Accepted(error) => error.retry(),
        }
    }
}

/// Reason why no notification of a payload was sent.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum NotifyError {
    #[error("the payload is not in this bucket")]
    Elsewhere(#[source] ObjectError),
    #[error("cannot send the notification")]
    Queue(#[from] AnnounceError),
}

impl Retryable for NotifyError {
    fn retry(&self) -> Retry {
        match self {
            Self::Elsewhere(error) => error.retry(),
            Self::Queue(error) => error.retry(),
        }
    }
}

/// Opens the payload that a notification names, and reads its batch's item, which may be gone.
/// Records its ids in the current span.
///
/// # Errors
/// If the object is not there, is not a payload of this bucket, or a store does not respond.
pub async fn open_accepted(
    objects: &Objects,
    accepted: &BatchItems,
    notice: &PayloadNotice,
) -> Result<(Payload, Option<AcceptedBatch>), PayloadError> {
    if notice.bucket != objects.bucket() {
        return Err(PayloadError::OtherBucket(notice.bucket.clone()));
    }
    let payload = open(objects, &notice.key).await?;
    let metadata = &payload.metadata;
    let accepted = accepted.get(&Viewer::whole(metadata.tenant_id), metadata.batch_id).await?;
    Ok((payload, accepted))
}

/// Opens the payload at a key of the bucket. Records its ids in the current span.
///
/// # Errors
/// If the object is not there, is not a payload, or storage does not respond.
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

/// Sends the notification of a payload again, by the payload's URI. The batch continues from where
/// it stopped; one notification too many does no harm.
///
/// # Errors
/// If the URI is not of this bucket, or SQS does not take the message.
pub async fn notify(
    objects: &Objects,
    queue: &PayloadQueue,
    uri: &str,
    tenant_id: Uuid,
) -> Result<(), NotifyError> {
    let elsewhere = || NotifyError::Elsewhere(ObjectError::Elsewhere { uri: uri.to_owned() });
    let key = objects.key(uri).ok_or_else(elsewhere)?;
    Ok(queue.notify(objects.bucket(), key, Some(tenant_id)).await?)
}
