//! Writes a chunk in one short transaction.
//!
//! The transaction locks the chunk's establishments, and looks up in the order of keys which rows
//! the table has. It copies new rows, updates changed ones by their location from a staging table,
//! and records what the chunk contained. Rows that equal the table's are neither locked nor
//! written, and chunks of such rows share the locks. Items of establishments that are not the
//! tenant's are refused.

mod changes;
mod columns;
mod copy;
mod history;
mod lookup;
mod numeric;
mod owners;
mod rejected;

use std::collections::HashSet;

use ingestion::batch::{BatchStatus, ChunkResult, ChunkStatus};
use ingestion::chunk::{Chunk, Generation, Row};
use ingestion::product::{ItemError, ItemErrorCode, PartialKey};
use jiff::Timestamp;

use crate::account::{Settled, TALLY, settle_by};
use crate::connection::{Connection, NO_SCANS, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::finalize::{Finalized, finalize};
use crate::hashes::first_five;
use crate::item_errors;
use crate::locked_batch::{self, LockedBatch, generation};
use crate::locks::{self, LockMode};
use crate::owners::OwnerRule;
use crate::rows::{bigint, texts, word};

use changes::{RowChanges, apply};
use lookup::{RANGES, Ranges, probe};
use owners::{NOT_OWNED, NotOwned};

/// Result of writing a chunk, or the reason why the chunk must not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The rows of the chunk were written.
    Done {
        /// Numbers of the chunk's items by outcome.
        result: ChunkResult,
        /// State of the chunk's batch after the write.
        batch: BatchStatus,
        /// True if this call made the batch final.
        became_final: bool,
    },
    /// The chunk was written before this call, in the same generation (round of processing) of the
    /// batch.
    AlreadyDone {
        /// State of the chunk's batch.
        batch: BatchStatus,
        /// True if this call made the batch final.
        became_final: bool,
    },
    /// The batch was restarted or replayed in a later generation (round of processing), so the
    /// caller's chunk is outdated.
    Superseded,
    /// The chunk is not written, because its batch was received before the start of the history of
    /// loads (the period for which batches are retained), and cannot be compared with later
    /// batches.
    TooOld,
}

/// Query for the time since which batches are retained, and for the states of the batch `$1` and
/// its chunk `$2`. Always returns one row.
const STATE: &str = "SELECT h.kept_since, b.generation AS current, c.generation, c.status FROM batch_history h \
     LEFT JOIN batches b ON b.batch_id = $1 LEFT JOIN batch_chunks c ON c.batch_id = b.batch_id AND c.chunk_index = $2 \
     WHERE h.is_only";
const DONE: &str = "UPDATE batch_chunks SET status = 'DONE', attempts = attempts + 1, inserted = $2, updated = $3, \
     unchanged = $4, stale = $5, rejected = $6, key_hashes = $7, row_hashes = $8, last_error = NULL, done_at = now() \
     WHERE chunk_id = $1 AND status <> 'DONE' RETURNING chunk_id";
const UNLISTED: &str = "UPDATE batch_chunks SET rejected_unlisted = $2 WHERE chunk_id = $1";

impl Database {
    /// Writes a chunk, and finalizes its batch if it was the last chunk. Idempotent by the chunk's
    /// id: a repeated call finds the work done.
    ///
    /// Which version of a product wins does not depend on the order in which chunks are written. An
    /// inactive product becomes active again, unless a full load that was received later lacks the
    /// product.
    ///
    /// # Errors
    /// If the database fails, or does not have the chunk. Then either nothing was written, or the
    /// chunk was written and only the batch is not final yet. Items that the database refuses, and
    /// items of establishments that are not the tenant's, are no error: they are reported, and the
    /// others are written.
    pub async fn write_chunk(&self, chunk: &Chunk) -> Result<WriteOutcome, DatabaseError> {
        self.with_connection(async |connection| self.write(connection, chunk).await).await
    }

    async fn write(&self, connection: &mut Connection, chunk: &Chunk) -> Result<WriteOutcome, DatabaseError> {
        let mut parameters = WriteParameters {
            rejected: HashSet::new(),
            owner_rule: self.owner_rule,
            most_listed: self.listed_errors,
        };
        let outcome = match attempt(connection, chunk, &parameters).await {
            Err(error) if error.blames_the_data() => {
                parameters.rejected = rejected::find(connection, chunk).await?;
                if parameters.rejected.is_empty() {
                    return Err(error);
                }
                transact(connection, chunk, &parameters, LockMode::Exclusive).await?
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
        finalize(connection, chunk.batch.batch_id(), self.guard).await
    }
}

/// Parameters of a transaction that writes a chunk.
struct WriteParameters {
    /// Indexes of the chunk's rows that the database refuses; empty in the first attempt.
    rejected: HashSet<usize>,
    owner_rule: OwnerRule,
    /// Maximum number of items in error that the batch's report may list in all.
    most_listed: u64,
}

enum Outcome {
    Done {
        result: ChunkResult,
        before: BatchStatus,
        after: Settled,
        /// True if the table already held all rows of the chunk with the same content.
        nothing_differed: bool,
    },
    AlreadyDone,
    Superseded,
    TooOld,
    /// Nothing was done, because the locks of the chunk's establishments are only shared. The chunk
    /// differs from the table, or its tenant would become an owner, which needs exclusive locks.
    Differs,
}

/// Writes a chunk. If the last chunk on this connection changed nothing, this one probably changes
/// nothing either, so it is tried with shared locks first, which let such chunks run concurrently.
async fn attempt(
    connection: &mut Connection,
    chunk: &Chunk,
    parameters: &WriteParameters,
) -> Result<Outcome, DatabaseError> {
    if connection.nothing_differed {
        match transact(connection, chunk, parameters, LockMode::Shared).await? {
            Outcome::Differs => {}
            outcome => return Ok(outcome),
        }
    }
    transact(connection, chunk, parameters, LockMode::Exclusive).await
}

/// Runs the transaction that writes a chunk, with locks of this mode and without the rows that are
/// refused.
async fn transact(
    connection: &mut Connection,
    chunk: &Chunk,
    parameters: &WriteParameters,
    mode: LockMode,
) -> Result<Outcome, DatabaseError> {
    let sound = chunk.rows().iter().enumerate().filter(|(place, _)| !parameters.rejected.contains(place));
    let sound: Vec<&Row> = sound.map(|(_, row)| row).collect();
    let first = if connection.were_neighbours { sound.len() } else { probe(sound.len()) };
    let first_ranges = Ranges::of(sound.get(..first).unwrap_or_default())?;
    let (batch_id, index) = (chunk.batch.batch_id(), i32::try_from(chunk.index)?);
    let cnpjs = chunk.cnpjs();
    let mut session = connection.begin().await?;
    let [_, _, state, not_owned, found] = session
        .query_each([
            (NO_SCANS, &[]),
            (mode.statement(), &[&locks::numbers(&cnpjs)]),
            (STATE, &[&batch_id, &index]),
            (NOT_OWNED, &[&batch_id, &texts(&cnpjs)]),
            (RANGES, &first_ranges.params()),
        ])
        .await
        .map_err(DatabaseError::while_locking)?;
    if let Some(outcome) = outcome_in(&state, chunk)? {
        return Ok(outcome);
    }
    let kept_since = kept_since(&state)?;
    let not_owned = NotOwned::of(&mut session, batch_id, &not_owned, parameters.owner_rule, mode).await?;
    let Some(not_owned) = not_owned else { return Ok(Outcome::Differs) };
    let own: Vec<&Row> = sound.iter().copied().filter(|row| !not_owned.contains(row)).collect();
    let first = not_owned.is_empty().then_some((&first_ranges, found.as_slice()));
    let differing = lookup::differing(&mut session, &own, first).await?;
    let nothing_differed = differing.is_empty();
    if mode == LockMode::Shared && !nothing_differed {
        return Ok(Outcome::Differs);
    }
    let changes = RowChanges::of(&mut session, chunk, &differing, own.len(), kept_since).await?;
    apply(&mut session, &changes).await?;
    let refused = refused(chunk, parameters, &not_owned);
    let result =
        ChunkResult::new(u64::from(chunk.items), changes.counts(chunk), u64::try_from(refused.len())?)?;
    let Some((before, after)) =
        settle_done(&mut session, chunk, &not_owned, &refused, result, parameters).await?
    else {
        // Another call was faster, or a replay took the chunk over. The rows written here are
        // rolled back.
        let state = session.query(STATE, &[&batch_id, &index]).await?;
        let unknown = DatabaseError::UnknownChunk { batch_id, index: chunk.index };
        return outcome_in(&state, chunk)?.ok_or(unknown);
    };
    session.commit().await?;
    Ok(Outcome::Done { result, before, after, nothing_differed })
}

/// Returns the errors of the chunk's refused items: those of establishments that are not the
/// tenant's, and those that the database refuses.
fn refused(chunk: &Chunk, parameters: &WriteParameters, not_owned: &NotOwned) -> Vec<ItemError> {
    let error = |(place, row): (usize, &Row)| {
        if not_owned.contains(row) {
            Some(not_allowed(row))
        } else {
            parameters.rejected.contains(&place).then(|| rejection(row))
        }
    };
    chunk.rows().iter().enumerate().filter_map(error).collect()
}

/// Marks a chunk as done, reports its refused items, and updates its batch's state and counters.
/// Returns the batch's states before and after; `None` if the chunk was done already, or has
/// another id by now.
async fn settle_done(
    session: &mut Session<'_>,
    chunk: &Chunk,
    not_owned: &NotOwned,
    refused: &[ItemError],
    result: ChunkResult,
    parameters: &WriteParameters,
) -> Result<Option<(BatchStatus, Settled)>, DatabaseError> {
    let batch_id = chunk.batch.batch_id();
    if chunk.generation > Generation::FIRST {
        let items: Vec<u64> = chunk.rows().iter().map(|row| row.version.item_index()).collect();
        item_errors::forget_refused(session, batch_id, &items).await?;
    }
    let marked = mark_done(session, chunk, &not_owned.others(chunk), result).await?;
    let Some((batch, mut tally)) = marked else { return Ok(None) };
    if !refused.is_empty() {
        report(session, chunk, refused, parameters.most_listed).await?;
        tally = session.query(TALLY, &[&batch_id]).await?;
    }
    if !not_owned.is_empty() {
        not_owned.note(session, batch_id).await?;
    }
    Ok(Some((batch.status, settle_by(session, &batch, &tally).await?)))
}

/// Returns the outcome for a chunk that must not be written, because it was written before, is
/// outdated or too old; `None` if it is to be written. `state` are the rows of [`STATE`].
fn outcome_in(state: &[tokio_postgres::Row], chunk: &Chunk) -> Result<Option<Outcome>, DatabaseError> {
    let batch_id = chunk.batch.batch_id();
    let too_old = (chunk.batch.received_at() < kept_since(state)?).then_some(Outcome::TooOld);
    let row = state.first().ok_or(DatabaseError::UnknownBatch(batch_id))?;
    if row.try_get::<_, Option<i32>>("current")?.is_none() {
        return too_old.ok_or(DatabaseError::UnknownBatch(batch_id)).map(Some);
    }
    let unknown = DatabaseError::UnknownChunk { batch_id, index: chunk.index };
    if row.try_get::<_, Option<i32>>("generation")?.is_none() {
        let superseded = generation(row, "current")? > chunk.generation;
        return if superseded { Ok(Some(Outcome::Superseded)) } else { too_old.ok_or(unknown).map(Some) };
    }
    let status: ChunkStatus = word(row, "status")?;
    match generation(row, "generation")?.cmp(&chunk.generation) {
        std::cmp::Ordering::Greater => Ok(Some(Outcome::Superseded)),
        std::cmp::Ordering::Less => too_old.ok_or(unknown).map(Some),
        std::cmp::Ordering::Equal if status == ChunkStatus::Done => Ok(Some(Outcome::AlreadyDone)),
        std::cmp::Ordering::Equal => Ok(too_old),
    }
}

/// Reads the time since which batches are retained from the rows of [`STATE`].
fn kept_since(state: &[tokio_postgres::Row]) -> Result<Timestamp, DatabaseError> {
    let row = state.first().ok_or(DatabaseError::Unreadable("the beginning of the history"))?;
    Ok(row.try_get("kept_since")?)
}

/// Adds the chunk's refused items to the batch's report, up to `most` in total. The batch must be
/// locked, so that chunks that report at the same time do not exceed that number.
async fn report(
    session: &mut Session<'_>,
    chunk: &Chunk,
    errors: &[ItemError],
    most: u64,
) -> Result<(), DatabaseError> {
    let unlisted = item_errors::insert_up_to(session, chunk.batch.batch_id(), errors, most).await?;
    if unlisted > 0 {
        session.execute(UNLISTED, &[&chunk.id().uuid(), &bigint(unlisted)?]).await?;
    }
    Ok(())
}

/// Marks a chunk as done, and stores the hashes of the rows that it contained, or null if it
/// contained none. Then locks its batch, and returns it with the counts of its chunks; `None` if
/// the chunk was done already, or has another id by now.
async fn mark_done(
    session: &mut Session<'_>,
    chunk: &Chunk,
    contained: &[&Row],
    result: ChunkResult,
) -> Result<Option<(LockedBatch, Vec<tokio_postgres::Row>)>, DatabaseError> {
    let batch_id = chunk.batch.batch_id();
    let changes = result.changes();
    let (keys, contents) = if contained.is_empty() {
        (None, None)
    } else {
        let keys: Vec<i64> = contained.iter().map(|row| history::key(row)).collect();
        let contents: Vec<u8> = contained.iter().flat_map(|row| first_five(row.row_hash.0)).collect();
        (Some(keys), Some(contents))
    };
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
            (locked_batch::LOCK, &[&batch_id]),
            (TALLY, &[&batch_id]),
        ])
        .await?;
    if marked.is_empty() {
        return Ok(None);
    }
    Ok(Some((LockedBatch::of(batch_id, batch.first())?, tally)))
}

fn rejection(row: &Row) -> ItemError {
    let detail = "one of its values is beyond what the database can hold";
    refusal(row, ItemErrorCode::RejectedByDatabase, None, detail)
}

/// Builds the error of an item whose establishment is not the tenant's. It does not reveal who owns
/// the establishment.
fn not_allowed(row: &Row) -> ItemError {
    let detail = "the establishment belongs to another tenant, or to none";
    refusal(row, ItemErrorCode::CnpjNotAllowed, Some("CNPJ"), detail)
}

fn refusal(row: &Row, code: ItemErrorCode, field: Option<&'static str>, detail: &'static str) -> ItemError {
    ItemError {
        item_index: row.version.item_index(),
        // Offsets in the payload are unknown here.
        byte_offset: 0,
        code,
        field: field.map(Into::into),
        detail: detail.into(),
        key: PartialKey {
            cnpj: Some(row.key.cnpj),
            shop_id: Some(row.key.shop_id),
            product_id: Some(row.key.product_id.clone()),
        },
    }
}
