//! End of batches that were made of dropped objects: their final results, and the tags by which the
//! dropped objects expire.

use catalog::{BatchView, Database, FinalBatch};
use ingestion::Viewer;
use ingestion::drops::{ErrorCounts, StateToTag, errors_key, final_result};
use ingestion::payload::{PayloadMetadata, batch_of_payload};
use jiff::Timestamp;
use objects::{ObjectError, Objects};

use crate::retention::RetentionError;
use crate::retention::results::{BatchOfDrop, Found, found, replace, unless_replaced};

/// Maximum number of bytes of the file with a dropped object's items in error, because the
/// functions that write it have little memory.
const MAX_ERRORS: usize = 8_000_000;
/// Number of items in error that one query reads.
const PAGE: u32 = 1000;

/// Items in error of a batch as lines of JSON, in the form of the API, and the counts of listed and
/// omitted items.
struct Errors {
    lines: Vec<u8>,
    file: ErrorCounts,
}

/// Writes the final result of a batch that was made of a dropped object, and tags that object so
/// that it expires. Does nothing for any other batch. Idempotent by the batch: a repeated call
/// writes the batch's present state.
pub(crate) async fn publish(
    database: &Database,
    objects: &Objects,
    batch: &FinalBatch,
) -> Result<(), RetentionError> {
    if !ingestion::drops::may_be_of(&batch.idempotency_key) {
        return Ok(());
    }
    let mut keys = batch.uris.iter().filter_map(|uri| objects.key(uri));
    let payload = keys.find(|key| batch_of_payload(key) == Some(batch.batch_id));
    let Some(payload) = payload else { return Ok(()) };
    let head = match objects.head(payload).await {
        // The payload expired, and the result was written before.
        Err(ObjectError::Missing { .. }) => return Ok(()),
        head => head?,
    };
    let metadata = PayloadMetadata::from_map(&head.metadata, objects.bucket()).ok();
    let dropped = metadata.and_then(|metadata| Some((metadata.source?, metadata.tenant_id)));
    let Some((source, tenant_id)) = dropped else { return Ok(()) };
    let objects = &objects.in_bucket(&source.bucket);
    let about = BatchOfDrop { batch_id: batch.batch_id, batch_key: &batch.idempotency_key, source: &source };
    let viewer = &Viewer::whole(tenant_id);
    unless_replaced(async || write_final(database, objects, viewer, &about).await).await?;
    expire(objects, &about).await
}

/// Writes a batch's final result next to its dropped object, unless a later version of the object
/// already has its result there. The ETag of the existing file of items in error is read first,
/// then the existing result. This order protects the file of a later version, which writes its
/// result before it has items in error.
async fn write_final(
    database: &Database,
    objects: &Objects,
    viewer: &Viewer,
    about: &BatchOfDrop<'_>,
) -> Result<(), RetentionError> {
    let errors_key = errors_key(&about.source.key);
    let errors_there = objects.etag(&errors_key).await?;
    let found = found(objects, about.source).await?;
    // If the batch is not final, a replay has begun. Its end writes the result.
    let batch = database.batch(viewer, about.batch_id).await?.filter(|batch| batch.status.is_final());
    let Some(batch) = batch else { return Ok(()) };
    if is_of_a_later_version(objects, about, &found).await? {
        return Ok(());
    }
    let Errors { lines, file } = errors_of(database, viewer, &batch).await?;
    if file.listed > 0 {
        objects.put_over(&errors_key, errors_there, "application/x-ndjson", lines).await?;
    }
    let result = final_result(about.source, about.batch_id, &batch, file);
    Ok(replace(objects, about.source, found, &result).await?)
}

/// True if the existing result belongs to a later version of the dropped object.
async fn is_of_a_later_version(
    objects: &Objects,
    about: &BatchOfDrop<'_>,
    found: &Found,
) -> Result<bool, ObjectError> {
    // Any other object in the result's place is replaced.
    let Some(written) = &found.written else { return Ok(false) };
    // Ids of batches are in the order of their receipt.
    if let Some(other) = written.batch_id {
        return Ok(other > about.batch_id);
    }
    // A refusal has no batch, and the same bytes that were written again have the same ETag.
    Ok(!written.is_about(about.source) || written_at(objects, about).await?.is_none())
}

/// Reads the items in error of a batch, up to [`MAX_ERRORS`] bytes.
async fn errors_of(
    database: &Database,
    viewer: &Viewer,
    batch: &BatchView,
) -> Result<Errors, RetentionError> {
    let (mut lines, mut listed, mut after) = (Vec::new(), 0_u64, None);
    'pages: while let Some(page) = database.item_errors(viewer, batch.batch_id, after, PAGE).await? {
        for error in &page.errors {
            let line = serde_json::to_vec(error).unwrap_or_default();
            if lines.len().saturating_add(line.len()) >= MAX_ERRORS {
                break 'pages;
            }
            lines.extend_from_slice(&line);
            lines.push(b'\n');
            listed = listed.saturating_add(1);
            after = Some(error.item_index);
        }
        if page.errors.is_empty() {
            break;
        }
    }
    Ok(Errors { lines, file: ErrorCounts { listed, omitted: batch.items_failed.saturating_sub(listed) } })
}

/// Tags the dropped object so that it expires, unless it was written again since: then it belongs
/// to another batch, even with the same bytes.
async fn expire(objects: &Objects, about: &BatchOfDrop<'_>) -> Result<(), RetentionError> {
    let Some(modified_at) = written_at(objects, about).await? else { return Ok(()) };
    let tags = ingestion::drops::tags(about.source, modified_at, StateToTag::Final(about.batch_id));
    match objects.tag_as(&about.source.key, about.source.version_id.as_deref(), &tags).await {
        Err(ObjectError::Missing { .. }) => Ok(()),
        tagged => Ok(tagged?),
    }
}

/// Returns the time at which the batch's version of the dropped object was written; `None` if that
/// version is gone or was replaced.
async fn written_at(objects: &Objects, about: &BatchOfDrop<'_>) -> Result<Option<Timestamp>, ObjectError> {
    let source = about.source;
    match objects.version(&source.key, source.version_id.as_deref()).await {
        Ok(there) => {
            let is_it =
                ingestion::drops::is_version_of(about.batch_key, source, &there.etag, there.modified_at);
            Ok(is_it.then_some(there.modified_at))
        }
        Err(ObjectError::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
