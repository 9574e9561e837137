//! End and deletion of batches that are older than the history of loads, which is the period for
//! which batches are retained.
//!
//! Batches that were received before `batch_history.kept_since` are *too old*. Every transaction
//! reads that time once, and acts as if nothing older existed:
//!
//! - no chunk of such a batch is written, such a full load deactivates no product, and a replay of
//!   such a batch is refused;
//! - such batches are not searched for products that they contained with the content of the
//!   product's row, by which they *confirmed* the row. Instead, every row counts as confirmed at
//!   that time, which is later than all confirmations that are left out. So an item that one of
//!   them outdated is still outdated when it is written again.
//!
//! Late chunks and full loads that are not too old search only batches that were received after
//! them, which are not too old either. So no write and no deactivation depends on whether a batch
//! that is too old still exists, and such batches can be deleted in any order, in slices, at any
//! time. The one exception is a transaction that read `kept_since` before it was advanced. Hence
//! nothing is deleted in the first ten minutes after the time was set.

use std::time::Duration;

use ingestion::batch::{BatchEvent, BatchStatus, ChunkStatus};
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::account::settle;
use crate::batch::PayloadFailure;
use crate::connection::{Connection, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locked_batch::{LockedBatch, lock};
use crate::outbox;
use crate::rows::seconds;
use crate::stopped::{self, BatchToRecover};

/// Time between setting a new start of the history of loads (the period for which batches are
/// retained) and the first deletion of batches before it. Every transaction that began before the
/// start was set has ended by then.
///
/// The server ends a session that idles in a transaction after 10 s, and each statement after 20 s.
/// A call's client stops after 25 s. A transaction has about twenty statements, or sends more
/// within these 25 s. That adds up to less than a tenth of this time, even if a function was frozen
/// in between.
const ANNOUNCED_BEFORE: Duration = Duration::from_mins(10);

/// Maximum number of batches that one call of [`Database::prune`] deletes.
const BATCHES: i64 = 50;
/// Maximum number of rows of items in error, or of a batch's establishments, that one statement
/// deletes.
const ROWS: i64 = 5000;
/// Maximum number of chunk rows that one statement deletes. Each has up to 26 kB of hashes.
const CHUNKS: i64 = 500;
/// Maximum number of chunks of a batch that one statement gives up.
const GIVEN_UP_AT_ONCE: i64 = 1000;

const ADVANCE: &str = "UPDATE batch_history SET kept_since = now() - $1 * interval '1 second', announced_at = now() \
     WHERE kept_since < now() - $1 * interval '1 second' AND announced_at <= now() - $2 * interval '1 second' \
     RETURNING is_only";
/// Query for the seconds by which the batch that ended first has exceeded its retention of `$1`
/// seconds.
const BEHIND: &str = "SELECT extract(epoch FROM now() - min(finished_at))::double precision - $1 AS seconds \
     FROM (SELECT finished_at FROM batches WHERE finished_at IS NOT NULL ORDER BY finished_at LIMIT 1) AS oldest";

const UNDER_WAY: &str = "SELECT batch_id, tenant_id, idempotency_key, trace_id, payload_uri, status, generation, \
         chunks_pending, moved_at, received_at FROM batches \
     WHERE status IN ('RECEIVED', 'CHUNKING', 'PROCESSING') AND received_at < (SELECT kept_since FROM batch_history) \
         AND (status <> 'PROCESSING' OR chunks_pending > 0) \
     ORDER BY received_at, batch_id LIMIT $1";
/// Statement that gives up at most `$4` pending chunks of the batch `$1`. As everywhere, chunks are
/// locked in the order of their indexes, before their batch.
const GIVE_UP: &str = "UPDATE batch_chunks SET status = $3, last_error = COALESCE(last_error, $2) \
     WHERE chunk_id IN (SELECT chunk_id FROM batch_chunks WHERE batch_id = $1 AND status = 'PENDING' \
         ORDER BY chunk_index LIMIT $4 FOR NO KEY UPDATE)";
const END: &str = "UPDATE batches SET error = $2 WHERE batch_id = $1";
const FAIL: &str = "UPDATE batches SET status = $2, error = $3, deactivation = $4, \
     finished_at = COALESCE(finished_at, now()) \
     WHERE batch_id = $1";

/// Query for up to `$2` batches to delete, once the start of the history of loads (the period for
/// which batches are retained) was set `$1` seconds ago. A batch must have been received and have
/// ended before that start, so that a batch that was replayed late is kept as long after its end as
/// any other. A batch whose S3 objects lack the tag by which they expire is kept, because only its
/// rows name the objects.
const PRUNABLE: &str = "SELECT batch_id FROM batches WHERE finished_at < \
         (SELECT kept_since FROM batch_history WHERE announced_at <= now() - $1 * interval '1 second') \
     AND received_at < (SELECT kept_since FROM batch_history) \
     AND objects_let_go AND status IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED', 'EXPIRED') \
     ORDER BY finished_at LIMIT $2 FOR NO KEY UPDATE";
const HIDE: &str = "UPDATE batches SET is_pruned = true WHERE batch_id = ANY($1) AND NOT is_pruned";

macro_rules! delete {
    ($table:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE ctid = ANY(ARRAY(SELECT ctid FROM ",
            $table,
            " WHERE batch_id = ANY($1) LIMIT $2))"
        )
    };
}

/// Statements that delete rows of batches in other tables, each with the maximum number of rows for
/// one statement.
const DETAILS: [(&str, i64); 3] =
    [(delete!("batch_item_errors"), ROWS), (delete!("batch_chunks"), CHUNKS), (delete!("batch_cnpjs"), ROWS)];
/// Deletes the rows of batches that are marked for deletion, and by cascade the rows of their
/// replays, which are few.
const DELETE: &str = "DELETE FROM batches WHERE batch_id = ANY($1) AND is_pruned";

/// Result of one call of [`Database::prune`], which deletes batches older than the history of loads
/// (the period for which batches are retained).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of batches that were deleted completely.
    pub batches: u64,
    /// Number of deleted rows of batches, chunks, establishments and errors.
    pub rows: u64,
    /// True if more batches, or more rows of them, may be left to delete.
    pub is_more: bool,
}

impl Database {
    /// Deletes some of the batches that were received and became final before the start of the
    /// history of loads (the period for which batches are retained), with everything that belongs
    /// to them. Their S3 objects must be [released](Self::note_released). No query shows such a
    /// batch from the first call on. Each call continues the deletion.
    ///
    /// # Errors
    /// If the database fails. Earlier deletions remain.
    pub async fn prune(&self) -> Result<Pruned, DatabaseError> {
        self.with_connection(async |connection| prune(connection).await).await
    }

    /// Moves the start of the history of loads (the period for which batches are retained) to
    /// `kept_for` ago. The start moves at most every ten minutes, and never back. Returns true if
    /// it was moved.
    pub async fn advance_history(&self, kept_for: Duration) -> Result<bool, DatabaseError> {
        let (kept_for, announced) = (kept_for.as_secs_f64(), ANNOUNCED_BEFORE.as_secs_f64());
        Ok(!self.change(ADVANCE, &[&kept_for, &announced]).await?.is_empty())
    }

    /// Returns the time by which the batch that ended first has exceeded its retention `kept_for`;
    /// zero if it has not.
    pub async fn pruning_behind(&self, kept_for: Duration) -> Result<Duration, DatabaseError> {
        let rows = self.read(BEHIND, &[&kept_for.as_secs_f64()]).await?;
        rows.first().map_or(Ok(Duration::ZERO), seconds)
    }

    /// Ends up to `limit` batches in progress that were received before the start of the history of
    /// loads (the period for which batches are retained), the oldest first. Their pending chunks
    /// will not be written. Returns each with its previous state.
    ///
    /// # Errors
    /// If the database fails. Batches that were already ended remain so.
    pub async fn end_too_old(&self, limit: u32) -> Result<Vec<BatchToRecover>, DatabaseError> {
        let rows = self.read(UNDER_WAY, &[&i64::from(limit)]).await?;
        let batches = rows.iter().map(stopped::batch).collect::<Result<Vec<_>, _>>()?;
        for batch in &batches {
            self.with_connection(async |connection| end(connection, batch.batch_id).await).await?;
        }
        Ok(batches)
    }
}

async fn prune(connection: &mut Connection) -> Result<Pruned, DatabaseError> {
    let mut session = connection.begin().await?;
    let rows = session.query(PRUNABLE, &[&ANNOUNCED_BEFORE.as_secs_f64(), &BATCHES]).await?;
    let ids = rows.iter().map(|row| row.try_get("batch_id")).collect::<Result<Vec<Uuid>, _>>()?;
    session.execute(HIDE, &[&ids]).await?;
    session.commit().await?;
    let mut pruned = Pruned::default();
    if ids.is_empty() {
        return Ok(pruned);
    }
    for (sql, limit) in DETAILS {
        let mut session = connection.begin().await?;
        let deleted = session.execute(sql, &[&ids, &limit]).await?;
        session.commit().await?;
        pruned.rows += deleted;
        pruned.is_more |= deleted >= u64::try_from(limit)?;
    }
    if !pruned.is_more {
        let mut session = connection.begin().await?;
        pruned.batches = session.execute(DELETE, &[&ids]).await?;
        session.commit().await?;
        pruned.rows += pruned.batches;
        pruned.is_more = ids.len() >= usize::try_from(BATCHES)?;
    }
    Ok(pruned)
}

/// Ends a batch that was received before the start of the history of loads (the period for which
/// batches are retained), by giving up its pending chunks.
async fn end(connection: &mut Connection, batch_id: Uuid) -> Result<(), DatabaseError> {
    loop {
        let mut session = connection.begin().await?;
        let failed = ChunkStatus::Pending.given_up().as_str();
        let error = PayloadFailure::too_old();
        let given_up =
            session.execute(GIVE_UP, &[&batch_id, &error.detail, &failed, &GIVEN_UP_AT_ONCE]).await?;
        let batch = lock(&mut session, batch_id).await?;
        if !batch.is_sealed {
            fail_too_old(&mut session, &batch).await?;
        } else if given_up > 0 {
            session.execute(END, &[&batch_id, &Json(&error)]).await?;
            let deactivation = batch.deactivation.too_late();
            settle(&mut session, &LockedBatch { deactivation, ..batch }).await?;
        }
        session.commit().await?;
        if given_up < u64::try_from(GIVEN_UP_AT_ONCE)? {
            return Ok(());
        }
    }
}

/// Fails a locked batch that was received before the start of the history of loads (the period for
/// which batches are retained) and whose payload was not cut, and returns its state afterwards. A
/// batch whose chunks are known does not change here.
pub(crate) async fn fail_too_old(
    session: &mut Session<'_>,
    batch: &LockedBatch,
) -> Result<BatchStatus, DatabaseError> {
    let Ok(status) = batch.for_the_chunker().after(BatchEvent::PayloadFailed) else {
        return Ok(batch.status);
    };
    let deactivation = batch.deactivation.too_late();
    session
        .execute(
            FAIL,
            &[&batch.batch_id, &status.as_str(), &Json(PayloadFailure::too_old()), &Json(deactivation)],
        )
        .await?;
    outbox::ended(session, batch.batch_id).await?;
    Ok(status)
}
