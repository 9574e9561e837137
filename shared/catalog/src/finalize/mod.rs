//! The end of a batch: what a full load did not contain becomes inactive, and the batch final.

use ingestion::Cnpj;
use ingestion::batch::{BatchStatus, Deactivation, DeactivationGuard, SkipReason};
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::account::settle;
use crate::batch::{LockedBatch, lock};
use crate::connection::{Connection, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locks;
use crate::rows::{cnpj, count, texts, word};

/// The deployment's guard on deactivations: `DEACTIVATION_GUARD_PERCENT` and `DEACTIVATION_GUARD_SMALL`. Whoever may bring a batch to its end needs the same.
pub fn deactivation_guard<F: Fn(&str) -> Option<String>>(
    environment: &mut aws::Environment<F>,
) -> DeactivationGuard {
    let usual = DeactivationGuard::default();
    DeactivationGuard {
        percent: environment.optional("DEACTIVATION_GUARD_PERCENT", usual.percent),
        small: environment.optional("DEACTIVATION_GUARD_SMALL", usual.small),
    }
}

/// How a batch stands after its end was attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finalized {
    pub status: BatchStatus,
    /// Whether this call brought it there.
    pub became_final: bool,
}

const READY: &str = "SELECT status, deactivation, chunks_done > 0 AND chunks_pending = 0 AND chunks_failed = 0 AS ready \
     FROM batches WHERE batch_id = $1";
const CNPJS: &str = "SELECT cnpj FROM batch_cnpjs WHERE batch_id = $1";
/// A full load that will decide nothing, since it had an unreadable key, decides nothing instead of this one either; nor does one that says nothing of some products, since
/// their items were in error. What this one decided in an earlier generation stays its own: others have acted upon it.
const WITH_LATER_LOAD: &str = "SELECT c.cnpj FROM batch_cnpjs c WHERE c.batch_id = $1 AND EXISTS (\
     SELECT FROM batch_cnpjs l JOIN batches b ON b.batch_id = l.batch_id \
     WHERE l.cnpj = c.cnpj AND (l.received_at, l.batch_id) > ($2, $1) \
     AND b.load_type = 'full' AND b.unreadable_keys = 0 \
     AND NOT EXISTS (SELECT FROM batch_item_errors e WHERE e.batch_id = b.batch_id AND e.key_hash IS NOT NULL)) \
     AND c.deactivation IS DISTINCT FROM 'done'";
const LATER_BATCHES: &str = "SELECT DISTINCT batch_id FROM batch_cnpjs \
     WHERE cnpj = ANY($1::bpchar[]) AND (received_at, batch_id) > ($2, $3)";
/// The two sides are joined as a whole, or sorted, and never one row against all of the other side.
const NO_LOOPS: &str = "SET LOCAL enable_nestloop = off";
/// Active products in all, and the places of those that neither the batch nor a later one contained.
const MISSING: &str = "WITH present AS MATERIALIZED (\
         SELECT h.key FROM batch_chunks c CROSS JOIN LATERAL unnest(c.key_hashes) AS h (key) WHERE c.batch_id = ANY($2) \
         UNION ALL SELECT key_hash FROM batch_item_errors WHERE batch_id = $3 AND key_hash IS NOT NULL) \
     SELECT p.cnpj, count(*) AS active, \
         array_agg(p.ctid::text) FILTER (WHERE present.key IS NULL) AS missing \
     FROM products p LEFT JOIN (SELECT DISTINCT key FROM present) present \
         ON present.key = p.key_hash \
     WHERE p.cnpj = ANY($1::bpchar[]) AND p.active GROUP BY p.cnpj";
const DEACTIVATE: &str = "UPDATE products SET active = false, deactivated_at = now(), updated_at = now() \
     WHERE ctid = ANY($1::text[]::tid[]) AND active";
const DECIDED: &str = "UPDATE batch_cnpjs SET deactivation = CASE WHEN cnpj = ANY($2::bpchar[]) THEN 'done' ELSE 'skipped' END \
     WHERE batch_id = $1";

impl Database {
    /// Brings a batch to its end whose chunks are all done: for a scheduled look at what a crash left behind. Repeated, or too early, it changes nothing and
    /// tells how the batch stands.
    ///
    /// # Errors
    /// Where the database fails or does not know the batch.
    pub async fn finalize(&self, batch_id: Uuid) -> Result<Finalized, DatabaseError> {
        self.within(async {
            let mut lease = self.lease().await?;
            let end = finalize(&mut lease.connection, batch_id, self.guard()).await;
            lease.release();
            end
        })
        .await
    }
}

pub(crate) async fn finalize(
    connection: &mut Connection,
    batch_id: Uuid,
    guard: DeactivationGuard,
) -> Result<Finalized, DatabaseError> {
    let mut session = connection.begin().await?;
    if let Some(end) = not_ready(&mut session, batch_id).await? {
        return Ok(end);
    }
    let rows = session.query(CNPJS, &[&batch_id]).await?;
    let cnpjs = rows.iter().map(|row| cnpj(row, "cnpj")).collect::<Result<Vec<_>, _>>()?;
    locks::lock(&mut session, &cnpjs).await?;
    let mut batch = lock(&mut session, batch_id).await?;
    // Somebody else may have been here meanwhile.
    if let Some(end) = not_ready(&mut session, batch_id).await? {
        return Ok(end);
    }
    batch.deactivation = deactivate(&mut session, &batch, &cnpjs, guard).await?;
    let status = settle(&mut session, &batch).await?.status;
    session.commit().await?;
    Ok(Finalized { status, became_final: status.is_final() && !batch.status.is_final() })
}

/// How the batch stands, if there is nothing to do for it.
async fn not_ready(session: &mut Session<'_>, batch_id: Uuid) -> Result<Option<Finalized>, DatabaseError> {
    let row = session.query_opt(READY, &[&batch_id]).await?.ok_or(DatabaseError::UnknownBatch(batch_id))?;
    let Json(deactivation): Json<Deactivation> = row.try_get("deactivation")?;
    let is_ready: bool = row.try_get("ready")?;
    let status = word(&row, "status")?;
    let undecided = is_ready && deactivation == Deactivation::Pending;
    Ok((!undecided).then_some(Finalized { status, became_final: false }))
}

/// Deactivates what the batch did not contain, establishment by establishment: all of it, or none where the guard holds for one of them.
async fn deactivate(
    session: &mut Session<'_>,
    batch: &LockedBatch,
    cnpjs: &[Cnpj],
    guard: DeactivationGuard,
) -> Result<Deactivation, DatabaseError> {
    let rows = session.query(WITH_LATER_LOAD, &[&batch.batch_id, &batch.received_at]).await?;
    let later = rows.iter().map(|row| cnpj(row, "cnpj")).collect::<Result<Vec<_>, _>>()?;
    let decided: Vec<Cnpj> = cnpjs.iter().filter(|cnpj| !later.contains(cnpj)).copied().collect();
    if decided.is_empty() {
        session.execute(DECIDED, &[&batch.batch_id, &texts(&decided)]).await?;
        return Ok(Deactivation::Skipped { reason: SkipReason::LaterFullLoad });
    }
    let missing = missing(session, batch, &decided).await?;
    let would_deactivate: u64 = missing.iter().map(Missing::count).sum();
    let is_held = missing.iter().any(|missing| guard.holds(missing.active, missing.count()));
    if is_held && !batch.deactivation_confirmed {
        return Ok(Deactivation::Held { would_deactivate });
    }
    let places: Vec<&str> = missing.iter().flat_map(|missing| &missing.places).map(String::as_str).collect();
    let deactivated = session.execute(DEACTIVATE, &[&places]).await?;
    session.execute(DECIDED, &[&batch.batch_id, &texts(&decided)]).await?;
    Ok(Deactivation::Done { deactivated })
}

/// An establishment's products that the batch lacks.
struct Missing {
    active: u64,
    places: Vec<String>,
}

impl Missing {
    fn of(row: &Row) -> Result<Self, DatabaseError> {
        let places: Option<Vec<String>> = row.try_get("missing")?;
        Ok(Self { active: count(row, "active")?, places: places.unwrap_or_default() })
    }

    fn count(&self) -> u64 {
        u64::try_from(self.places.len()).unwrap_or(u64::MAX)
    }
}

async fn missing(
    session: &mut Session<'_>,
    batch: &LockedBatch,
    cnpjs: &[Cnpj],
) -> Result<Vec<Missing>, DatabaseError> {
    let cnpjs = texts(cnpjs);
    let rows = session.query(LATER_BATCHES, &[&cnpjs, &batch.received_at, &batch.batch_id]).await?;
    let mut speaking = rows.iter().map(|row| row.try_get("batch_id")).collect::<Result<Vec<Uuid>, _>>()?;
    speaking.push(batch.batch_id);
    session.transaction.batch_execute(NO_LOOPS).await?;
    let rows = session.query(MISSING, &[&cnpjs, &speaking, &batch.batch_id]).await?;
    rows.iter().map(Missing::of).collect()
}
