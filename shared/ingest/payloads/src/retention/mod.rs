//! Tag by which the S3 objects of a batch expire: the bucket's lifecycle removes objects with the
//! tag `state=final`. The objects of a final batch have the tag, and those of a batch in progress
//! must not.
//!
//! A batch may be replayed while its objects are being tagged, and S3 has no conditional tagging.
//! So a replay and the tagging each take their steps in an order that leaves no object of a batch
//! under replay with the tag:
//!
//! - a replay begins its generation (round of processing) first, and then removes the tags, before
//!   the chunks are announced;
//! - [`release`] tags first, and then checks if the batch is still final in the generation that it
//!   saw. If not, it removes its tags again.
//!
//! A replay that begins before the check is found by the check. One that begins later removes the
//! tags itself. There is one exception: a function that dies after tagging and before the check
//! leaves the tags until the chunks are announced again. A batch that was given up may continue
//! without a new generation; the chunker then removes the tag of its payload as in a replay.
//!
//! Before [`release`] tags the objects of a batch that was made of a dropped object, it writes the
//! result file beside the dropped object, and tags that object too. A batch that expired gets its
//! result by [`note_expired`].
//!
//! The database records that the objects of a batch have their tags. If that record is missing,
//! because a function died or storage failed, the objects can be released later.

mod dropped;
mod results;

pub use results::{note_expired, note_under_way};

use attempt::{Retry, Retryable};
use catalog::{Database, DatabaseError, FinalBatch};
use ingestion::batch::BatchStatus;
use objects::{ObjectError, Objects};
use uuid::Uuid;

/// Maximum number of attempts to tag a batch's objects or to write its result. Another attempt is
/// made if the batch was replayed, or another function wrote the result, in between.
const MAX_ROUNDS: u8 = 4;

/// Reason why some S3 objects of a batch may lack the tags by which they expire. At worst, they are
/// kept too long.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum RetentionError {
    #[error("database error")]
    Database(#[from] DatabaseError),
    #[error("storage error")]
    Object(#[from] ObjectError),
    #[error("the batch was replayed again and again")]
    Unsettled,
}

impl Retryable for RetentionError {
    fn retry(&self) -> Retry {
        match self {
            Self::Database(error) => error.retry(),
            Self::Object(error) => error.retry(),
            Self::Unsettled => Retry::Later,
        }
    }
}

/// Logs that a batch became final, and tags its objects so that they expire, as [`release`] does.
pub async fn finish(database: &Database, objects: &Objects, batch_id: Uuid, status: BatchStatus) {
    tracing::info!(event_type = "batch.final", %status, "batch {batch_id} is final: {status}");
    release(database, objects, batch_id).await;
}

/// Tags the S3 objects of a final batch so that they expire; does nothing for a batch in progress.
/// Idempotent. A failure is only logged, because it only costs storage.
pub async fn release(database: &Database, objects: &Objects, batch_id: Uuid) {
    if let Err(error) = try_release(database, objects, batch_id).await {
        let error: &dyn std::error::Error = &error;
        let batch_id = batch_id.to_string();
        tracing::warn!(
            event_type = "batch.not_tagged",
            batch_id,
            error,
            "the objects of final batch {batch_id} will not expire yet: {error}"
        );
    }
}

/// Tags the S3 objects of a final batch so that they expire, as [`release`] does, but returns the
/// error to a caller that can retry later.
pub async fn try_release(
    database: &Database,
    objects: &Objects,
    batch_id: Uuid,
) -> Result<(), RetentionError> {
    for _ in 0..MAX_ROUNDS {
        let Some(batch) = database.final_batch(batch_id).await? else { return Ok(()) };
        if tag_as_seen(database, objects, &batch).await? {
            return Ok(());
        }
    }
    Err(RetentionError::Unsettled)
}

/// Tags the S3 objects of a batch that was read as final. If a replay has begun since, removes the
/// tags again. Returns true if the batch is still final.
///
/// # Errors
/// If the database or S3 fails. Some objects may then lack the tag.
pub async fn tag_as_seen(
    database: &Database,
    objects: &Objects,
    batch: &FinalBatch,
) -> Result<bool, RetentionError> {
    let tagged = match dropped::publish(database, objects, batch).await {
        Ok(()) => objects.tag_final(batch.uris.clone()).await.map_err(RetentionError::Object),
        Err(error) => Err(error),
    };
    let is_final = match &tagged {
        Ok(()) => database.note_released(batch.batch_id, batch.generation).await?,
        Err(_) => database.is_final_in(batch.batch_id, batch.generation).await?,
    };
    if is_final {
        tagged?;
        return Ok(true);
    }
    objects.untag_final(batch.uris.clone()).await?;
    Ok(false)
}
