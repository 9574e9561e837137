//! Replays: processing a batch again, in a new generation (round of processing).
//!
//! Chunks that are written again keep their objects and the hashes of their contents, so nothing is
//! lost until they are done. Messages of earlier generations are ignored. Generations do not decide
//! which version of a product wins, so a replay changes no product that was written before.

use ingestion::Viewer;
use ingestion::batch::{
    BatchEvent, BatchStatus, ChunkCounts, ChunkStatus, Replay, ReplayRefusal, ReplayScope, ReplayWork,
    ReplayedBatch,
};
use ingestion::chunk::{ChunkId, Generation};
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::account::settle;
use crate::connection::{Connection, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locked_batch::{LockedBatch, generation, lock};
use crate::plan::cut_anew;
use crate::rows::{bigint, count, word};
use crate::visible::visible;

/// Request to replay a batch (to process it again), as the batches API receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Part of the batch to process again (all of it, or only what failed), and whether a held
    /// deactivation is confirmed.
    pub replay: Replay,
    /// Idempotency key of the client's replay request, in canonical spelling.
    pub idempotency_key: String,
    /// Time at which the idempotency key was first claimed, which stays the same if the request is
    /// repeated. By key and time, a repeated request finds the replay that the first one began.
    pub requested_at: Timestamp,
}

/// Outcome of a replay request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The request began a replay.
    Begun(BegunReplay),
    /// An earlier attempt of the same request began this replay.
    Repeated(BegunReplay),
    /// The batch cannot be replayed for this reason, and nothing was changed.
    Refused(ReplayRefusal),
    /// The batch does not exist, or the viewer may not see it.
    Unknown,
}

/// Replay that has begun: a new generation (round of processing) of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunReplay {
    /// Generation (round of processing) that the replay began; its number is at least 2.
    pub generation: Generation,
    /// State of the batch right after the replay began.
    pub status: BatchStatus,
    /// Number of chunks that the replay writes again.
    pub chunks: u64,
    /// URI of the payload. A notification about it starts the generation's processing.
    pub payload_uri: String,
}

const PAYLOAD: &str =
    concat!("SELECT payload_uri FROM batches b WHERE b.batch_id = $1 AND ", visible!("$2", "$3"));
const EARLIER: &str = "SELECT r.generation, r.status, r.chunks, b.payload_uri FROM batch_replays r \
     JOIN batches b USING (batch_id) \
     WHERE r.batch_id = $1 AND r.idempotency_key = $2 AND r.requested_at = $3";
/// Query that locks all chunks of a batch, before the batch itself and in the same order as
/// transactions that write chunks. The lock is exclusive because the chunks' ids change.
const CHUNKS: &str =
    "SELECT chunk_index, status FROM batch_chunks WHERE batch_id = $1 ORDER BY chunk_index FOR UPDATE";
const FIRST_AND_LAST: &str = "SELECT chunk_uri FROM batch_chunks c WHERE batch_id = $1 \
     AND chunk_index IN (SELECT unnest( \
     ARRAY[min(chunk_index), max(chunk_index)]) FROM batch_chunks WHERE batch_id = $1 AND ($2 OR status = 'FAILED')) \
     ORDER BY chunk_index";
const RESET_CHUNKS: &str = "UPDATE batch_chunks c SET chunk_id = r.chunk_id, generation = $2, \
     status = 'PENDING', attempts = 0, inserted = 0, updated = 0, unchanged = 0, stale = 0, \
     rejected = 0, rejected_unlisted = 0, last_error = NULL, done_at = NULL \
     FROM unnest($3::integer[], $4::uuid[]) AS r (chunk_index, chunk_id) \
     WHERE c.batch_id = $1 AND c.chunk_index = r.chunk_index";
const RESET: &str = "UPDATE batches SET generation = $2, status = $3, deactivation = $4, deactivation_confirmed = $5, \
     deactivated_so_far = NULL, judged_to = NULL, judged_missing = 0, judged_held = false, objects_let_go = false, \
     error = NULL, finished_at = NULL WHERE batch_id = $1";
/// Resets the outcome of a replayed batch's deactivation in establishments that were left to other
/// loads or were not the tenant's, so that it is decided again. Establishments with a completed
/// deactivation keep that outcome, since late batches rely on it. If `$2`, refusals are cleared
/// too, because every chunk is written again.
const RESET_CNPJS: &str = "UPDATE batch_cnpjs SET refused = refused AND NOT $2, \
         deactivation = CASE deactivation WHEN 'done' THEN deactivation END \
     WHERE batch_id = $1 AND (deactivation <> 'done' OR refused AND $2)";
const NOTE: &str = "INSERT INTO batch_replays (batch_id, generation, idempotency_key, requested_at, scope, \
     confirm_deactivation, status, chunks) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

impl Database {
    /// Begins a replay of a batch, in a new generation (round of processing). Idempotent by the
    /// batch, the idempotency key and the time of its claim: a repeated call returns the replay
    /// that the first one began.
    pub async fn replay(
        &self,
        viewer: &Viewer,
        batch_id: Uuid,
        request: &ReplayRequest,
    ) -> Result<ReplayOutcome, DatabaseError> {
        self.with_connection(async |connection| replay(connection, viewer, batch_id, request).await).await
    }

    /// Returns the URIs of the payload and of the first and last chunk that a replay would read.
    /// The objects of a batch expire together, so these show whether they still exist. The list is
    /// empty if the replay has begun already, or if nothing can be replayed.
    pub async fn objects_to_replay(
        &self,
        viewer: &Viewer,
        batch_id: Uuid,
        request: &ReplayRequest,
    ) -> Result<Vec<String>, DatabaseError> {
        self.with_connection(async |connection| {
            objects(&mut connection.begin().await?, viewer, batch_id, request).await
        })
        .await
    }
}

async fn replay(
    connection: &mut Connection,
    viewer: &Viewer,
    batch_id: Uuid,
    request: &ReplayRequest,
) -> Result<ReplayOutcome, DatabaseError> {
    let mut session = connection.begin().await?;
    let Some(payload_uri) = payload(&mut session, viewer, batch_id).await? else {
        return Ok(ReplayOutcome::Unknown);
    };
    let chunks = session.query(CHUNKS, &[&batch_id]).await?;
    let batch = lock(&mut session, batch_id).await?;
    if let Some(begun) = earlier(&mut session, batch_id, request).await? {
        return Ok(ReplayOutcome::Repeated(begun));
    }
    let work = match request.replay.work(&batch.replayed()) {
        Ok(work) => work,
        Err(reason) => return Ok(ReplayOutcome::Refused(reason)),
    };
    let chosen = chosen(&chunks, work)?;
    let batch = begin(&mut session, batch, work, &chosen, request.replay).await?;
    let begun = BegunReplay {
        generation: batch.generation,
        status: batch.status,
        chunks: u64::try_from(chosen.len())?,
        payload_uri,
    };
    note(&mut session, batch_id, request, &begun).await?;
    session.commit().await?;
    Ok(ReplayOutcome::Begun(begun))
}

/// Starts a locked batch's next generation (round of processing), in which the chunks with the
/// indexes `chosen` are pending.
async fn begin(
    session: &mut Session<'_>,
    batch: LockedBatch,
    work: ReplayWork,
    chosen: &[i32],
    replay: Replay,
) -> Result<LockedBatch, DatabaseError> {
    let pending = u64::try_from(chosen.len())?;
    let counts = ChunkCounts { pending, done: batch.chunks.total().saturating_sub(pending), failed: 0 };
    let batch = LockedBatch {
        status: batch.status.after(BatchEvent::Replayed(counts))?,
        generation: batch.generation.next(),
        deactivation: batch.deactivation.replayed(),
        deactivation_confirmed: replay.confirm_deactivation,
        ..batch
    };
    let number = i32::try_from(batch.generation.number())?;
    let (status, deactivation) = (batch.status.as_str(), Json(batch.deactivation));
    session
        .execute(RESET, &[&batch.batch_id, &number, &status, &deactivation, &batch.deactivation_confirmed])
        .await?;
    let is_everything = work == ReplayWork::Chunks(ReplayScope::All);
    session.execute(RESET_CNPJS, &[&batch.batch_id, &is_everything]).await?;
    if work == ReplayWork::Cut {
        cut_anew(session, &batch).await?;
        return Ok(batch);
    }
    let ids = chosen
        .iter()
        .map(|index| Ok(id(&batch, u32::try_from(*index)?)))
        .collect::<Result<Vec<_>, DatabaseError>>()?;
    session.execute(RESET_CHUNKS, &[&batch.batch_id, &number, &chosen, &ids]).await?;
    settle(session, &batch).await?;
    Ok(batch)
}

fn id(batch: &LockedBatch, index: u32) -> Uuid {
    ChunkId::of(batch.batch_id, batch.generation, index).uuid()
}

/// Returns the indexes of the chunks among `rows` that the replay writes again.
fn chosen(rows: &[Row], work: ReplayWork) -> Result<Vec<i32>, DatabaseError> {
    let mut chosen = Vec::new();
    for row in rows {
        let status: ChunkStatus = word(row, "status")?;
        let takes_part = match work {
            ReplayWork::Chunks(ReplayScope::All) => true,
            ReplayWork::Chunks(ReplayScope::Failed) => status == ChunkStatus::Failed,
            ReplayWork::Cut | ReplayWork::Deactivation => false,
        };
        if takes_part {
            chosen.push(row.try_get("chunk_index")?);
        }
    }
    Ok(chosen)
}

async fn objects(
    session: &mut Session<'_>,
    viewer: &Viewer,
    batch_id: Uuid,
    request: &ReplayRequest,
) -> Result<Vec<String>, DatabaseError> {
    let Some(payload_uri) = payload(session, viewer, batch_id).await? else { return Ok(Vec::new()) };
    if earlier(session, batch_id, request).await?.is_some() {
        return Ok(Vec::new());
    }
    let batch = lock(session, batch_id).await?;
    let mut uris = vec![payload_uri];
    match request.replay.work(&batch.replayed()) {
        Ok(ReplayWork::Chunks(scope)) => {
            let all = scope == ReplayScope::All;
            for row in session.query(FIRST_AND_LAST, &[&batch_id, &all]).await? {
                uris.push(row.try_get("chunk_uri")?);
            }
        }
        Ok(ReplayWork::Cut | ReplayWork::Deactivation) => {}
        Err(_) => uris.clear(),
    }
    Ok(uris)
}

async fn payload(
    session: &mut Session<'_>,
    viewer: &Viewer,
    batch_id: Uuid,
) -> Result<Option<String>, DatabaseError> {
    let row = session.query_opt(PAYLOAD, &[&batch_id, &viewer.tenant_id(), &viewer.limits()]).await?;
    Ok(row.map(|row| row.try_get("payload_uri")).transpose()?)
}

async fn earlier(
    session: &mut Session<'_>,
    batch_id: Uuid,
    request: &ReplayRequest,
) -> Result<Option<BegunReplay>, DatabaseError> {
    let key = &request.idempotency_key;
    let row = session.query_opt(EARLIER, &[&batch_id, key, &request.requested_at]).await?;
    row.map(|row| {
        Ok(BegunReplay {
            generation: generation(&row, "generation")?,
            status: word(&row, "status")?,
            chunks: count(&row, "chunks")?,
            payload_uri: row.try_get("payload_uri")?,
        })
    })
    .transpose()
}

async fn note(
    session: &mut Session<'_>,
    batch_id: Uuid,
    request: &ReplayRequest,
    begun: &BegunReplay,
) -> Result<(), DatabaseError> {
    let Replay { scope, confirm_deactivation } = request.replay;
    session
        .execute(
            NOTE,
            &[
                &batch_id,
                &i32::try_from(begun.generation.number())?,
                &request.idempotency_key,
                &request.requested_at,
                &scope.as_str(),
                &confirm_deactivation,
                &begun.status.as_str(),
                &bigint(begun.chunks)?,
            ],
        )
        .await?;
    Ok(())
}

impl LockedBatch {
    const fn replayed(&self) -> ReplayedBatch {
        ReplayedBatch {
            status: self.status,
            is_sealed: self.is_sealed,
            chunks: self.chunks,
            deactivation: self.deactivation,
            is_too_old: self.is_too_old,
        }
    }
}
