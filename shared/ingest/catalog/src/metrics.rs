//! Metrics of the ingest for `GET /metrics`: batches in progress, the outbox, and counters that
//! only grow.
//!
//! A database trigger adds to the counters when a batch becomes final. So the counters stay
//! complete even while an older version of this program runs, which does not know them. They
//! outlive the batches, which are deleted.

use std::time::Duration;

use crate::connection::Connection;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::rows::{count, seconds};

const UNDER_WAY: &str = "SELECT status, count(*) AS batches, sum(chunks_pending)::bigint AS chunks, \
         extract(epoch FROM clock_timestamp() - min(received_at))::double precision AS seconds \
     FROM batches WHERE status IN ('RECEIVED', 'CHUNKING', 'PROCESSING') GROUP BY status ORDER BY status";
/// Query for the time that the oldest pending chunk has been waiting. Only the hundred batches that
/// were received or replayed first are searched, because the chunk normally belongs to one of them.
const OLDEST_CHUNK: &str = "SELECT extract(epoch FROM \
         clock_timestamp() - min(GREATEST(c.created_at, b.generation_began_at)))::double precision AS seconds \
     FROM (SELECT batch_id, generation_began_at FROM batches WHERE status = 'PROCESSING' AND chunks_pending > 0 \
         ORDER BY GREATEST(received_at, generation_began_at) LIMIT 100) AS b \
     JOIN batch_chunks c ON c.batch_id = b.batch_id AND c.status = 'PENDING'";
const OLDEST_EVENT: &str = "SELECT extract(epoch FROM clock_timestamp() - occurred_at)::double precision AS seconds \
     FROM outbox ORDER BY sequence LIMIT 1";
const COUNTED: &str = "SELECT metric, label, sum(value)::bigint AS value FROM \
         (SELECT metric, label, total AS value FROM metric_totals \
          UNION ALL SELECT metric, label, added FROM metric_additions) AS counted \
     GROUP BY metric, label ORDER BY metric, label";
const FOLD: &str = "WITH taken AS (DELETE FROM metric_additions WHERE ctid = ANY(ARRAY( \
             SELECT ctid FROM metric_additions LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING metric, label, added), \
         summed AS (INSERT INTO metric_totals (metric, label, total) \
             SELECT metric, label, sum(added)::bigint FROM taken GROUP BY metric, label ORDER BY metric, label \
             ON CONFLICT (metric, label) DO UPDATE SET total = metric_totals.total + EXCLUDED.total) \
     SELECT count(*) AS folded FROM taken";

/// Metrics of the ingest: batches in progress, the outbox, and counters of final batches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngestMetrics {
    /// Number of batches in progress, by status. A status without batches is missing.
    pub under_way: Vec<(String, u64)>,
    /// Time since the receipt of the oldest batch in progress; zero if no batch is in progress.
    pub oldest_batch: Duration,
    /// Number of chunks that are stored and not written to PostgreSQL yet, of all batches in
    /// progress.
    pub chunks_pending: u64,
    /// Time that the oldest pending chunk has been waiting; zero if none is pending.
    pub oldest_chunk: Duration,
    /// Time that the oldest event has been in the outbox; zero if the outbox is empty.
    pub oldest_event: Duration,
    /// Counters of final batches and of their items.
    pub counted: Vec<Counted>,
}

/// Counter of final batches or of their items, since the installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Name of the counter: `batches` by status, `items` by outcome, `item_errors` by code,
    /// `batch_duration` by upper bound in seconds (`inf` above the highest), or
    /// `batch_milliseconds`, the sum of all durations.
    pub metric: String,
    /// Label of the counter: a status, an outcome, a code, or an upper bound in seconds.
    pub label: String,
    /// Value of the counter since the installation.
    pub value: u64,
}

impl Database {
    /// Reads the metrics of batches in progress, of the outbox, and of final batches.
    pub async fn metrics(&self) -> Result<IngestMetrics, DatabaseError> {
        self.with_connection(async |connection| {
            let mut metrics = IngestMetrics::default();
            for row in connection.query(UNDER_WAY, &[]).await? {
                metrics.under_way.push((row.try_get("status")?, count(&row, "batches")?));
                metrics.chunks_pending = metrics.chunks_pending.saturating_add(count(&row, "chunks")?);
                metrics.oldest_batch = metrics.oldest_batch.max(seconds(&row)?);
            }
            metrics.oldest_chunk = oldest(connection, OLDEST_CHUNK).await?;
            metrics.oldest_event = oldest(connection, OLDEST_EVENT).await?;
            for row in connection.query(COUNTED, &[]).await? {
                metrics.counted.push(Counted {
                    metric: row.try_get("metric")?,
                    label: row.try_get("label")?,
                    value: count(&row, "value")?,
                });
            }
            Ok(metrics)
        })
        .await
    }

    /// Returns the time that the oldest pending chunk has been waiting; zero if none is pending.
    pub async fn oldest_chunk(&self) -> Result<Duration, DatabaseError> {
        self.with_connection(async |connection| oldest(connection, OLDEST_CHUNK).await).await
    }

    /// Removes some of the rows in which final batches stored increments of the counters, and adds
    /// them to the counters' totals. Returns true if more rows may be left. The values of the
    /// counters stay the same, and the call may be repeated.
    pub async fn fold_counters(&self) -> Result<bool, DatabaseError> {
        self.fold(FOLD).await
    }
}

async fn oldest(connection: &mut Connection, sql: &'static str) -> Result<Duration, DatabaseError> {
    let rows = connection.query(sql, &[]).await?;
    rows.first().map_or(Ok(Duration::ZERO), seconds)
}
