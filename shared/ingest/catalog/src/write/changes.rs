//! Changes of a chunk, decided row by row and applied in three statements.

use std::collections::HashSet;

use ingestion::batch::Changes;
use ingestion::chunk::{Chunk, Row};
use jiff::Timestamp;

use super::columns::{CREATE_STAGED, NEW_PRODUCTS, STAGED_PRODUCTS, UPDATE};
use super::copy::{Presence, copy};
use super::history;
use super::lookup::{Differing, Existing};
use crate::connection::Session;
use crate::error::DatabaseError;
use crate::row_place::RowPlace;

const IS_STAGE_ABSENT: &str = "SELECT to_regclass('pg_temp.staged_products') IS NULL AS is_absent";
const REACTIVATE: &str = "UPDATE products SET active = true, deactivated_at = NULL, updated_at = now() \
     WHERE ctid = ANY($1)";

/// Changes of product rows by which a chunk is written.
pub(super) struct Plan<'a> {
    insert: Vec<(&'a Row, Presence)>,
    update: Vec<(RowPlace, &'a Row, Presence)>,
    /// Rows that become active again and otherwise stay as they are.
    reactivate: Vec<RowPlace>,
    counts: Changes,
}

impl<'a> Plan<'a> {
    /// Decides what to do with each row of a chunk. `differing` are its rows that differ from the
    /// table, `rows` is the number of all its rows, and `kept_since` is the start of the kept
    /// history of loads.
    pub(super) async fn of(
        session: &mut Session<'_>,
        chunk: &Chunk,
        differing: &'a [Differing<'a>],
        rows: usize,
        kept_since: Timestamp,
    ) -> Result<Self, DatabaseError> {
        let may_return: Vec<&Row> = differing
            .iter()
            .filter(|differing| !differing.is_active())
            .map(|differing| differing.row)
            .collect();
        let newer: Vec<&Differing<'_>> = differing.iter().filter(|differing| differing.is_newer()).collect();
        let knowledge = Knowledge {
            withdrawn: history::withdrawn(session, chunk, &may_return).await?,
            outranked: history::outranked(session, chunk, &newer, kept_since).await?,
            now: Timestamp::now(),
        };
        let unchanged = u64::try_from(rows.saturating_sub(differing.len()))?;
        let mut plan = Self {
            insert: Vec::new(),
            update: Vec::new(),
            reactivate: Vec::new(),
            counts: Changes { unchanged, ..Changes::default() },
        };
        for differing in differing {
            plan.decide(differing, &knowledge);
        }
        Ok(plan)
    }

    fn decide(&mut self, differing: &'a Differing<'a>, knowledge: &Knowledge) {
        let key = history::key(differing.row);
        let is_withdrawn = knowledge.withdrawn.contains(&key);
        let Some(existing) = &differing.existing else {
            let presence = if is_withdrawn { Presence::Inactive(knowledge.now) } else { Presence::Active };
            self.insert.push((differing.row, presence));
            self.counts.inserted += 1;
            return;
        };
        let returns = !existing.active && !is_withdrawn;
        if differing.is_newer() && !knowledge.outranked.contains(&key) {
            let active = existing.active || returns;
            let presence = if active { Presence::Active } else { Presence::Inactive(knowledge.now) };
            self.update.push((existing.place, differing.row, presence));
            self.counts.updated += 1;
        } else if returns {
            self.reactivate.push(existing.place);
            self.counts.updated += 1;
        } else if differing.is_same(existing) {
            self.counts.unchanged += 1;
        } else {
            self.counts.stale += 1;
        }
    }

    /// Returns the numbers of the chunk's items by outcome. Items that a later item of the chunk
    /// replaced count as stale.
    pub(super) fn counts(&self, chunk: &Chunk) -> Changes {
        Changes { stale: self.counts.stale + u64::from(chunk.duplicates()), ..self.counts }
    }
}

/// Facts about a chunk's rows that the history of loads contains.
struct Knowledge {
    withdrawn: HashSet<i64>,
    outranked: HashSet<i64>,
    now: Timestamp,
}

impl Differing<'_> {
    fn is_active(&self) -> bool {
        self.existing.as_ref().is_some_and(|existing| existing.active)
    }

    fn is_same(&self, existing: &Existing) -> bool {
        existing.row_hash == self.row.row_hash
    }

    /// True if the row's content differs from the table's, and its version is later than that of
    /// the table's row.
    fn is_newer(&self) -> bool {
        self.existing
            .as_ref()
            .is_some_and(|existing| !self.is_same(existing) && self.row.version > existing.version)
    }
}

/// Writes the planned changes of a chunk's rows to the table.
pub(super) async fn apply(session: &mut Session<'_>, plan: &Plan<'_>) -> Result<(), DatabaseError> {
    if !plan.insert.is_empty() {
        copy(session, &NEW_PRODUCTS, &plan.insert, |rows, (row, presence)| rows.push(row, *presence)).await?;
    }
    if !plan.update.is_empty() {
        let answer = session.query_opt(IS_STAGE_ABSENT, &[]).await?;
        if answer.map_or(Ok(true), |answer| answer.try_get("is_absent"))? {
            session.transaction.batch_execute(&CREATE_STAGED).await?;
        }
        copy(session, &STAGED_PRODUCTS, &plan.update, |rows, (place, row, presence)| {
            rows.push_change(*place, row, *presence)
        })
        .await?;
        all(session.execute(&UPDATE, &[]).await?, plan.update.len())?;
    }
    if !plan.reactivate.is_empty() {
        all(session.execute(REACTIVATE, &[&plan.reactivate]).await?, plan.reactivate.len())?;
    }
    Ok(())
}

/// Checks that every row was found at its location. If not, a writer that ignores the
/// establishments' locks has changed it, and the next attempt to write the chunk looks it up again.
fn all(found: u64, looked_for: usize) -> Result<(), DatabaseError> {
    if usize::try_from(found) == Ok(looked_for) { Ok(()) } else { Err(DatabaseError::Moved) }
}
