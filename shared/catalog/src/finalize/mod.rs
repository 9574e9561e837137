//! The end of a batch: what a full load did not contain becomes inactive, and the batch final.
//!
//! A full load goes through its establishments in slices, in the order of their CNPJs. Each slice is one short transaction
//! under the locks of its own establishments: it looks up what the load and later batches did not contain, deactivates it,
//! and notes that these establishments are decided. A transaction that runs between two slices sees each establishment as
//! undecided or decided, as if each had come in a load of its own. A call that dies leaves what it decided; the next one goes on
//! with the rest.
//!
//! The guard looks at all establishments before the first is decided. A load of one slice is judged in the slice's own
//! transaction. A larger one is looked through beforehand, without locks, and that the guard lets it pass is noted with the
//! batch.

mod missing;

use ingestion::Cnpj;
use ingestion::batch::{BatchStatus, Deactivation, DeactivationGuard, SkipReason};
use tokio_postgres::types::Json;
use uuid::Uuid;

use self::missing::Missing;
use crate::account::settle;
use crate::batch::{LockedBatch, lock};
use crate::connection::{Connection, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locks;
use crate::rows::{bigint, cnpj, texts, word};

/// Establishments of a slice: one stripe of locks in sixty at most.
const SLICE: usize = 256;

/// The deployment's guard on deactivations: `DEACTIVATION_GUARD_PERCENT` and `DEACTIVATION_GUARD_SMALL`. Every function that
/// may bring a batch to its end needs the same.
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
const UNDECIDED: &str =
    "SELECT cnpj FROM batch_cnpjs WHERE batch_id = $1 AND deactivation IS NULL ORDER BY cnpj";
const STILL_UNDECIDED: &str = "SELECT cnpj FROM batch_cnpjs \
     WHERE batch_id = $1 AND cnpj = ANY($2::bpchar[]) AND deactivation IS NULL ORDER BY cnpj";
/// Of these establishments, those that a full load received later knows and decides about.
const LEFT_TO_LATER: &str = "SELECT c.cnpj FROM unnest($1::bpchar[]) AS c (cnpj) WHERE EXISTS (\
     SELECT FROM batch_cnpjs l WHERE l.cnpj = c.cnpj AND l.decides AND (l.received_at, l.batch_id) > ($2, $3)) \
     ORDER BY c.cnpj";
const DEACTIVATE: &str = "UPDATE products SET active = false, deactivated_at = now(), updated_at = now() \
     WHERE ctid = ANY($1) AND active";
const DECIDED: &str =
    "UPDATE batch_cnpjs SET deactivation = $3 WHERE batch_id = $1 AND cnpj = ANY($2::bpchar[])";
const PROGRESS: &str = "UPDATE batches SET deactivated_so_far = $2, moved_at = now() WHERE batch_id = $1";
const PASSED: &str = "UPDATE batches SET deactivated_so_far = COALESCE(deactivated_so_far, 0), moved_at = now() WHERE batch_id = $1";
const ONE_SNAPSHOT: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
const DECISIONS: &str = "SELECT EXISTS (SELECT FROM batch_cnpjs WHERE batch_id = $1 AND deactivation IS NULL) AS undecided, \
     EXISTS (SELECT FROM batch_cnpjs WHERE batch_id = $1 AND deactivation = 'done') AS done, \
     EXISTS (SELECT FROM batch_cnpjs WHERE batch_id = $1 AND deactivation = 'too_late') AS too_late";

impl Database {
    /// Brings a batch to its end whose chunks are all done: for a scheduled look at what a crash left behind. Repeated, or too
    /// early, it changes nothing and tells how the batch stands.
    ///
    /// # Errors
    /// If the database fails or does not know the batch. What was decided until then stays so.
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
    let rows = session.query(UNDECIDED, &[&batch_id]).await?;
    let cnpjs = rows.iter().map(|row| cnpj(row, "cnpj")).collect::<Result<Vec<_>, _>>()?;
    drop(session);
    if cnpjs.len() > SLICE {
        judge(connection, batch_id, &cnpjs, guard).await?;
    }
    // The last transaction finds nothing left to decide. Where there was nothing to begin with, it is the only one.
    let mut slices = cnpjs.chunks(SLICE);
    let mut slice = slices.next().unwrap_or_default();
    loop {
        match decide(connection, batch_id, slice, guard).await? {
            Step::End(end) => return Ok(end),
            Step::More => {}
            Step::Next => slice = slices.next().unwrap_or_default(),
        }
    }
}

/// What a transaction leaves to be done.
enum Step {
    End(Finalized),
    /// The same slice has more products than are deactivated at once.
    More,
    Next,
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

/// Has the guard look at all establishments of a load before the first is decided, unless it did before. Then the load is held,
/// or may begin.
async fn judge(
    connection: &mut Connection,
    batch_id: Uuid,
    cnpjs: &[Cnpj],
    guard: DeactivationGuard,
) -> Result<(), DatabaseError> {
    let mut session = connection.begin().await?;
    let batch = lock(&mut session, batch_id).await?;
    if batch.deactivation_confirmed || batch.deactivated_so_far.is_some() {
        return Ok(());
    }
    drop(session);
    let (mut would_deactivate, mut is_held) = (0, false);
    for slice in cnpjs.chunks(SLICE) {
        let mut session = connection.begin().await?;
        // No lock holds chunks off here: a product and the chunk that brought it are seen together, or not.
        session.transaction.batch_execute(ONE_SNAPSHOT).await?;
        let Fate { own, .. } = Fate::of(&mut session, &batch, slice.to_vec()).await?;
        if let Some(missing) = Missing::of(&mut session, &batch, &own).await? {
            would_deactivate += missing.count();
            is_held |= missing.is_held_by(guard);
        }
    }
    let mut session = connection.begin().await?;
    let batch = lock(&mut session, batch_id).await?;
    // Another call may have judged meanwhile, and even have begun to decide.
    if batch.deactivated_so_far.is_some() || not_ready(&mut session, batch_id).await?.is_some() {
        return Ok(());
    }
    if is_held {
        end(&mut session, batch, Deactivation::Held { would_deactivate }).await?;
    } else {
        session.execute(PASSED, &[&batch_id]).await?;
    }
    session.commit().await
}

/// Decides about the establishments of a slice, and ends the batch if they were the last.
async fn decide(
    connection: &mut Connection,
    batch_id: Uuid,
    slice: &[Cnpj],
    guard: DeactivationGuard,
) -> Result<Step, DatabaseError> {
    let mut session = connection.begin().await?;
    locks::lock(&mut session, slice).await?;
    let mut batch = lock(&mut session, batch_id).await?;
    // Another call may have been here meanwhile.
    if let Some(end) = not_ready(&mut session, batch_id).await? {
        return Ok(Step::End(end));
    }
    let rows = session.query(STILL_UNDECIDED, &[&batch_id, &texts(slice)]).await?;
    let undecided = rows.iter().map(|row| cnpj(row, "cnpj")).collect::<Result<Vec<_>, _>>()?;
    let Fate { own, left } = Fate::of(&mut session, &batch, undecided).await?;
    mark(&mut session, &batch, &left, "skipped").await?;
    let so_far = batch.deactivated_so_far.unwrap_or_default();
    let Some(missing) = Missing::of(&mut session, &batch, &own).await? else {
        mark(&mut session, &batch, &own, "too_late").await?;
        return next(session, batch, so_far).await;
    };
    let is_judged = batch.deactivation_confirmed || batch.deactivated_so_far.is_some();
    if !is_judged && missing.is_held_by(guard) {
        let held = Deactivation::Held { would_deactivate: missing.count() };
        let ended = end(&mut session, batch, held).await?;
        session.commit().await?;
        return Ok(Step::End(ended));
    }
    let places = missing.places();
    let deactivated = if places.is_empty() { 0 } else { session.execute(DEACTIVATE, &[&places]).await? };
    let so_far = so_far.saturating_add(deactivated);
    if u64::try_from(places.len())? < missing.count() {
        // Late chunks may still bring these products back, and the next look finds them again.
        session.execute(PROGRESS, &[&batch_id, &bigint(so_far)?]).await?;
        session.commit().await?;
        return Ok(Step::More);
    }
    mark(&mut session, &batch, &own, "done").await?;
    batch.deactivated_so_far = Some(so_far);
    next(session, batch, so_far).await
}

/// Ends the batch if every establishment is decided, or notes how far it is.
async fn next(mut session: Session<'_>, batch: LockedBatch, so_far: u64) -> Result<Step, DatabaseError> {
    let row = session.query_opt(DECISIONS, &[&batch.batch_id]).await?;
    let row = row.ok_or(DatabaseError::UnknownBatch(batch.batch_id))?;
    if row.try_get("undecided")? {
        session.execute(PROGRESS, &[&batch.batch_id, &bigint(so_far)?]).await?;
        session.commit().await?;
        return Ok(Step::Next);
    }
    let (done, too_late): (bool, bool) = (row.try_get("done")?, row.try_get("too_late")?);
    let deactivation = match (done, too_late) {
        (true, _) => Deactivation::Done { deactivated: so_far },
        (false, true) => Deactivation::Skipped { reason: SkipReason::TooLate },
        (false, false) => Deactivation::Skipped { reason: SkipReason::LaterFullLoad },
    };
    let ended = end(&mut session, batch, deactivation).await?;
    session.commit().await?;
    Ok(Step::End(ended))
}

/// Ends the batch with what became of its deactivation.
async fn end(
    session: &mut Session<'_>,
    batch: LockedBatch,
    deactivation: Deactivation,
) -> Result<Finalized, DatabaseError> {
    let before = batch.status;
    let status = settle(session, &LockedBatch { deactivation, ..batch }).await?.status;
    Ok(Finalized { status, became_final: status.is_final() && !before.is_final() })
}

/// Who decides about establishments.
struct Fate {
    /// The load itself.
    own: Vec<Cnpj>,
    /// A later load.
    left: Vec<Cnpj>,
}

impl Fate {
    /// Parts establishments, which are in their order.
    async fn of(
        session: &mut Session<'_>,
        batch: &LockedBatch,
        mut cnpjs: Vec<Cnpj>,
    ) -> Result<Self, DatabaseError> {
        let texts = texts(&cnpjs);
        let rows = session.query(LEFT_TO_LATER, &[&texts, &batch.received_at, &batch.batch_id]).await?;
        let left = rows.iter().map(|row| cnpj(row, "cnpj")).collect::<Result<Vec<_>, _>>()?;
        cnpjs.retain(|cnpj| left.binary_search(cnpj).is_err());
        Ok(Self { own: cnpjs, left })
    }
}

async fn mark(
    session: &mut Session<'_>,
    batch: &LockedBatch,
    cnpjs: &[Cnpj],
    decision: &str,
) -> Result<(), DatabaseError> {
    if !cnpjs.is_empty() {
        session.execute(DECIDED, &[&batch.batch_id, &texts(cnpjs), &decision]).await?;
    }
    Ok(())
}
