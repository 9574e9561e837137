//! Result file beside a dropped object. Several functions write it, also for earlier versions of
//! the object. So a write replaces only the result that the same call read before.

use ingestion::drops::result_key;
use ingestion::payload::{PayloadMetadata, Source};
use objects::{ObjectError, Objects};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::retention::{MAX_ROUNDS, RetentionError};

/// Maximum number of bytes of a result that is read. No result is larger.
const MAX_RESULT: usize = 1_000_000;

/// Batch with the dropped object of which it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchOfDrop<'a> {
    pub(crate) batch_id: Uuid,
    /// Idempotency key of the batch, which is derived from the version of the dropped object.
    pub(crate) batch_key: &'a str,
    pub(crate) source: &'a Source,
}

/// State of a dropped object's result file when it was read, whether it exists or not.
#[derive(Debug)]
pub(crate) struct Found {
    /// ETag of the result file; `None` if the file does not exist.
    etag: Option<String>,
    /// Result in the file; `None` if the file does not exist or contains no result.
    pub(crate) written: Option<Written>,
}

impl Found {
    fn is(&self, status: &str, batch_id: Uuid) -> bool {
        let written = self.written.as_ref();
        written.is_some_and(|written| written.status == status && written.batch_id == Some(batch_id))
    }
}

/// Members of a dropped object's existing result which show whether a new result may replace it.
#[derive(Debug, Deserialize)]
pub(crate) struct Written {
    status: String,
    pub(crate) batch_id: Option<Uuid>,
    object: Object,
}

#[derive(Debug, Deserialize)]
struct Object {
    etag: String,
    version_id: Option<String>,
}

impl Written {
    /// True if the result is about this version of the dropped object, by its version id and ETag.
    /// Without version ids, the same bytes written twice count as one version.
    pub(crate) fn is_about(&self, source: &Source) -> bool {
        self.object.etag == source.etag && self.object.version_id == source.version_id
    }
}

/// Reads the existing result of a dropped object.
pub(crate) async fn found(objects: &Objects, source: &Source) -> Result<Found, ObjectError> {
    let key = result_key(&source.key);
    match objects.get_to_replace(&key, MAX_RESULT).await {
        Ok((bytes, etag)) => Ok(Found { etag: Some(etag), written: serde_json::from_slice(&bytes).ok() }),
        Err(ObjectError::Missing { .. }) => Ok(Found { etag: None, written: None }),
        Err(ObjectError::TooLarge { .. }) => Ok(Found { etag: objects.etag(&key).await?, written: None }),
        Err(error) => Err(error),
    }
}

/// Writes the result file of a dropped object in place of the file that `found` describes.
///
/// # Errors
/// [`ObjectError::Replaced`] if the file was changed since it was read, and other errors if S3 does
/// not store it.
pub(crate) async fn replace(
    objects: &Objects,
    source: &Source,
    found: Found,
    result: &Value,
) -> Result<(), ObjectError> {
    objects
        .put_over(&result_key(&source.key), found.etag, "application/json", result.to_string().into_bytes())
        .await
}

/// Writes the result of a batch that expired because its dropped object was never copied. Does
/// nothing if the batch was not made of a dropped object, or if the existing result is not the
/// batch's first (`RECEIVED`). Idempotent.
///
/// # Errors
/// If storage fails.
pub async fn note_expired(objects: &Objects, batch: &PayloadMetadata) -> Result<(), RetentionError> {
    turn(
        objects,
        batch,
        |found| found.is("RECEIVED", batch.batch_id) || found.etag.is_none(),
        ingestion::drops::expired,
    )
    .await
}

/// Replaces the result of [`note_expired`] by that of a batch in progress, for a batch whose
/// dropped object is being copied after all. Idempotent.
///
/// # Errors
/// If storage fails.
pub async fn note_under_way(objects: &Objects, batch: &PayloadMetadata) -> Result<(), RetentionError> {
    turn(objects, batch, |found| found.is("EXPIRED", batch.batch_id), ingestion::drops::received).await
}

async fn turn(
    objects: &Objects,
    batch: &PayloadMetadata,
    may_replace: impl Fn(&Found) -> bool,
    result: fn(&Source, Uuid) -> Value,
) -> Result<(), RetentionError> {
    let Some(source) = &batch.source else { return Ok(()) };
    let objects = objects.in_bucket(&source.bucket);
    unless_replaced(async || {
        let found = found(&objects, source).await?;
        if may_replace(&found) {
            replace(&objects, source, found, &result(source, batch.batch_id)).await?;
        }
        Ok(())
    })
    .await
}

/// Runs `write`, which reads and then replaces a result. Repeats it if another function replaced
/// the result in between, up to [`MAX_ROUNDS`] times in all.
pub(crate) async fn unless_replaced(
    write: impl AsyncFn() -> Result<(), RetentionError>,
) -> Result<(), RetentionError> {
    let mut written = Ok(());
    for _ in 0..MAX_ROUNDS {
        written = write().await;
        if !matches!(written, Err(RetentionError::Object(ObjectError::Replaced { .. }))) {
            break;
        }
    }
    written
}
