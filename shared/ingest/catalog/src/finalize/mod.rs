//! The end of a batch: products that a full load lacks become inactive, and the batch becomes
//! final.
//!
//! A full load goes through its establishments in slices, in the order of their CNPJs. Each slice
//! is one short transaction under the locks of its own establishments, which are few enough to need
//! no gate (`locks.rs`). It finds the products that neither the load nor a later batch contained,
//! deactivates them, and stores the outcome for each establishment, which is then *decided*. A
//! transaction between two slices sees each establishment as decided or not, as if each had come in
//! a load of its own. If a call dies, the next one continues with the rest.
//!
//! The guard against mass deactivation checks all establishments before the first is decided. A
//! load of one slice is checked in the slice's own transaction, a larger one beforehand, without
//! locks ([`judge`]). Products may come in between, so the guard checks each slice again under its
//! locks, and may hold the load there.

mod judge;
mod keys;
mod later;
mod missing;

use ingestion::Cnpj;
use ingestion::batch::{BatchStatus, Deactivation, DeactivationGuard, SkipReason};
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use self::keys::LoadKeys;
use self::later::LaterChunks;
use self::missing::Missing;
use crate::account::settle;
use crate::connection::{Connection, NO_SCANS, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locked_batch::{self, LockedBatch};
use crate::locks::{self, LockMode};
use crate::outbox;
use crate::rows::{bigint, cnpj, texts, word};

/// Number of establishments that one transaction locks, and about whose products it decides.
const SLICE: usize = locks::MOST_WITHOUT_GATE;
/// Number of establishments whose missing products are searched for together, without locks: 16
/// slices. The chunks of later batches are read once for each such group.
const GROUP: usize = 16 * SLICE;

/// Reads the deployment's guard against mass deactivation from `DEACTIVATION_GUARD_PERCENT` and
/// `DEACTIVATION_GUARD_SMALL`. Every function that may finalize a batch needs the same values.
pub fn deactivation_guard<F: Fn(&str) -> Option<String>>(
    environment: &mut runtime::Environment<F>,
) -> DeactivationGuard {
    let usual = DeactivationGuard::default();
    DeactivationGuard {
        percent: environment.optional("DEACTIVATION_GUARD_PERCENT", usual.percent),
        small: environment.optional("DEACTIVATION_GUARD_SMALL", usual.small),
    }
}

/// State of a batch after an attempt to finalize it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalized {
    /// State of the batch after the attempt; `PROCESSING` if it is not final yet.
    pub status: BatchStatus,
    /// True if this call made the batch final.
    pub became_final: bool,
}

/// Query for a batch, and for whether it has chunks that are all done (`ready`). With a generation
/// (round of processing) `$2`, the batch is ready only in that one: a call from before a replay
/// knows neither the new generation's product keys nor its check against mass deactivation.
const READY: &str = "SELECT status, deactivation, generation, received_at, tenant_id, chunks_done > 0 \
     AND chunks_pending = 0 AND chunks_failed = 0 \
     AND generation = COALESCE($2::integer, generation) AS ready FROM batches WHERE batch_id = $1";
/// Query for a batch's undecided establishments, for which no outcome of the deactivation is stored
/// yet. Columns of CNPJs sort by bytes, as CNPJs do in this program, whatever the database's
/// collation.
const UNDECIDED: &str =
    "SELECT cnpj FROM batch_cnpjs WHERE batch_id = $1 AND deactivation IS NULL ORDER BY cnpj";
/// Query for the undecided ones of the establishments `$2`. `is_own` is true if the establishment
/// is the tenant's (`$4`) and no item of it in the load `$1` was refused. `is_left` is true if a
/// later full load of the tenant, after `$3`, decides about the establishment instead.
const DECIDERS: &str = "SELECT c.cnpj, NOT c.refused AND EXISTS (SELECT FROM establishments e \
         WHERE e.cnpj = c.cnpj AND e.tenant_id = $4) AS is_own, \
         EXISTS (SELECT FROM batch_cnpjs l JOIN batches b ON b.batch_id = l.batch_id WHERE l.cnpj = c.cnpj \
         AND l.decides AND NOT l.refused \
         AND (l.received_at, l.batch_id) > ($3, $1) AND b.tenant_id = $4) AS is_left FROM batch_cnpjs c \
     WHERE c.batch_id = $1 AND c.cnpj = ANY($2::bpchar[]) AND c.deactivation IS NULL ORDER BY c.cnpj";
const DEACTIVATE: &str = "UPDATE products SET active = false, deactivated_at = now(), updated_at = now() \
     WHERE ctid = ANY($1) AND active";
const DECIDED: &str =
    "UPDATE batch_cnpjs SET deactivation = $3 WHERE batch_id = $1 AND cnpj = ANY($2::bpchar[])";
/// Query for whether the payload had text that is not JSON. Such a load deactivates nothing, which
/// an earlier version did not record with the batch if the text began with a product key.
const UNREADABLE: &str = "SELECT EXISTS (SELECT FROM batch_item_errors WHERE batch_id = $1 \
     AND code = 'MALFORMED_JSON') AS is_unreadable";
const PROGRESS: &str = "UPDATE batches SET deactivated_so_far = $2, moved_at = now() WHERE batch_id = $1";
const DECISIONS: &str = "SELECT \
     EXISTS (SELECT FROM batch_cnpjs WHERE batch_id = $1 AND deactivation IS NULL) AS undecided, \
     EXISTS (SELECT FROM batch_cnpjs WHERE batch_id = $1 AND deactivation = 'done') AS done, \
     EXISTS (SELECT FROM batch_cnpjs WHERE batch_id = $1 AND deactivation = 'skipped') AS skipped, \
     EXISTS (SELECT FROM batch_cnpjs WHERE batch_id = $1 AND deactivation = 'too_late') AS too_late, \
     EXISTS (SELECT FROM batch_cnpjs WHERE batch_id = $1 AND deactivation = 'not_owned') AS not_owned";

impl Database {
    /// Finalizes a batch whose chunks are all done: deactivates the products that a full load
    /// lacks, and makes the batch final. A call that is repeated or too early changes nothing and
    /// returns the batch's state.
    ///
    /// # Errors
    /// If the database fails, or does not have the batch. Committed deactivations remain.
    pub async fn finalize(&self, batch_id: Uuid) -> Result<Finalized, DatabaseError> {
        self.with_connection(async |connection| finalize(connection, batch_id, self.guard).await).await
    }
}

pub(crate) async fn finalize(
    connection: &mut Connection,
    batch_id: Uuid,
    guard: DeactivationGuard,
) -> Result<Finalized, DatabaseError> {
    let mut session = connection.begin().await?;
    let rows = session.query(READY, &[&batch_id, &None::<i32>]).await?;
    if let Some(end) = not_ready(&rows, batch_id)? {
        return Ok(end);
    }
    let row = rows.first().ok_or(DatabaseError::UnknownBatch(batch_id))?;
    let load = Load {
        batch_id,
        tenant_id: row.try_get("tenant_id")?,
        generation: row.try_get("generation")?,
        received_at: row.try_get("received_at")?,
    };
    let rows = session.query(UNDECIDED, &[&batch_id]).await?;
    let cnpjs = rows.iter().map(|row| cnpj(row, "cnpj")).collect::<Result<Vec<_>, _>>()?;
    let unreadable = session.query_opt(UNREADABLE, &[&batch_id]).await?;
    let is_unreadable = unreadable.map_or(Ok(false), |row| row.try_get("is_unreadable"))?;
    drop(session);
    if is_unreadable && !cnpjs.is_empty() {
        return leave_undecided(connection, &load).await;
    }
    let keys = LoadKeys::of(connection, batch_id, cnpjs.first()).await?;
    Finalization { connection, load, guard, keys, later: LaterChunks::default() }.run(&cnpjs).await
}

/// Full load that is being finalized.
struct Load {
    batch_id: Uuid,
    tenant_id: Uuid,
    generation: i32,
    received_at: Timestamp,
}

/// State of a call that finalizes a full load, with the data that it has read so far.
struct Finalization<'c> {
    connection: &'c mut Connection,
    load: Load,
    guard: DeactivationGuard,
    keys: LoadKeys,
    later: LaterChunks,
}

/// Next step of a finalization after one of its transactions.
enum Step {
    End(Finalized),
    /// Repeat the same slice (group of establishments): more products are missing from it than one
    /// transaction deactivates.
    More,
    Next,
}

/// Work that is left after a slice of establishments: further slices, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Slices,
    Nothing,
}

impl Finalization<'_> {
    /// Decides for all undecided establishments of the batch whether their missing products are
    /// deactivated, slice by slice (one transaction for each), and makes the batch final.
    async fn run(mut self, cnpjs: &[Cnpj]) -> Result<Finalized, DatabaseError> {
        if cnpjs.len() > SLICE {
            self.judge(cnpjs).await?;
        }
        let mut left = cnpjs;
        loop {
            if cnpjs.len() > SLICE && (cnpjs.len() - left.len()).is_multiple_of(GROUP) {
                self.look_ahead(left.get(..GROUP).unwrap_or(left)).await?;
            }
            let (slice, rest) = left.split_at(left.len().min(SLICE));
            let after = if rest.is_empty() { Rest::Nothing } else { Rest::Slices };
            loop {
                match self.decide(slice, after).await? {
                    Step::End(end) => return Ok(end),
                    Step::More => {}
                    Step::Next => break,
                }
            }
            left = rest;
        }
    }

    /// Searches the chunks of later batches for products of these establishments, before slices of
    /// them are locked.
    async fn look_ahead(&mut self, cnpjs: &[Cnpj]) -> Result<(), DatabaseError> {
        let mut session = self.connection.begin().await?;
        session.query(NO_SCANS, &[]).await?;
        let fate = self.load.fate(&mut session, cnpjs).await?;
        self.later = LaterChunks::ahead(&mut session, &self.load, &self.keys, &fate.own).await?;
        Ok(())
    }

    /// Decides about the missing products of a slice of establishments in one transaction:
    /// deactivates them, leaves them to another load, or holds the load. Makes the batch final if
    /// the slice was the last.
    async fn decide(&mut self, slice: &[Cnpj], rest: Rest) -> Result<Step, DatabaseError> {
        let Load { batch_id, tenant_id, generation, received_at } = self.load;
        let names = texts(slice);
        let mut session = self.connection.begin().await?;
        let [_, _, locked, ready, fate] = session
            .query_each([
                (NO_SCANS, &[]),
                (LockMode::Exclusive.statement(), &[&locks::numbers(slice)]),
                (locked_batch::LOCK, &[&batch_id]),
                (READY, &[&batch_id, &Some(generation)]),
                (DECIDERS, &[&batch_id, &names, &received_at, &tenant_id]),
            ])
            .await
            .map_err(DatabaseError::while_locking)?;
        let mut batch = LockedBatch::of(batch_id, locked.first())?;
        // Another call may have decided this slice meanwhile, or a replay may have begun.
        if let Some(end) = not_ready(&ready, batch_id)? {
            return Ok(Step::End(end));
        }
        let ByDecider { own, left, not_owned } = ByDecider::of(&fate)?;
        mark(&mut session, batch_id, &left, "skipped").await?;
        mark(&mut session, batch_id, &not_owned, "not_owned").await?;
        let so_far = batch.deactivated_so_far.unwrap_or_default();
        // Chunks after a load that is too old may be deleted by now.
        let missing = if batch.is_too_old {
            None
        } else {
            Missing::of(&mut session, &self.load, &self.keys, &self.later, &own).await?
        };
        let Some(missing) = missing else {
            mark(&mut session, batch_id, &own, "too_late").await?;
            return next(session, batch, so_far, rest).await;
        };
        if !batch.deactivation_confirmed && missing.is_held_by(self.guard) {
            let would_deactivate = batch.judged_missing.saturating_sub(so_far).max(missing.count());
            let held = Deactivation::Held { would_deactivate, deactivated: so_far };
            let ended = end(&mut session, batch, held).await?;
            session.commit().await?;
            return Ok(Step::End(ended));
        }
        let rows = missing.locations();
        let deactivated = if rows.is_empty() { 0 } else { session.execute(DEACTIVATE, &[&rows]).await? };
        let so_far = so_far.saturating_add(deactivated);
        if u64::try_from(rows.len())? < missing.count() {
            // Late chunks may still reactivate these products. Then the next step finds them again.
            session.execute(PROGRESS, &[&batch_id, &bigint(so_far)?]).await?;
            session.commit().await?;
            return Ok(Step::More);
        }
        mark(&mut session, batch_id, &own, "done").await?;
        batch.deactivated_so_far = Some(so_far);
        next(session, batch, so_far, rest).await
    }
}

/// Makes a full load final without further deactivation, because its unreadable text may contain
/// the products that it seems to lack. Committed deactivations remain.
async fn leave_undecided(connection: &mut Connection, load: &Load) -> Result<Finalized, DatabaseError> {
    let Load { batch_id, generation, .. } = *load;
    let mut session = connection.begin().await?;
    let batch = locked_batch::lock(&mut session, batch_id).await?;
    let rows = session.query(READY, &[&batch_id, &Some(generation)]).await?;
    if let Some(end) = not_ready(&rows, batch_id)? {
        return Ok(end);
    }
    let reason = SkipReason::UnreadableKey;
    let deactivation = match batch.deactivated_so_far.unwrap_or_default() {
        0 => Deactivation::Skipped { reason },
        deactivated => Deactivation::Done { deactivated, left_out: Some(reason) },
    };
    let ended = end(&mut session, batch, deactivation).await?;
    session.commit().await?;
    Ok(ended)
}

/// Returns the state of the batch if nothing is to be done; `None` if all chunks are done and the
/// products that the load lacks are still to be deactivated. `rows` are the result of [`READY`].
fn not_ready(rows: &[Row], batch_id: Uuid) -> Result<Option<Finalized>, DatabaseError> {
    let row = rows.first().ok_or(DatabaseError::UnknownBatch(batch_id))?;
    let Json(deactivation): Json<Deactivation> = row.try_get("deactivation")?;
    let is_ready: bool = row.try_get("ready")?;
    let status = word(row, "status")?;
    let undecided = is_ready && deactivation == Deactivation::Pending;
    Ok((!undecided).then_some(Finalized { status, became_final: false }))
}

/// Commits the transaction of a slice of establishments: records `so_far`, the number of products
/// that the load has deactivated, and makes the batch final if no slice is left.
async fn next(
    mut session: Session<'_>,
    batch: LockedBatch,
    so_far: u64,
    rest: Rest,
) -> Result<Step, DatabaseError> {
    if rest == Rest::Slices {
        session.execute(PROGRESS, &[&batch.batch_id, &bigint(so_far)?]).await?;
        session.commit().await?;
        return Ok(Step::Next);
    }
    let row = session.query_opt(DECISIONS, &[&batch.batch_id]).await?;
    let row = row.ok_or(DatabaseError::UnknownBatch(batch.batch_id))?;
    if row.try_get("undecided")? {
        // A replay began meanwhile and came to this point. The end of its chunks continues from
        // here.
        session.execute(PROGRESS, &[&batch.batch_id, &bigint(so_far)?]).await?;
        session.commit().await?;
        return Ok(Step::End(Finalized { status: batch.status, became_final: false }));
    }
    let reason = if row.try_get("too_late")? {
        Some(SkipReason::TooLate)
    } else if row.try_get("skipped")? {
        Some(SkipReason::LaterFullLoad)
    } else if row.try_get("not_owned")? {
        Some(SkipReason::NotOwned)
    } else {
        None
    };
    let deactivation = match reason {
        Some(reason) if !row.try_get::<_, bool>("done")? => Deactivation::Skipped { reason },
        left_out => Deactivation::Done { deactivated: so_far, left_out },
    };
    let ended = end(&mut session, batch, deactivation).await?;
    session.commit().await?;
    Ok(Step::End(ended))
}

/// Makes the batch final with this outcome of its deactivation, and writes its outbox events.
async fn end(
    session: &mut Session<'_>,
    batch: LockedBatch,
    deactivation: Deactivation,
) -> Result<Finalized, DatabaseError> {
    let before = batch.status;
    outbox::held(session, batch.batch_id, deactivation).await?;
    let status = settle(session, &LockedBatch { deactivation, ..batch }).await?.status;
    Ok(Finalized { status, became_final: status.is_final() && !before.is_final() })
}

impl Load {
    /// Reads which load decides at present about the missing products of each of these
    /// establishments.
    async fn fate(&self, session: &mut Session<'_>, cnpjs: &[Cnpj]) -> Result<ByDecider, DatabaseError> {
        let Self { batch_id, tenant_id, received_at, .. } = self;
        ByDecider::of(&session.query(DECIDERS, &[batch_id, &texts(cnpjs), received_at, tenant_id]).await?)
    }
}

/// Undecided establishments, grouped by the load that decides about their missing products.
struct ByDecider {
    /// Establishments about whose missing products the load itself decides.
    own: Vec<Cnpj>,
    /// Establishments about whose missing products a later full load decides.
    left: Vec<Cnpj>,
    /// Establishments that are not the tenant's, or of which items were refused.
    not_owned: Vec<Cnpj>,
}

impl ByDecider {
    /// Parses the rows of the statement [`DECIDERS`].
    fn of(rows: &[Row]) -> Result<Self, DatabaseError> {
        let mut by_decider = Self { own: Vec::new(), left: Vec::new(), not_owned: Vec::new() };
        for row in rows {
            let cnpjs = if !row.try_get("is_own")? {
                &mut by_decider.not_owned
            } else if row.try_get("is_left")? {
                &mut by_decider.left
            } else {
                &mut by_decider.own
            };
            cnpjs.push(cnpj(row, "cnpj")?);
        }
        Ok(by_decider)
    }
}

async fn mark(
    session: &mut Session<'_>,
    batch_id: Uuid,
    cnpjs: &[Cnpj],
    decision: &str,
) -> Result<(), DatabaseError> {
    if !cnpjs.is_empty() {
        session.execute(DECIDED, &[&batch_id, &texts(cnpjs), &decision]).await?;
    }
    Ok(())
}
