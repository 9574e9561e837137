//! Which objects of a batch may expire: those of a batch that is final carry the tag `state=final`, by which
//! the bucket's lifecycle removes them, and those of a batch that goes on must not.
//!
//! A batch may be replayed while somebody tags its objects, and S3 writes no tag under a condition. So each
//! side acts after the state changed and looks at it again:
//!
//! - a replay begins its generation first, and the chunker takes the tag away before it announces chunks;
//! - a function that tags then asks whether the batch is still final in the generation that it saw. If not,
//!   it takes its tags away again.
//!
//! One of the two looks after the last write, so no object of a batch under replay keeps the tag.
//! There is one exception: a function that dies between its tags and its question leaves them until
//! the chunks are announced again. A batch that was given up goes on in its first generation; the
//! chunker then does the same for its payload.
//!
//! The database notes that the objects of a batch have their tags. Where that note is missing,
//! because somebody died or storage failed, `reconcile` tags them later.

#![forbid(unsafe_code)]

use catalog::{Database, DatabaseError, FinalBatch};
use objects::{ObjectError, Objects};
use uuid::Uuid;

/// How often a batch may be replayed and come to its end while its objects are tagged.
const MAX_ROUNDS: u8 = 4;

/// Why it is not known which objects of a batch may expire. At worst they are kept.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    #[error("the database does not say whether the batch is final")]
    Database(#[from] DatabaseError),
    #[error("an object was not tagged")]
    Object(#[from] ObjectError),
    #[error("the batch was replayed again and again")]
    Unsettled,
}

/// Lets the objects of a batch that is final expire, and does nothing for one that goes on. Repeated
/// harmlessly. What fails costs storage and nothing else, so it is logged and that is all.
pub async fn let_go(database: &Database, objects: &Objects, batch_id: Uuid) {
    if let Err(error) = try_let_go(database, objects, batch_id).await {
        let error: &dyn std::error::Error = &error;
        let batch_id = batch_id.to_string();
        tracing::warn!(event_type = "batch.not_tagged", batch_id, error, "objects of a final batch are kept");
    }
}

/// The same for a caller that can try again later.
///
/// # Errors
/// Where the database or storage fail; then some objects may be without the tag.
pub async fn try_let_go(
    database: &Database,
    objects: &Objects,
    batch_id: Uuid,
) -> Result<(), RetentionError> {
    for _ in 0..MAX_ROUNDS {
        let Some(batch) = database.final_batch(batch_id).await? else { return Ok(()) };
        if tag_as_seen(database, objects, &batch).await? == Seen::Still {
            return Ok(());
        }
    }
    Err(RetentionError::Unsettled)
}

/// Whether a batch is as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Still,
    NoLonger,
}

/// Tags the objects of a batch that was seen to be final. Where it is being replayed by now, the tags are
/// taken away again.
///
/// # Errors
/// Where the database or storage fail; then some objects may be without the tag.
pub async fn tag_as_seen(
    database: &Database,
    objects: &Objects,
    batch: &FinalBatch,
) -> Result<Seen, RetentionError> {
    let tagged = objects.tag_final(batch.uris.clone()).await;
    let is_final = match &tagged {
        Ok(()) => database.note_let_go(batch.batch_id, batch.generation).await?,
        Err(_) => database.is_final_in(batch.batch_id, batch.generation).await?,
    };
    if is_final {
        tagged?;
        return Ok(Seen::Still);
    }
    objects.keep(batch.uris.clone()).await?;
    Ok(Seen::NoLonger)
}
