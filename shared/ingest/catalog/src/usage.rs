//! Usage of the ingest for `GET /v1/usage`: batches, bytes and items of each tenant and day, and
//! the bytes that the tenant had stored at the day's end.
//!
//! A database trigger counts a batch when it becomes final, and again if a chunk that was given up
//! is written after all. So the counts stay complete even while an older version of this program
//! runs, which does not know them. They outlive the batches, which are deleted.

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
     WHERE day BETWEEN $1 AND $2 AND ($3::uuid IS NULL OR tenant_id = $3) AND ($4::uuid IS NULL OR tenant_id > $4) \
     GROUP BY tenant_id, day ORDER BY tenant_id, day LIMIT $5";
/// Selects the next day whose stored bytes are to be summed, if that day is before `$1` (today),
/// and locks it. If another transaction has it locked, nothing is selected.
const NEXT: &str =
    "SELECT day + 1 AS day FROM usage_stored_until WHERE day + 1 < $1::date FOR UPDATE SKIP LOCKED";
/// Adds the next `$3` batches to the tenants' sums of the bytes that were stored at the end of the
/// day `$1`. A payload counts as stored until its objects have the tag by which they expire and
/// `$2` days have passed since its receipt. Each tenant of these batches gets a sum, even if it is
/// zero, because the sum also records where the next batches begin.
const ADD: &str = "WITH slice AS MATERIALIZED (SELECT batch_id, tenant_id, CASE \
                 WHEN payload_bytes > 0 AND status NOT IN ('AWAITING_UPLOAD', 'EXPIRED') \
                     AND received_at < ($1::date + 1)::timestamp AT TIME ZONE 'UTC' \
                     AND (NOT objects_let_go \
                         OR received_at >= ($1::date + 1 - $2::int4)::timestamp AT TIME ZONE 'UTC') \
                 THEN payload_bytes ELSE 0 END AS bytes FROM batches \
             WHERE batch_id > COALESCE((SELECT up_to FROM usage_stored_parts WHERE day = $1 \
             ORDER BY up_to DESC LIMIT 1), \
                 '00000000-0000-0000-0000-000000000000') \
             ORDER BY batch_id LIMIT $3), \
         added AS (INSERT INTO usage_stored_parts AS parts (day, tenant_id, bytes, up_to) \
             SELECT $1, tenant_id, sum(bytes)::bigint, (SELECT batch_id FROM slice ORDER BY batch_id DESC LIMIT 1) \
             FROM slice GROUP BY tenant_id \
             ON CONFLICT (day, tenant_id) DO UPDATE SET bytes = parts.bytes + EXCLUDED.bytes, up_to = EXCLUDED.up_to) \
     SELECT count(*) AS batches FROM slice";
/// Completes a day for which all batches have been added: moves the tenants' sums to
/// `usage_stored`, from which the API reads them.
const STORE: &str = "WITH parts AS (DELETE FROM usage_stored_parts WHERE day <= $1 RETURNING day, tenant_id, bytes), \
         stored AS (INSERT INTO usage_stored (day, tenant_id, bytes) \
             SELECT day, tenant_id, bytes FROM parts WHERE day = $1 AND bytes > 0) \
     UPDATE usage_stored_until SET day = $1";
const FOLD: &str = "WITH taken AS (DELETE FROM usage_additions WHERE ctid = ANY(ARRAY( \
             SELECT ctid FROM usage_additions LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING *), \
         summed AS (INSERT INTO usage_days (tenant_id, day, batches, payload_bytes, inserted, updated, \
         unchanged, stale, failed) \
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

/// Usage of one tenant on one day: the final batches that were received on the day, their items,
/// and the bytes that were stored at the day's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageDay {
    /// Id of the tenant that sent the batches.
    pub tenant: Uuid,
    /// Day (UTC) on which the batches were received.
    pub day: Date,
    /// Number of final batches that were received on the day.
    pub batches: u64,
    /// Bytes of the decoded payloads of the final batches that were received on the day.
    pub bytes: u64,
    /// Items of the final batches that were received on the day, by outcome, as of the last time
    /// each batch became final.
    pub items: UsageItems,
    /// Bytes of all decoded payloads that were stored at the end of the day, whenever they were
    /// received; 0 for a day that is not over.
    #[serde(rename = "storedBytes")]
    pub stored_bytes: u64,
}

/// Numbers of a tenant's items on one day, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageItems {
    /// Number of items that inserted a new product row.
    pub inserted: u64,
    /// Number of items that updated a product row, or made a product active again.
    pub updated: u64,
    /// Number of items whose row already had the same content.
    pub unchanged: u64,
    /// Number of items whose row already had a later version.
    pub stale: u64,
    /// Number of items in error, items that were refused, and items of chunks that were given up
    /// (could not be written).
    pub failed: u64,
}

impl Database {
    /// Reads up to `most` days of usage between the dates `from` and `to`, inclusive, of one tenant
    /// or of all, ordered by tenant and day. Tenants with ids up to `after` are left out.
    pub async fn usage(
        &self,
        (from, to): (Date, Date),
        tenant: Option<Uuid>,
        after: Option<Uuid>,
        most: u32,
    ) -> Result<Vec<UsageDay>, DatabaseError> {
        let rows = self.read(DAYS, &[&from, &to, &tenant, &after, &i64::from(most)]).await?;
        rows.iter().map(day).collect()
    }

    /// Removes some of the rows in which final batches stored their usage, and adds them to the
    /// sums of each tenant and day. Returns true if more rows may be left. The results of
    /// [`Database::usage`] stay the same, and the call may be repeated.
    pub async fn fold_usage(&self) -> Result<bool, DatabaseError> {
        self.fold(FOLD).await
    }

    /// Adds the next `slice` batches to the sums of the bytes that each tenant had stored at the
    /// end of a day. The day is the first one before `today` that is not complete. A payload whose
    /// objects may expire counts as stored until `retention_days` after its receipt. Returns true
    /// if more batches or days may be left. Each batch counts once for each day, and a day is shown
    /// once all batches are added.
    pub async fn measure_stored(
        &self,
        today: Date,
        retention_days: u16,
        slice: u32,
    ) -> Result<bool, DatabaseError> {
        self.with_connection(async |connection| {
            let mut session = connection.begin().await?;
            let Some(row) = session.query_opt(NEXT, &[&today]).await? else { return Ok(false) };
            // Further statements, because these see the slices that were committed before the lock.
            let (day, slice): (Date, i64) = (row.try_get("day")?, slice.into());
            let added = session.query(ADD, &[&day, &i32::from(retention_days), &slice]).await?;
            let batches: i64 = added.first().map_or(Ok(0), |row| row.try_get("batches"))?;
            if batches < slice {
                session.execute(STORE, &[&day]).await?;
            }
            session.commit().await?;
            Ok(true)
        })
        .await
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
