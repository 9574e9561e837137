//! Batches that were made of dropped objects: their results, and the objects that may expire.

use catalog::{BatchView, Database, FinalBatch};
use drops::{ErrorsFile, State, errors_key, final_result, result_key};
use ingestion::Viewer;
use ingestion::payload::{PayloadMetadata, Source, batch_of_payload};
use objects::{ObjectError, Objects};
use serde::Deserialize;
use uuid::Uuid;

use crate::RetentionError;

/// Bytes of the file of items in error. The functions that write it have little memory.
const MAX_ERRORS: usize = 8_000_000;
/// Items in error that are read at once.
const PAGE: u32 = 1000;
/// Bytes of a result that is read: more than any has.
const MAX_RESULT: usize = 1_000_000;

/// What is read of a result that is there.
#[derive(Deserialize)]
struct Written {
    batch_id: Option<Uuid>,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    etag: String,
}

/// Writes the result of a batch that was made of a dropped object, and lets the object expire. Does
/// nothing for any other batch. Idempotent by the batch: repeated, it writes the batch as it is by
/// then.
pub(crate) async fn publish(
    database: &Database,
    objects: &Objects,
    batch: &FinalBatch,
) -> Result<(), RetentionError> {
    if !drops::may_be_of(&batch.idempotency_key) {
        return Ok(());
    }
    let mut keys = batch.uris.iter().filter_map(|uri| objects.key(uri));
    let payload = keys.find(|key| batch_of_payload(key) == Some(batch.batch_id));
    let Some(payload) = payload else { return Ok(()) };
    let head = match objects.head(payload).await {
        // It expired, and its result was written then.
        Err(ObjectError::Missing { .. }) => return Ok(()),
        head => head?,
    };
    let metadata = PayloadMetadata::from_map(&head.metadata, objects.bucket()).ok();
    let dropped = metadata.and_then(|metadata| Some((metadata.source?, metadata.tenant_id)));
    let Some((source, tenant_id)) = dropped else { return Ok(()) };
    let objects = &objects.in_bucket(&source.bucket);
    let viewer = Viewer::whole(tenant_id);
    if let Some(view) = database.batch(&viewer, batch.batch_id).await? {
        write(database, objects, &viewer, &source, &view).await?;
    }
    expire(objects, &source, batch.batch_id).await
}

async fn write(
    database: &Database,
    objects: &Objects,
    viewer: &Viewer,
    source: &Source,
    batch: &BatchView,
) -> Result<(), RetentionError> {
    // A replay has begun. Its end writes the result.
    if !batch.status.is_final() || is_about_later(objects, source, batch.batch_id).await? {
        return Ok(());
    }
    let errors = write_errors(database, objects, viewer, source, batch).await?;
    let result = final_result(source, batch.batch_id, batch, errors).to_string().into_bytes();
    Ok(objects.put_as(&result_key(&source.key), "application/json", result).await?)
}

/// Whether the result that is there is about a later version of the object, which was taken or
/// refused.
async fn is_about_later(objects: &Objects, source: &Source, batch_id: Uuid) -> Result<bool, RetentionError> {
    let found = match objects.get(&result_key(&source.key), MAX_RESULT).await {
        Err(ObjectError::Missing { .. } | ObjectError::TooLarge { .. }) => return Ok(false),
        found => found?,
    };
    // Whatever else somebody put there is replaced.
    let Ok(Written { batch_id: other, object }) = serde_json::from_slice(&found) else { return Ok(false) };
    // Ids of batches are in the order of their receipt.
    Ok(other.map_or(object.etag != source.etag, |other| other > batch_id))
}

/// Writes the items in error, a line each, as the API does.
async fn write_errors(
    database: &Database,
    objects: &Objects,
    viewer: &Viewer,
    source: &Source,
    batch: &BatchView,
) -> Result<ErrorsFile, RetentionError> {
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
    if listed > 0 {
        objects.put_as(&errors_key(&source.key), "application/x-ndjson", lines).await?;
    }
    Ok(ErrorsFile { listed, omitted: batch.items_failed.saturating_sub(listed) })
}

/// Lets the object expire, unless it was written again: then it is another batch's.
async fn expire(objects: &Objects, source: &Source, batch_id: Uuid) -> Result<(), RetentionError> {
    let version_id = source.version_id.as_deref();
    match objects.version(&source.key, version_id).await {
        Ok(version) if version.etag == source.etag => {
            let tags = drops::tags(source, State::Final(batch_id));
            match objects.tag_as(&source.key, version_id, &tags).await {
                Err(ObjectError::Missing { .. }) => Ok(()),
                tagged => Ok(tagged?),
            }
        }
        Ok(_) | Err(ObjectError::Missing { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
