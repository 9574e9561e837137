//! Changes of product rows by which a chunk is written: decided row by row, and applied in three
//! statements.

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
use crate::row_location::RowLocation;

const IS_STAGE_ABSENT: &str = "SELECT to_regclass('pg_temp.staged_products') IS NULL AS is_absent";
const REACTIVATE: &str = "UPDATE products SET active = true, deactivated_at = NULL, updated_at = now() \
     WHERE ctid = ANY($1)";

/// Changes of product rows by which a chunk is written.
pub(super) struct RowChanges<'a> {
    insert: Vec<(&'a Row, Presence)>,
    update: Vec<(RowLocation, &'a Row, Presence)>,
    /// Rows that become active again and otherwise stay as they are.
    reactivate: Vec<RowLocation>,
    counts: Changes,
}

impl<'a> RowChanges<'a> {
    /// Decides what to do with each row of a chunk. `differing` are its rows that differ from the
    /// table, `rows` is the number of all its rows, and `kept_since` is the start of the history of
    /// loads (the period for which batches are retained).
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
        let others = OtherBatches {
            withdrawn: history::withdrawn(session, chunk, &may_return).await?,
            outranked: history::outranked(session, chunk, &newer, kept_since).await?,
            now: Timestamp::now(),
        };
        let unchanged = u64::try_from(rows.saturating_sub(differing.len()))?;
        let mut changes = Self {
            insert: Vec::new(),
            update: Vec::new(),
            reactivate: Vec::new(),
            counts: Changes { unchanged, ..Changes::default() },
        };
        for differing in differing {
            changes.decide(differing, &others);
        }
        Ok(changes)
    }

    fn decide(&mut self, differing: &'a Differing<'a>, others: &OtherBatches) {
        let key = history::key(differing.row);
        let is_withdrawn = others.withdrawn.contains(&key);
        let Some(existing) = &differing.existing else {
            let presence = if is_withdrawn { Presence::Inactive(others.now) } else { Presence::Active };
            self.insert.push((differing.row, presence));
            self.counts.inserted += 1;
            return;
        };
        let returns = !existing.active && !is_withdrawn;
        if differing.is_newer() && !others.outranked.contains(&key) {
            let active = existing.active || returns;
            let presence = if active { Presence::Active } else { Presence::Inactive(others.now) };
            self.update.push((existing.location, differing.row, presence));
            self.counts.updated += 1;
        } else if returns {
            self.reactivate.push(existing.location);
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

/// Key hashes of those products of a chunk that a later full load lacks (`withdrawn`), and of those
/// whose content in the table is kept, because a later version in another chunk confirms it
/// (`outranked`).
struct OtherBatches {
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
pub(super) async fn apply(session: &mut Session<'_>, changes: &RowChanges<'_>) -> Result<(), DatabaseError> {
    if !changes.insert.is_empty() {
        copy(session, &NEW_PRODUCTS, &changes.insert, |rows, (row, presence)| rows.push(row, *presence))
            .await?;
    }
    if !changes.update.is_empty() {
        let answer = session.query_opt(IS_STAGE_ABSENT, &[]).await?;
        if answer.map_or(Ok(true), |answer| answer.try_get("is_absent"))? {
            session.transaction.batch_execute(&CREATE_STAGED).await?;
        }
        copy(session, &STAGED_PRODUCTS, &changes.update, |rows, (location, row, presence)| {
            rows.push_change(*location, row, *presence)
        })
        .await?;
        all(session.execute(&UPDATE, &[]).await?, changes.update.len())?;
    }
    if !changes.reactivate.is_empty() {
        all(session.execute(REACTIVATE, &[&changes.reactivate]).await?, changes.reactivate.len())?;
    }
    Ok(())
}

/// Checks that a statement found as many rows (`found`) as it had locations (`looked_for`).
/// Otherwise a writer that ignores the establishments' locks has changed a row. The write then
/// fails with [`DatabaseError::Moved`], and its repetition looks the rows up again.
fn all(found: u64, looked_for: usize) -> Result<(), DatabaseError> {
    if usize::try_from(found) == Ok(looked_for) { Ok(()) } else { Err(DatabaseError::Moved) }
}
