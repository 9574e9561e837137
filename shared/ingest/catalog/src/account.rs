//! Derivation of a batch's counters and state from its chunks, while the batch's row is locked.

use ingestion::batch::{
    BatchEvent, BatchStatus, Changes, ChunkCounts, ChunkResult, ChunkStatus, Counters, Deactivation,
};
use tokio_postgres::Row;
use tokio_postgres::types::Json;

use crate::connection::Session;
use crate::error::DatabaseError;
use crate::locked_batch::LockedBatch;
use crate::outbox;
use crate::rows::{bigint, count, word};

/// Query that counts a batch's chunks and their items by status, for [`settle_by`].
pub(crate) const TALLY: &str = "SELECT status, count(*) AS chunks, sum(items)::bigint AS items, \
     sum(inserted)::bigint AS inserted, sum(updated)::bigint AS updated, \
     sum(unchanged)::bigint AS unchanged, sum(stale)::bigint AS stale, \
     sum(rejected)::bigint AS rejected, sum(rejected_unlisted)::bigint AS rejected_unlisted \
     FROM batch_chunks WHERE batch_id = $1 GROUP BY status";
const SETTLE: &str = "UPDATE batches SET status = $2, items_failed = $3, inserted = $4, updated = $5, unchanged = $6, \
     stale = $7, chunks_pending = $8, chunks_done = $9, chunks_failed = $10, deactivation = $11, \
     deactivated_so_far = CASE WHEN $12 THEN NULL ELSE deactivated_so_far END, \
     finished_at = CASE WHEN $12 THEN COALESCE(finished_at, now()) END, moved_at = now(), \
     rejected_unlisted = $13 WHERE batch_id = $1";

/// Result of [`settle`]: the state of a batch, as derived from the states of its chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) status: BatchStatus,
    /// True if all chunks of a full load are done, but the deactivation of the products that it
    /// lacks is still pending. The batch's state then does not change.
    pub(crate) undecided: bool,
}

/// Derives the counters and the state of a locked batch from its chunks, and writes them to the
/// batch's row, together with `batch.deactivation`. Writes an event to the outbox if the batch
/// became final, or if a final batch changed.
pub(crate) async fn settle(session: &mut Session<'_>, batch: &LockedBatch) -> Result<Settled, DatabaseError> {
    let rows = session.query(TALLY, &[&batch.batch_id]).await?;
    settle_by(session, batch, &rows).await
}

/// Derives the counters and the state of a locked batch from `rows`, and writes them as [`settle`]
/// does. `rows` are the result of [`TALLY`], which must be queried after the batch is locked.
pub(crate) async fn settle_by(
    session: &mut Session<'_>,
    batch: &LockedBatch,
    rows: &[Row],
) -> Result<Settled, DatabaseError> {
    let Tally { counts, done, given_up } = Tally::of(rows)?;
    let unlisted = rows.iter().map(|row| count(row, "rejected_unlisted")).sum::<Result<u64, _>>()?;
    let counters = Counters::derive(batch.items_parsed, batch.items_in_error, done, given_up);
    if counts.pending == 0 {
        counters.balanced()?;
    }
    let undecided = counts.pending == 0 && counts.failed == 0 && batch.deactivation == Deactivation::Pending;
    let status =
        if undecided { batch.status } else { batch.status.after(BatchEvent::ChunksCounted(counts))? };
    let changes = counters.changes;
    session
        .execute(
            SETTLE,
            &[
                &batch.batch_id,
                &status.as_str(),
                &bigint(counters.failed)?,
                &bigint(changes.inserted)?,
                &bigint(changes.updated)?,
                &bigint(changes.unchanged)?,
                &bigint(changes.stale)?,
                &bigint(counts.pending)?,
                &bigint(counts.done)?,
                &bigint(counts.failed)?,
                &Json(batch.deactivation),
                &status.is_final(),
                &bigint(unlisted)?,
            ],
        )
        .await?;
    if !undecided {
        outbox::settled(session, batch, status, counts).await?;
    }
    Ok(Settled { status, undecided })
}

/// Counts of a batch's chunks by state, with the summed outcomes of the written chunks (`done`) and
/// the number of items in chunks that were given up.
#[derive(Default)]
struct Tally {
    counts: ChunkCounts,
    done: Option<ChunkResult>,
    given_up: u64,
}

impl Tally {
    /// Parses the rows of the statement [`TALLY`].
    fn of(rows: &[Row]) -> Result<Self, DatabaseError> {
        let mut tally = Self::default();
        for row in rows {
            let (chunks, items) = (count(row, "chunks")?, count(row, "items")?);
            match word(row, "status")? {
                ChunkStatus::Pending => tally.counts.pending = chunks,
                ChunkStatus::Failed => (tally.counts.failed, tally.given_up) = (chunks, items),
                ChunkStatus::Done => {
                    tally.counts.done = chunks;
                    tally.done = Some(ChunkResult::new(items, changes(row)?, count(row, "rejected")?)?);
                }
            }
        }
        Ok(tally)
    }
}

pub(crate) fn changes(row: &Row) -> Result<Changes, DatabaseError> {
    Ok(Changes {
        inserted: count(row, "inserted")?,
        updated: count(row, "updated")?,
        unchanged: count(row, "unchanged")?,
        stale: count(row, "stale")?,
    })
}
