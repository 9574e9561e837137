//! Chunks that could not be written: what is noted of an attempt, and the end of the attempts.

use ingestion::batch::{BatchStatus, ChunkEvent, ChunkStatus};
use ingestion::chunk::{ChunkId, Generation};
use uuid::Uuid;

use crate::account::settle;
use crate::batch::{generation, lock};
use crate::connection::{Connection, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::rows::word;

/// What came of giving a chunk up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// It is failed now.
    Failed {
        /// The batch's state after it.
        batch: BatchStatus,
        /// Whether this call brought the batch to its end.
        became_final: bool,
    },
    /// It was written, or given up, before.
    Before(ChunkStatus),
    /// Its batch has a later generation of it.
    Superseded,
}

/// Characters of an error that are kept.
const LONGEST_ERROR: usize = 500;

const NOTE: &str = "UPDATE batch_chunks SET attempts = attempts + 1, last_error = $2 WHERE chunk_id = $1 AND status <> 'DONE'";
const STATE: &str = "SELECT generation, status FROM batch_chunks WHERE batch_id = $1 AND chunk_index = $2 \
     FOR NO KEY UPDATE";
const FAIL: &str = "UPDATE batch_chunks SET status = $3, last_error = COALESCE(last_error, $4) \
     WHERE batch_id = $1 AND chunk_index = $2";

impl Database {
    /// Notes an attempt at a chunk that failed, and why, unless the chunk is done. One that its batch has in a later generation, and so under another id, is none of
    /// its chunks any more, and nothing is noted.
    ///
    /// # Errors
    /// Where the database fails.
    pub async fn note_failed_attempt(&self, chunk: ChunkId, error: &str) -> Result<(), DatabaseError> {
        self.within(async {
            let mut lease = self.lease().await?;
            let noted = note(&mut lease.connection, chunk, error).await;
            lease.release();
            noted
        })
        .await
    }

    /// Gives a chunk up that could not be written, and settles its batch. Only a chunk that is pending fails; written after all, it is done nevertheless. The last
    /// error is `error` where no attempt noted one. Repeated by the chunk's place and generation.
    ///
    /// # Errors
    /// Where the database fails or does not know the chunk.
    pub async fn fail_chunk(
        &self,
        batch_id: Uuid,
        generation: Generation,
        index: u32,
        error: &str,
    ) -> Result<GivenUp, DatabaseError> {
        self.within(async {
            let mut lease = self.lease().await?;
            let place = Place { batch_id, generation, index };
            let given_up = fail(&mut lease.connection, &place, error).await;
            lease.release();
            given_up
        })
        .await
    }
}

struct Place {
    batch_id: Uuid,
    generation: Generation,
    index: u32,
}

async fn note(connection: &mut Connection, chunk: ChunkId, error: &str) -> Result<(), DatabaseError> {
    let mut session = connection.begin().await?;
    session.execute(NOTE, &[&chunk.uuid(), &shortened(error)]).await?;
    session.commit().await
}

async fn fail(connection: &mut Connection, place: &Place, error: &str) -> Result<GivenUp, DatabaseError> {
    let mut session = connection.begin().await?;
    let index = i32::try_from(place.index)?;
    // Whoever writes the chunk at this moment is waited for.
    let Some(row) = session.query_opt(STATE, &[&place.batch_id, &index]).await? else {
        return missing(&mut session, place).await;
    };
    match generation(&row, "generation")?.cmp(&place.generation) {
        std::cmp::Ordering::Greater => return Ok(GivenUp::Superseded),
        std::cmp::Ordering::Less => return Err(place.unknown()),
        std::cmp::Ordering::Equal => {}
    }
    let before: ChunkStatus = word(&row, "status")?;
    let after = before.after(ChunkEvent::GivenUp);
    if after == before {
        return Ok(GivenUp::Before(before));
    }
    session.execute(FAIL, &[&place.batch_id, &index, &after.as_str(), &shortened(error)]).await?;
    let batch = lock(&mut session, place.batch_id).await?;
    let settled = settle(&mut session, &batch).await?;
    session.commit().await?;
    let became_final = settled.status.is_final() && !batch.status.is_final();
    Ok(GivenUp::Failed { batch: settled.status, became_final })
}

/// A batch that is cut again has no chunks until it is sealed.
async fn missing(session: &mut Session<'_>, place: &Place) -> Result<GivenUp, DatabaseError> {
    let batch = lock(session, place.batch_id).await?;
    if batch.generation > place.generation { Ok(GivenUp::Superseded) } else { Err(place.unknown()) }
}

impl Place {
    const fn unknown(&self) -> DatabaseError {
        DatabaseError::UnknownChunk { batch_id: self.batch_id, index: self.index }
    }
}

/// As much of an error as is kept; PostgreSQL's texts have no NUL.
fn shortened(error: &str) -> String {
    error.chars().filter(|character| *character != '\0').take(LONGEST_ERROR).collect()
}
