//! Usage of the ingest: batches, bytes and items of each tenant and day, and the bytes that it had
//! stored at the day's end, for `GET /v1/usage`.
//!
//! A trigger counts a batch when it becomes final, so a version that does not know the tables
//! counts too. They outlive the batches, which are deleted.

use jiff::civil::Date;
use serde::Serialize;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::Database;
use crate::error::DatabaseError;
use crate::rows::count;

const DAYS: &str = "SELECT tenant_id, day, sum(batches)::bigint AS batches, sum(payload_bytes)::bigint AS bytes, \
         sum(inserted)::bigint AS inserted, sum(updated)::bigint AS updated, sum(unchanged)::bigint AS unchanged, \
         sum(stale)::bigint AS stale, sum(failed)::bigint AS failed, sum(stored)::bigint AS stored FROM \
         (SELECT *, 0::bigint AS stored FROM usage_days UNION ALL SELECT *, 0 FROM usage_additions \
             UNION ALL SELECT tenant_id, day, 0, 0, 0, 0, 0, 0, 0, bytes FROM usage_stored) AS counted \
     WHERE day BETWEEN $1 AND $2 AND ($3::uuid IS NULL OR tenant_id = $3) \
     GROUP BY tenant_id, day ORDER BY tenant_id, day LIMIT $4";
/// Adds the day after the last one that was added, if it is over. A payload is stored until its
/// objects have the tag by which they expire, and until they are old enough. `LATERAL`, so that no
/// batch is read if there is no such day.
const STORE: &str = "WITH next AS (UPDATE usage_stored_until SET day = day + 1 WHERE day + 1 < $1::date RETURNING day), \
         added AS (INSERT INTO usage_stored (day, tenant_id, bytes) \
             SELECT next.day, stored.tenant_id, stored.bytes FROM next CROSS JOIN LATERAL ( \
                 SELECT tenant_id, sum(payload_bytes)::bigint AS bytes FROM batches \
                 WHERE payload_bytes > 0 AND status NOT IN ('AWAITING_UPLOAD', 'EXPIRED') \
                     AND received_at < (next.day + 1)::timestamp AT TIME ZONE 'UTC' \
                     AND (NOT objects_let_go \
                         OR received_at >= (next.day + 1 - $2::int4)::timestamp AT TIME ZONE 'UTC') \
                 GROUP BY tenant_id) AS stored) \
     SELECT day FROM next";
const FOLD: &str = "WITH taken AS (DELETE FROM usage_additions WHERE ctid = ANY(ARRAY( \
             SELECT ctid FROM usage_additions LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING *), \
         summed AS (INSERT INTO usage_days (tenant_id, day, batches, payload_bytes, inserted, updated, unchanged, stale, failed) \
             SELECT tenant_id, day, sum(batches)::bigint, sum(payload_bytes)::bigint, sum(inserted)::bigint, \
                 sum(updated)::bigint, sum(unchanged)::bigint, sum(stale)::bigint, sum(failed)::bigint \
             FROM taken GROUP BY tenant_id, day ORDER BY day, tenant_id \
             ON CONFLICT (day, tenant_id) DO UPDATE SET \
                 batches = usage_days.batches + EXCLUDED.batches, \
                 payload_bytes = usage_days.payload_bytes + EXCLUDED.payload_bytes, \
                 inserted = usage_days.inserted + EXCLUDED.inserted, updated = usage_days.updated + EXCLUDED.updated, \
                 unchanged = usage_days.unchanged + EXCLUDED.unchanged, stale = usage_days.stale + EXCLUDED.stale, \
                 failed = usage_days.failed + EXCLUDED.failed) \
     SELECT count(*) AS folded FROM taken";

/// Largest number of additions that are added up at once.
const FOLDED: i64 = 50_000;

/// Batches that a tenant sent on a day, and their items, and what it had stored at the day's end.
/// Batches that are not final are missing from all but the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageDay {
    /// The tenant.
    pub tenant: Uuid,
    /// Day (UTC) on which the batches were received.
    pub day: Date,
    /// Number of batches.
    pub batches: u64,
    /// Bytes of their decoded payloads.
    pub bytes: u64,
    /// Items by what became of them, as of the last end of each batch.
    pub items: UsageItems,
    /// Bytes of the decoded payloads that were stored at the end of the day, of whatever day they
    /// are; 0 for a day that is not over.
    #[serde(rename = "storedBytes")]
    pub stored_bytes: u64,
}

/// Numbers of items by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageItems {
    /// Items that made a new row.
    pub inserted: u64,
    /// Items that changed a row.
    pub updated: u64,
    /// Items whose row already had the same content.
    pub unchanged: u64,
    /// Items whose row already had a later version.
    pub stale: u64,
    /// Items in error, and items that were not written.
    pub failed: u64,
}

impl Database {
    /// Reads at most `most` days of usage from `from` to `to`, both included, of one tenant or of
    /// all, ordered by tenant and day.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn usage(
        &self,
        (from, to): (Date, Date),
        tenant: Option<Uuid>,
        most: u32,
    ) -> Result<Vec<UsageDay>, DatabaseError> {
        let rows = self.read(DAYS, &[&from, &to, &tenant, &i64::from(most)]).await?;
        rows.iter().map(day).collect()
    }

    /// Adds up a slice of what final batches added to the usage. Returns whether there may be more.
    /// It changes no answer of [`Database::usage`], and may be repeated.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn fold_usage(&self) -> Result<bool, DatabaseError> {
        let rows = self.change(FOLD, &[&FOLDED]).await?;
        let folded: i64 = rows.first().map_or(Ok(0), |row| row.try_get("folded"))?;
        Ok(folded >= FOLDED)
    }

    /// Adds what each tenant had stored at the end of the next day that is over, where payloads are
    /// kept for `retention_days` once they are released. Returns whether there may be another day.
    /// Each day is added once.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn measure_stored(&self, today: Date, retention_days: u16) -> Result<bool, DatabaseError> {
        let days = self.change(STORE, &[&today, &i32::from(retention_days)]).await?;
        Ok(!days.is_empty())
    }
}

fn day(row: &Row) -> Result<UsageDay, DatabaseError> {
    Ok(UsageDay {
        tenant: row.try_get("tenant_id")?,
        day: row.try_get("day")?,
        batches: count(row, "batches")?,
        bytes: count(row, "bytes")?,
        items: UsageItems {
            inserted: count(row, "inserted")?,
            updated: count(row, "updated")?,
            unchanged: count(row, "unchanged")?,
            stale: count(row, "stale")?,
            failed: count(row, "failed")?,
        },
        stored_bytes: count(row, "stored")?,
    })
}
