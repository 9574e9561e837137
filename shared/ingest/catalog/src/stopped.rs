//! Search for batches that have stalled, as after a crash or a lost message, so that `reconcile`
//! can move them on.

use std::time::Duration;

use ingestion::batch::BatchStatus;
use ingestion::chunk::Generation;
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::connection::Params;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locked_batch::generation;
use crate::rows::{count, word};

/// Thresholds after which a batch counts as stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallThresholds {
    /// Time without progress after which a batch is restarted. It is restarted again each time this
    /// time has doubled.
    pub stopped_for: Duration,
    /// Maximum age of a batch's generation (round of processing) at which the batch is still
    /// restarted. An operator has to handle an older one.
    pub given_up_after: Duration,
}

/// Batch that `reconcile` has to restart, finalize, end or release, because nothing else has done
/// so in time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "columns of `batches`, under their names")]
pub struct BatchToRecover {
    pub batch_id: Uuid,
    pub tenant_id: Uuid,
    /// Idempotency key of the request that created the batch.
    pub idempotency_key: String,
    /// Trace id of the request that created the batch.
    pub trace_id: String,
    /// Location of the payload, as `s3://bucket/key`.
    pub payload_uri: String,
    pub status: BatchStatus,
    pub generation: Generation,
    pub chunks_pending: u64,
    pub received_at: Timestamp,
    pub moved_at: Timestamp,
}

/// Stalled batches that are too old to be restarted automatically, by
/// [`StallThresholds::given_up_after`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckBatches {
    /// Number of all stuck batches, listed or not.
    pub count: u64,
    /// Stuck batches that were received first, up to the requested number.
    pub oldest: Vec<BatchToRecover>,
}

const UNKNOWN: &str = "SELECT asked.batch_id FROM unnest($1::uuid[]) AS asked (batch_id) \
     WHERE NOT EXISTS (SELECT FROM batches b WHERE b.batch_id = asked.batch_id)";

macro_rules! stopped_where {
    ($condition:literal) => {
        concat!(
            "status IN ('RECEIVED', 'CHUNKING', 'PROCESSING') AND moved_at < now() - $1 * interval '1 second' AND ",
            $condition
        )
    };
}

/// Builds the statement that selects stalled batches for a restart, and marks them as selected now.
/// `SKIP LOCKED` leaves out rows that other transactions hold, since these batches make progress or
/// are being selected, so that the statement never waits.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "WITH stopped AS MATERIALIZED (SELECT batch_id FROM batches WHERE ",
            stopped_where!($condition),
            " AND (reconciled_at IS NULL OR reconciled_at < moved_at \
                   OR now() - moved_at >= 2 * (reconciled_at - moved_at)) \
              ORDER BY received_at, batch_id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) \
              UPDATE batches b SET reconciled_at = now() FROM stopped WHERE b.batch_id = stopped.batch_id \
              RETURNING b.batch_id, b.tenant_id, b.idempotency_key, b.trace_id, b.payload_uri, b.status, b.generation, \
                  b.chunks_pending, b.moved_at, b.received_at"
        )
    };
}

const SELECT_STALLED: &str = select!(
    "(status <> 'PROCESSING' OR chunks_pending > 0) AND generation_began_at >= now() - $3 * interval '1 second'"
);
const SELECT_UNFINALIZED: &str = select!("status = 'PROCESSING' AND chunks_pending = 0");
const SELECT_UNRELEASED: &str = "WITH kept AS MATERIALIZED (SELECT batch_id FROM batches WHERE NOT objects_let_go \
         AND finished_at < now() - $1 * interval '1 second' AND (reconciled_at IS NULL OR reconciled_at < finished_at \
              OR now() - finished_at >= 2 * (reconciled_at - finished_at)) \
      ORDER BY finished_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) \
      UPDATE batches b SET reconciled_at = now() FROM kept WHERE b.batch_id = kept.batch_id \
      RETURNING b.batch_id, b.tenant_id, b.idempotency_key, b.trace_id, b.payload_uri, b.status, b.generation, \
          b.chunks_pending, b.moved_at, b.received_at";
const UNSELECT: &str = "UPDATE batches SET reconciled_at = NULL WHERE batch_id = ANY($1)";

macro_rules! stuck {
    ($columns:literal, $order:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM batches WHERE ",
            stopped_where!("generation_began_at < now() - $2 * interval '1 second'"),
            $order
        )
    };
}

const COUNT_STUCK: &str = stuck!("count(*) AS stuck", "");
const OLDEST_STUCK: &str = stuck!(
    "batch_id, tenant_id, idempotency_key, trace_id, payload_uri, status, generation, chunks_pending, moved_at, \
     received_at",
    " ORDER BY received_at, batch_id LIMIT $3"
);

impl Database {
    /// Returns those of the ids that belong to no batch in the database.
    pub async fn unknown(&self, batch_ids: &[Uuid]) -> Result<Vec<Uuid>, DatabaseError> {
        let rows = self.read(UNKNOWN, &[&batch_ids]).await?;
        rows.iter().map(|row| Ok(row.try_get("batch_id")?)).collect()
    }

    /// Selects up to `limit` stalled batches whose payload is not cut or whose chunks are not all
    /// written, the oldest first, so that the caller restarts them. A selected batch is not
    /// selected again before the time since its last progress has doubled.
    ///
    /// # Errors
    /// If the database fails. If only the answer to the commit was lost, the batches count as
    /// selected.
    pub async fn select_stalled(
        &self,
        thresholds: StallThresholds,
        limit: u32,
    ) -> Result<Vec<BatchToRecover>, DatabaseError> {
        let (stopped, given_up) =
            (thresholds.stopped_for.as_secs_f64(), thresholds.given_up_after.as_secs_f64());
        self.select_batches(SELECT_STALLED, &[&stopped, &i64::from(limit), &given_up]).await
    }

    /// Selects up to `limit` batches without progress for `stopped_for` that have no pending chunk
    /// and only lack [`finalize`](Self::finalize). The waiting times of
    /// [`select_stalled`](Self::select_stalled) apply, without a maximum age.
    ///
    /// # Errors
    /// Same as [`select_stalled`](Self::select_stalled).
    pub async fn select_unfinalized(
        &self,
        stopped_for: Duration,
        limit: u32,
    ) -> Result<Vec<BatchToRecover>, DatabaseError> {
        self.select_batches(SELECT_UNFINALIZED, &[&stopped_for.as_secs_f64(), &i64::from(limit)]).await
    }

    /// Selects up to `limit` batches that have been final for `final_for` and whose S3 objects
    /// still lack the tag by which they expire. The waiting times of
    /// [`select_stalled`](Self::select_stalled) apply, counted from the batch's end and without a
    /// maximum age.
    ///
    /// # Errors
    /// Same as [`select_stalled`](Self::select_stalled).
    pub async fn select_unreleased(
        &self,
        final_for: Duration,
        limit: u32,
    ) -> Result<Vec<BatchToRecover>, DatabaseError> {
        self.select_batches(SELECT_UNRELEASED, &[&final_for.as_secs_f64(), &i64::from(limit)]).await
    }

    /// Undoes the selection of batches that could not be restarted, so that they can be selected
    /// again at once.
    pub async fn unselect(&self, batch_ids: &[Uuid]) -> Result<(), DatabaseError> {
        self.change(UNSELECT, &[&batch_ids]).await.map(drop)
    }

    /// Returns the stalled batches that are too old for
    /// [`select_stalled`](Self::select_stalled): their number, and up to `limit` of them.
    pub async fn stuck(
        &self,
        thresholds: StallThresholds,
        limit: u32,
    ) -> Result<StuckBatches, DatabaseError> {
        let (stopped, given_up) =
            (thresholds.stopped_for.as_secs_f64(), thresholds.given_up_after.as_secs_f64());
        let counted = self.read(COUNT_STUCK, &[&stopped, &given_up]).await?;
        let count = counted.first().map_or(Ok(0), |row| count(row, "stuck"))?;
        if count == 0 {
            return Ok(StuckBatches { count, oldest: Vec::new() });
        }
        let rows = self.read(OLDEST_STUCK, &[&stopped, &given_up, &i64::from(limit)]).await?;
        Ok(StuckBatches { count, oldest: rows.iter().map(batch).collect::<Result<_, _>>()? })
    }

    async fn select_batches(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<BatchToRecover>, DatabaseError> {
        let rows = self.change(sql, params).await?;
        let mut taken = rows.iter().map(batch).collect::<Result<Vec<_>, _>>()?;
        taken.sort_by_key(|batch| (batch.received_at, batch.batch_id));
        Ok(taken)
    }
}

pub(crate) fn batch(row: &Row) -> Result<BatchToRecover, DatabaseError> {
    Ok(BatchToRecover {
        batch_id: row.try_get("batch_id")?,
        tenant_id: row.try_get("tenant_id")?,
        idempotency_key: row.try_get("idempotency_key")?,
        trace_id: row.try_get("trace_id")?,
        payload_uri: row.try_get("payload_uri")?,
        status: word(row, "status")?,
        generation: generation(row, "generation")?,
        chunks_pending: count(row, "chunks_pending")?,
        received_at: row.try_get("received_at")?,
        moved_at: row.try_get("moved_at")?,
    })
}
