//! Writes a chunk in one short transaction.
//!
//! It locks the chunk's establishments, looks up what the table holds in the order of keys, copies
//! new rows, stages changed ones and updates them by their place, and records what the chunk
//! contained. Rows that equal the table's are neither locked nor written, and chunks of such rows
//! share the locks.

mod changes;
mod columns;
mod copy;
mod history;
mod lookup;
mod numeric;
mod rejected;

use std::collections::HashSet;

use ingestion::batch::{BatchStatus, ChunkResult, ChunkStatus};
use ingestion::chunk::{Chunk, Generation, Row};
use ingestion::product::{ItemError, ItemErrorCode, PartialKey};
use jiff::Timestamp;

use crate::account::{Settled, TALLY, settle_by};
use crate::batch::{self, LockedBatch, generation};
use crate::connection::{Connection, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::finalize::{Finalized, finalize};
use crate::hashes::first_five;
use crate::item_errors;
use crate::locks::{self, Hold};
use crate::rows::{bigint, word};

use changes::{Plan, apply};
use lookup::{RANGES, Ranges, probe};

/// Result of writing a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The chunk was written.
    Done {
        /// Outcomes of the chunk's items.
        result: ChunkResult,
        /// State of the batch afterwards.
        batch: BatchStatus,
        /// True if this call made the batch final.
        became_final: bool,
    },
    /// The chunk was written before, in this generation.
    AlreadyDone {
        /// Current state of the batch.
        batch: BatchStatus,
        /// True if this call made the batch final.
        became_final: bool,
    },
    /// The chunk now belongs to a later generation of its batch.
    Superseded,
    /// The chunk is not written: its batch was received before the start of the history, so it
    /// cannot be compared with later batches.
    TooOld,
}

/// Turns sequential scans off until the transaction ends. A plan that was made while the table had
/// few rows, when reading all of it was cheapest, stays in use for some time after it has many.
const NO_SCANS: &str = "SELECT set_config('enable_seqscan', 'off', true)";
/// Selects the states of history, batch and chunk: always one row.
const STATE: &str = "SELECT h.kept_since, b.generation AS current, c.generation, c.status FROM batch_history h \
     LEFT JOIN batches b ON b.batch_id = $1 LEFT JOIN batch_chunks c ON c.batch_id = b.batch_id AND c.chunk_index = $2 \
     WHERE h.is_only";
const DONE: &str = "UPDATE batch_chunks SET status = 'DONE', attempts = attempts + 1, inserted = $2, updated = $3, \
     unchanged = $4, stale = $5, rejected = $6, key_hashes = $7, row_hashes = $8, last_error = NULL, done_at = now() \
     WHERE chunk_id = $1 AND status <> 'DONE' RETURNING chunk_id";
const UNLISTED: &str = "UPDATE batch_chunks SET rejected_unlisted = $2 WHERE chunk_id = $1";

impl Database {
    /// Writes a chunk, and finalizes its batch if it was the last chunk. Idempotent by the chunk's
    /// id: written again, it is acknowledged without work.
    ///
    /// Which version of a product wins does not depend on the order in which chunks are written. An
    /// inactive product becomes active again, unless a full load that was received later has
    /// decided otherwise.
    ///
    /// # Errors
    /// If the database fails or does not know the chunk. Then nothing of it was written, or all of
    /// it was and only the batch is not final. Items that the database refuses are not an error:
    /// they are reported, and the others are written.
    pub async fn write_chunk(&self, chunk: &Chunk) -> Result<WriteOutcome, DatabaseError> {
        self.with_connection(async |connection| self.write(connection, chunk).await).await
    }

    async fn write(&self, connection: &mut Connection, chunk: &Chunk) -> Result<WriteOutcome, DatabaseError> {
        let outcome = match attempt(connection, chunk).await {
            Err(error) if error.blames_the_data() => {
                let places = rejected::find(connection, chunk).await?;
                if places.is_empty() {
                    return Err(error);
                }
                let refused = Refused { places, most_listed: self.listed_errors() };
                transact(connection, chunk, &refused, Hold::Alone).await?
            }
            outcome => outcome?,
        };
        connection.nothing_differed = matches!(outcome, Outcome::Done { nothing_differed: true, .. });
        match outcome {
            // With exclusive locks, differences are written, so this outcome means a concurrent
            // change.
            Outcome::Differs => Err(DatabaseError::Moved),
            Outcome::Superseded => Ok(WriteOutcome::Superseded),
            Outcome::TooOld => Ok(WriteOutcome::TooOld),
            Outcome::AlreadyDone => {
                let end = self.finalize_with(connection, chunk).await?;
                Ok(WriteOutcome::AlreadyDone { batch: end.status, became_final: end.became_final })
            }
            Outcome::Done { result, before, after, nothing_differed: _ } => {
                let batch = if after.undecided {
                    self.finalize_with(connection, chunk).await?.status
                } else {
                    after.status
                };
                Ok(WriteOutcome::Done { result, batch, became_final: batch.is_final() && !before.is_final() })
            }
        }
    }

    async fn finalize_with(
        &self,
        connection: &mut Connection,
        chunk: &Chunk,
    ) -> Result<Finalized, DatabaseError> {
        finalize(connection, chunk.batch().batch_id(), self.guard()).await
    }
}

/// Rows that the database refuses.
#[derive(Default)]
struct Refused {
    places: HashSet<usize>,
    /// Maximum number of items in error that their batch's report may list in all.
    most_listed: u64,
}

enum Outcome {
    Done {
        result: ChunkResult,
        before: BatchStatus,
        after: Settled,
        /// True if the table already held all of its rows unchanged.
        nothing_differed: bool,
    },
    AlreadyDone,
    Superseded,
    TooOld,
    /// The chunk, which shares its establishments' locks, differs from the table: nothing was done.
    Differs,
}

/// Runs the chunk's transaction. If the last chunk changed nothing, this one probably changes
/// nothing either, so it is tried with shared locks first: such chunks can run concurrently.
async fn attempt(connection: &mut Connection, chunk: &Chunk) -> Result<Outcome, DatabaseError> {
    let none = Refused::default();
    if connection.nothing_differed {
        match transact(connection, chunk, &none, Hold::Shared).await? {
            Outcome::Differs => {}
            outcome => return Ok(outcome),
        }
    }
    transact(connection, chunk, &none, Hold::Alone).await
}

/// Runs the transaction with these locks, without the refused rows.
async fn transact(
    connection: &mut Connection,
    chunk: &Chunk,
    refused: &Refused,
    hold: Hold,
) -> Result<Outcome, DatabaseError> {
    let (left, accepted): (Vec<_>, Vec<_>) =
        chunk.rows().iter().enumerate().partition(|(place, _)| refused.places.contains(place));
    let accepted: Vec<&Row> = accepted.into_iter().map(|(_, row)| row).collect();
    let first = if connection.were_neighbours { accepted.len() } else { probe(accepted.len()) };
    let first_ranges = Ranges::of(accepted.get(..first).unwrap_or_default())?;
    let (batch_id, index) = (chunk.batch().batch_id(), i32::try_from(chunk.index())?);
    let mut session = connection.begin().await?;
    let [_, _, state, found] = session
        .query_each([
            (NO_SCANS, &[]),
            (hold.statement(), &[&locks::numbers(&chunk.cnpjs())]),
            (STATE, &[&batch_id, &index]),
            (RANGES, &first_ranges.params()),
        ])
        .await
        .map_err(DatabaseError::while_locking)?;
    if let Some(outcome) = outcome_in(&state, chunk)? {
        return Ok(outcome);
    }
    let kept_since = kept_since(&state)?;
    let differing = lookup::differing(&mut session, &accepted, &first_ranges, &found).await?;
    let nothing_differed = differing.is_empty();
    if hold == Hold::Shared && !nothing_differed {
        return Ok(Outcome::Differs);
    }
    let plan = Plan::of(&mut session, chunk, &differing, accepted.len(), kept_since).await?;
    apply(&mut session, &plan).await?;
    if chunk.generation() > Generation::FIRST {
        let items: Vec<u64> = chunk.rows().iter().map(|row| row.version.item_index()).collect();
        item_errors::forget_rejected(&mut session, chunk.batch().batch_id(), &items).await?;
    }
    let rejected = u64::try_from(left.len())?;
    let result = ChunkResult::new(u64::from(chunk.items()), plan.counts(chunk), rejected)?;
    let Some((batch, mut tally)) = mark_done(&mut session, chunk, result).await? else {
        // Another call was faster, or a replay took the chunk over. The rows written here are
        // rolled back.
        let state = session.query(STATE, &[&batch_id, &index]).await?;
        let unknown = DatabaseError::UnknownChunk { batch_id, index: chunk.index() };
        return outcome_in(&state, chunk)?.ok_or(unknown);
    };
    if !left.is_empty() {
        let errors: Vec<ItemError> = left.iter().map(|(_, row)| refusal(row)).collect();
        report(&mut session, chunk, &errors, refused.most_listed).await?;
        tally = session.query(TALLY, &[&batch_id]).await?;
    }
    let after = settle_by(&mut session, &batch, &tally).await?;
    session.commit().await?;
    Ok(Outcome::Done { result, before: batch.status, after, nothing_differed })
}

/// Outcome for a chunk that was written before, or now belongs to another generation; `state` are
/// the rows of [`STATE`].
fn outcome_in(state: &[tokio_postgres::Row], chunk: &Chunk) -> Result<Option<Outcome>, DatabaseError> {
    let batch_id = chunk.batch().batch_id();
    let too_old = (chunk.batch().received_at() < kept_since(state)?).then_some(Outcome::TooOld);
    let row = state.first().ok_or(DatabaseError::UnknownBatch(batch_id))?;
    if row.try_get::<_, Option<i32>>("current")?.is_none() {
        return too_old.ok_or(DatabaseError::UnknownBatch(batch_id)).map(Some);
    }
    let unknown = DatabaseError::UnknownChunk { batch_id, index: chunk.index() };
    if row.try_get::<_, Option<i32>>("generation")?.is_none() {
        let superseded = generation(row, "current")? > chunk.generation();
        return if superseded { Ok(Some(Outcome::Superseded)) } else { too_old.ok_or(unknown).map(Some) };
    }
    let status: ChunkStatus = word(row, "status")?;
    match generation(row, "generation")?.cmp(&chunk.generation()) {
        std::cmp::Ordering::Greater => Ok(Some(Outcome::Superseded)),
        std::cmp::Ordering::Less => too_old.ok_or(unknown).map(Some),
        std::cmp::Ordering::Equal if status == ChunkStatus::Done => Ok(Some(Outcome::AlreadyDone)),
        std::cmp::Ordering::Equal => Ok(too_old),
    }
}

/// Reads the start of the history from the rows of [`STATE`].
fn kept_since(state: &[tokio_postgres::Row]) -> Result<Timestamp, DatabaseError> {
    let row = state.first().ok_or(DatabaseError::Unreadable("the beginning of the history"))?;
    Ok(row.try_get("kept_since")?)
}

/// Reports items of the chunk that the database refused. Its batch is locked, so that no two chunks
/// count on the same room in the report.
async fn report(
    session: &mut Session<'_>,
    chunk: &Chunk,
    errors: &[ItemError],
    most: u64,
) -> Result<(), DatabaseError> {
    let unlisted = item_errors::insert_up_to(session, chunk.batch().batch_id(), errors, most).await?;
    if unlisted > 0 {
        session.execute(UNLISTED, &[&chunk.id().uuid(), &bigint(unlisted)?]).await?;
    }
    Ok(())
}

/// Marks a pending chunk as done. Then its batch is locked, and returned with the tally of its
/// chunks; `None` if there was no such chunk.
async fn mark_done(
    session: &mut Session<'_>,
    chunk: &Chunk,
    result: ChunkResult,
) -> Result<Option<(LockedBatch, Vec<tokio_postgres::Row>)>, DatabaseError> {
    let batch_id = chunk.batch().batch_id();
    let changes = result.changes();
    let keys: Vec<i64> = chunk.rows().iter().map(history::key).collect();
    let contents: Vec<u8> = chunk.rows().iter().flat_map(|row| first_five(row.row_hash.0)).collect();
    let [marked, batch, tally] = session
        .query_each([
            (
                DONE,
                &[
                    &chunk.id().uuid(),
                    &bigint(changes.inserted)?,
                    &bigint(changes.updated)?,
                    &bigint(changes.unchanged)?,
                    &bigint(changes.stale)?,
                    &bigint(result.rejected())?,
                    &keys,
                    &contents,
                ],
            ),
            (batch::LOCK, &[&batch_id]),
            (TALLY, &[&batch_id]),
        ])
        .await?;
    if marked.is_empty() {
        return Ok(None);
    }
    Ok(Some((LockedBatch::of(batch_id, batch.first())?, tally)))
}

fn refusal(row: &Row) -> ItemError {
    ItemError {
        item_index: row.version.item_index(),
        // Offsets in the payload are unknown here.
        byte_offset: 0,
        code: ItemErrorCode::RejectedByDatabase,
        field: None,
        detail: "one of its values is beyond what the database can hold".into(),
        key: PartialKey {
            cnpj: Some(row.key.cnpj),
            shop_id: Some(row.key.shop_id),
            product_id: Some(row.key.product_id.clone()),
        },
    }
}
