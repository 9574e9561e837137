//! Failed attempts to write a chunk to PostgreSQL, and giving up a chunk that cannot be written.

use ingestion::batch::{BatchStatus, ChunkStatus};
use ingestion::chunk::ChunkReady;

use crate::account::settle;
use crate::connection::{Connection, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locked_batch::{generation, lock};
use crate::outbox;
use crate::rows::{count, word};

/// Result of [`Database::fail_chunk`], which gives up a chunk that could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// This call marked the chunk as failed.
    Failed {
        /// State of the chunk's batch after the chunk failed.
        batch: BatchStatus,
        /// True if this call made the batch final.
        became_final: bool,
        /// Error of the last attempt to write the chunk.
        error: String,
    },
    /// The chunk was written or given up before this call, and has this state.
    Before(ChunkStatus),
    /// The batch was restarted or replayed in a later generation (round of processing), so the
    /// caller's chunk is outdated.
    Superseded,
    /// The chunk is now stored in another S3 object than the caller names, so the caller's
    /// notification is outdated.
    OtherObject,
}

/// Maximum number of characters of a chunk's error that the database stores.
const LONGEST_ERROR: usize = 500;

const NOTE: &str = "UPDATE batch_chunks SET attempts = attempts + 1, last_error = $3 \
     WHERE chunk_id = $1 AND chunk_uri = $2 AND status <> 'DONE'";
const STATE: &str = "SELECT generation, status, chunk_uri FROM batch_chunks WHERE batch_id = $1 AND chunk_index = $2 \
     FOR NO KEY UPDATE";
const FAIL: &str = "UPDATE batch_chunks SET status = $3, last_error = COALESCE(last_error, $4) \
     WHERE batch_id = $1 AND chunk_index = $2 RETURNING last_error, items";

impl Database {
    /// Records a failed attempt to write a chunk, with its error. Nothing is recorded if the chunk
    /// is done, is stored in another S3 object, or belongs to an outdated generation (round of
    /// processing) of the batch.
    pub async fn note_failed_attempt(&self, chunk: &ChunkReady, error: &str) -> Result<(), DatabaseError> {
        self.with_connection(async |connection| note(connection, chunk, error).await).await
    }

    /// Gives up a chunk that could not be written, and updates its batch's state and counters. Only
    /// a pending chunk becomes failed; it becomes done if it is written later after all. `error` is
    /// stored if no attempt recorded an error. Idempotent by the batch, the chunk's index and the
    /// batch's generation (round of processing).
    ///
    /// # Errors
    /// If the database fails, or does not have the chunk.
    pub async fn fail_chunk(&self, chunk: &ChunkReady, error: &str) -> Result<GivenUp, DatabaseError> {
        self.with_connection(async |connection| fail(connection, chunk, error).await).await
    }
}

async fn note(connection: &mut Connection, chunk: &ChunkReady, error: &str) -> Result<(), DatabaseError> {
    let mut session = connection.begin().await?;
    session.execute(NOTE, &[&chunk.chunk_id().uuid(), &chunk.chunk_uri, &shortened(error)]).await?;
    session.commit().await
}

async fn fail(
    connection: &mut Connection,
    place: &ChunkReady,
    error: &str,
) -> Result<GivenUp, DatabaseError> {
    let mut session = connection.begin().await?;
    let index = i32::try_from(place.chunk_index)?;
    // This waits for a transaction that is writing the chunk.
    let Some(row) = session.query_opt(STATE, &[&place.batch_id, &index]).await? else {
        return missing(&mut session, place).await;
    };
    match generation(&row, "generation")?.cmp(&place.generation) {
        std::cmp::Ordering::Greater => return Ok(GivenUp::Superseded),
        std::cmp::Ordering::Less => return Err(unknown(place)),
        std::cmp::Ordering::Equal => {}
    }
    if row.try_get::<_, &str>("chunk_uri")? != place.chunk_uri {
        return Ok(GivenUp::OtherObject);
    }
    let before: ChunkStatus = word(&row, "status")?;
    let after = before.given_up();
    if after == before {
        return Ok(GivenUp::Before(before));
    }
    let failed =
        session.query_opt(FAIL, &[&place.batch_id, &index, &after.as_str(), &shortened(error)]).await?;
    let failed = failed.ok_or_else(|| unknown(place))?;
    let (error, items): (String, _) = (failed.try_get("last_error")?, count(&failed, "items")?);
    let batch = lock(&mut session, place.batch_id).await?;
    outbox::chunk_given_up(&mut session, &batch, place.chunk_index, items, &error).await?;
    let settled = settle(&mut session, &batch).await?;
    session.commit().await?;
    let became_final = settled.status.is_final() && !batch.status.is_final();
    Ok(GivenUp::Failed { batch: settled.status, became_final, error })
}

/// Returns the result for a chunk that is not in the database: [`GivenUp::Superseded`] if its batch
/// is in a later generation (round of processing), whose chunks are stored only once the whole
/// payload is cut. Otherwise the chunk is unknown, which is an error.
async fn missing(session: &mut Session<'_>, place: &ChunkReady) -> Result<GivenUp, DatabaseError> {
    let batch = lock(session, place.batch_id).await?;
    if batch.generation > place.generation { Ok(GivenUp::Superseded) } else { Err(unknown(place)) }
}

const fn unknown(place: &ChunkReady) -> DatabaseError {
    DatabaseError::UnknownChunk { batch_id: place.batch_id, index: place.chunk_index }
}

/// Returns an error in its stored form: cut to the maximum length, and without NUL, which
/// PostgreSQL's texts cannot contain.
fn shortened(error: &str) -> String {
    error.chars().filter(|character| *character != '\0').take(LONGEST_ERROR).collect()
}
