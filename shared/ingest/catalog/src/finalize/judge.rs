//! Check of a large full load by the guard against mass deactivation, before the load deactivates
//! its first product.
//!
//! The check takes no locks of establishments. It goes through the establishments in groups, and
//! records its progress after each group. If a call is cut off, the next one continues from there,
//! and concurrent calls share the work.

use ingestion::Cnpj;
use ingestion::batch::Deactivation;

use super::later::LaterChunks;
use super::missing::Missing;
use super::{Finalization, GROUP, Load, end};
use crate::connection::{NO_SCANS, Session};
use crate::error::DatabaseError;
use crate::locked_batch::lock;
use crate::rows::{bigint, count};

const ONE_SNAPSHOT: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
/// Query for the progress of the check of a full load by the guard against mass deactivation.
/// Returns no row if the load needs no check any more, or is not in the generation (round of
/// processing) `$2`.
const JUDGEMENT: &str = "SELECT judged_to, judged_missing, judged_held FROM batches WHERE batch_id = $1 \
     AND generation = $2 \
     AND deactivated_so_far IS NULL AND NOT deactivation_confirmed AND deactivation->>'state' = 'pending' \
     AND received_at >= (SELECT kept_since FROM batch_history)";
/// Statement that records that the guard against mass deactivation has checked a load up to the
/// establishment `$4`. Changes nothing if the recorded progress is no longer `$3`, from which this
/// call continued.
const NOTE: &str = "UPDATE batches SET judged_to = $4::bpchar, judged_missing = $5, judged_held = $6, moved_at = now() \
     WHERE batch_id = $1 AND generation = $2 AND judged_to IS NOT DISTINCT FROM $3::bpchar \
     AND deactivated_so_far IS NULL";
const PASS: &str = "UPDATE batches SET deactivated_so_far = 0, moved_at = now() WHERE batch_id = $1";

/// Findings of the guard against mass deactivation so far in its check of a load.
#[derive(Clone, Copy, Debug)]
struct Judgement {
    /// Last establishment that the guard has checked; `None` before the first.
    to: Option<Cnpj>,
    missing: u64,
    is_held: bool,
}

impl Finalization<'_> {
    /// Checks all of these establishments by the guard against mass deactivation, unless an earlier
    /// call did. Afterwards the load waits for a user's confirmation, or its deactivation may
    /// begin.
    pub(super) async fn judge(&mut self, cnpjs: &[Cnpj]) -> Result<(), DatabaseError> {
        loop {
            let mut session = self.connection.begin().await?;
            let found = judgement(&mut session, &self.load).await?;
            let Some(judgement) = found else { return Ok(()) };
            drop(session);
            let looked_at = cnpjs.partition_point(|cnpj| judgement.to.is_some_and(|to| *cnpj <= to));
            let group = cnpjs.get(looked_at..).unwrap_or_default().chunks(GROUP).next();
            let Some(group) = group else { return self.pronounce().await };
            self.judge_group(judgement, group).await?;
        }
    }

    async fn judge_group(&mut self, before: Judgement, group: &[Cnpj]) -> Result<(), DatabaseError> {
        let mut session = self.connection.begin().await?;
        // Chunks may be written meanwhile, because no lock prevents it. In one snapshot, a product
        // and the chunk that brought it are both visible, or neither.
        session.transaction.batch_execute(ONE_SNAPSHOT).await?;
        session.query(NO_SCANS, &[]).await?;
        let load = &self.load;
        let fate = load.fate(&mut session, group).await?;
        let missing = Missing::of(&mut session, load, &self.keys, &LaterChunks::default(), &fate.own).await?;
        drop(session);
        // If more later chunks came than can be searched at once, the guard is asked again under
        // the slices' locks.
        let (count, is_held) =
            missing.map_or((0, false), |missing| (missing.count(), missing.is_held_by(self.guard)));
        let after = Judgement {
            to: group.last().copied(),
            missing: before.missing.saturating_add(count),
            is_held: before.is_held || is_held,
        };
        self.note(before, after).await
    }

    /// Records the guard's findings `after` in place of `before`, from which this call continued.
    /// Changes nothing if a concurrent call has recorded other findings.
    async fn note(&mut self, before: Judgement, after: Judgement) -> Result<(), DatabaseError> {
        let (from, to) = (before.to.as_ref().map(Cnpj::as_str), after.to.as_ref().map(Cnpj::as_str));
        let mut session = self.connection.begin().await?;
        session
            .execute(
                NOTE,
                &[
                    &self.load.batch_id,
                    &self.load.generation,
                    &from,
                    &to,
                    &bigint(after.missing)?,
                    &after.is_held,
                ],
            )
            .await?;
        session.commit().await
    }

    /// Decides about a load once the guard against mass deactivation has checked every
    /// establishment: holds the load until a user confirms its deactivation, or allows the
    /// deactivation to begin.
    async fn pronounce(&mut self) -> Result<(), DatabaseError> {
        let mut session = self.connection.begin().await?;
        let batch = lock(&mut session, self.load.batch_id).await?;
        let found = judgement(&mut session, &self.load).await?;
        let Some(judgement) = found else { return Ok(()) };
        if judgement.is_held {
            let held = Deactivation::Held { would_deactivate: judgement.missing, deactivated: 0 };
            end(&mut session, batch, held).await?;
        } else {
            session.execute(PASS, &[&self.load.batch_id]).await?;
        }
        session.commit().await
    }
}

async fn judgement(session: &mut Session<'_>, load: &Load) -> Result<Option<Judgement>, DatabaseError> {
    let row = session.query_opt(JUDGEMENT, &[&load.batch_id, &load.generation]).await?;
    row.map(|row| {
        let to: Option<&str> = row.try_get("judged_to")?;
        let to = to.map(str::parse).transpose().map_err(|_| DatabaseError::Unreadable("judged_to"))?;
        Ok(Judgement { to, missing: count(&row, "judged_missing")?, is_held: row.try_get("judged_held")? })
    })
    .transpose()
}
