//! Row of a batch, which each change of the batch's state locks.

use ingestion::batch::{BatchStatus, ChunkCounts, Deactivation};
use ingestion::chunk::{Generation, Plan};
use ingestion::payload::LoadType;
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::connection::Session;
use crate::error::DatabaseError;
use crate::plan::plan;
use crate::rows::{count, word};

/// Locks a batch's row until the transaction ends, and returns the columns that [`LockedBatch::of`]
/// reads. Every transaction takes this lock last.
pub(crate) const LOCK: &str = "SELECT status, generation, load_type, received_at, planner, chunk_items, items_parsed, \
     items_in_error, sealed_at IS NOT NULL AS is_sealed, chunks_pending, chunks_done, chunks_failed, deactivation, \
     deactivation_confirmed, deactivated_so_far, judged_missing, \
     status = 'FAILED' AND COALESCE(error->>'code' = 'GIVEN_UP', false) AS is_given_up, \
     received_at < (SELECT kept_since FROM batch_history) AS is_too_old FROM batches WHERE batch_id = $1 \
     FOR NO KEY UPDATE";

/// Row of a batch that the current transaction has locked.
#[derive(Debug)]
pub(crate) struct LockedBatch {
    pub(crate) batch_id: Uuid,
    pub(crate) status: BatchStatus,
    pub(crate) generation: Generation,
    pub(crate) load_type: LoadType,
    pub(crate) received_at: Timestamp,
    pub(crate) plan: Option<Plan>,
    pub(crate) items_parsed: u64,
    pub(crate) items_in_error: u64,
    pub(crate) is_sealed: bool,
    pub(crate) chunks: ChunkCounts,
    pub(crate) deactivation: Deactivation,
    /// True if a user has confirmed that the load deactivates the products that it lacks, so that
    /// the guard against mass deactivation does not stop it.
    pub(crate) deactivation_confirmed: bool,
    /// Number of products that the batch has deactivated so far; `None` before the guard against
    /// mass deactivation has allowed it to begin, and once the batch is final.
    pub(crate) deactivated_so_far: Option<u64>,
    /// Number of missing products that the guard against mass deactivation has found so far in its
    /// check before the deactivation.
    pub(crate) judged_missing: u64,
    pub(crate) is_given_up: bool,
    /// True if the batch was received before the start of the history of loads (the period for
    /// which batches are retained).
    pub(crate) is_too_old: bool,
}

impl LockedBatch {
    /// Parses the row that the statement [`LOCK`] returned; an error if the batch has no row.
    pub(crate) fn of(batch_id: Uuid, row: Option<&Row>) -> Result<Self, DatabaseError> {
        let row = row.ok_or(DatabaseError::UnknownBatch(batch_id))?;
        let Json(deactivation) = row.try_get("deactivation")?;
        let so_far: Option<i64> = row.try_get("deactivated_so_far")?;
        Ok(Self {
            batch_id,
            status: word(row, "status")?,
            generation: generation(row, "generation")?,
            load_type: word(row, "load_type")?,
            received_at: row.try_get("received_at")?,
            plan: plan(row)?,
            items_parsed: count(row, "items_parsed")?,
            items_in_error: count(row, "items_in_error")?,
            is_sealed: row.try_get("is_sealed")?,
            chunks: ChunkCounts {
                pending: count(row, "chunks_pending")?,
                done: count(row, "chunks_done")?,
                failed: count(row, "chunks_failed")?,
            },
            deactivation,
            deactivation_confirmed: row.try_get("deactivation_confirmed")?,
            deactivated_so_far: so_far.map(u64::try_from).transpose()?,
            judged_missing: count(row, "judged_missing")?,
            is_given_up: row.try_get("is_given_up")?,
            is_too_old: row.try_get("is_too_old")?,
        })
    }

    /// Returns the batch's state for the chunker, which may still continue a batch that was given
    /// up: for such a batch [`Chunking`](BatchStatus::Chunking), otherwise the stored state.
    pub(crate) const fn for_the_chunker(&self) -> BatchStatus {
        if self.is_given_up { BatchStatus::Chunking } else { self.status }
    }
}

/// Locks and reads the row of a batch with the statement [`LOCK`].
///
/// # Errors
/// [`DatabaseError::UnknownBatch`] if the batch has no row.
pub(crate) async fn lock(session: &mut Session<'_>, batch_id: Uuid) -> Result<LockedBatch, DatabaseError> {
    let row = session.query_opt(LOCK, &[&batch_id]).await?;
    LockedBatch::of(batch_id, row.as_ref())
}

pub(crate) fn generation(row: &Row, column: &'static str) -> Result<Generation, DatabaseError> {
    Ok(u32::try_from(row.try_get::<_, i32>(column)?)?.try_into()?)
}
