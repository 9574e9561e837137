//! What other batches said of a chunk's products without writing them.
//!
//! An unchanged row is not touched, so it does not tell who confirmed it, and a product that is gone does not tell who said so last. The hashes that done chunks left
//! behind do. They are asked only about rows that are about to be changed, and only where another batch could have a say, which in the usual order of things
//! is never.

use std::collections::HashSet;

use ingestion::Cnpj;
use ingestion::chunk::{Chunk, Row};
use jiff::Timestamp;
use uuid::Uuid;

use super::lookup::{Differing, Existing};
use crate::connection::Session;
use crate::error::DatabaseError;
use crate::hashes::first_eight;
use crate::rows::{cnpj, texts};

/// Full loads received later that already decided about these establishments.
const LATER_LOADS: &str = "SELECT cnpj, batch_id FROM batch_cnpjs WHERE cnpj = ANY($1::bpchar[]) \
     AND deactivation = 'done' AND (received_at, batch_id) > ($2, $3)";
/// `IS TRUE` keeps the set of keys a hash table beside one pass over the chunks; as a join it might become a loop over both.
const CONTAINED: &str = "SELECT c.batch_id, h.key FROM batch_chunks c CROSS JOIN LATERAL unnest(c.key_hashes) AS h (key) \
     WHERE c.batch_id = ANY($1) AND (h.key IN (SELECT unnest($2::bigint[]))) IS TRUE \
     UNION ALL SELECT e.batch_id, e.key_hash FROM batch_item_errors e \
     WHERE e.batch_id = ANY($1) AND (e.key_hash IN (SELECT unnest($2::bigint[]))) IS TRUE";
/// Chunks of the establishments' batches, received at `$2` or later, that contained one of the keys with one of the contents: of other batches, of this one behind
/// the chunk and, if `$7`, before it.
const CONFIRMATIONS: &str = "SELECT b.received_at, b.batch_id, c.chunk_index, h.key, h.content \
     FROM (SELECT DISTINCT batch_id, received_at FROM batch_cnpjs \
         WHERE cnpj = ANY($1::bpchar[]) AND received_at >= $2) b \
     JOIN batch_chunks c ON c.batch_id = b.batch_id \
     CROSS JOIN LATERAL unnest(c.key_hashes, c.row_hashes) AS h (key, content) \
     WHERE (c.batch_id <> $5 OR c.chunk_index > $6 OR ($7 AND c.chunk_index < $6)) \
     AND (h.key IN (SELECT unnest($3::bigint[]))) IS TRUE AND (h.content IN (SELECT unnest($4::bigint[]))) IS TRUE";

/// The key hashes among `rows` that a later full load did not contain: products that are gone by now, whatever this chunk says of them.
pub(super) async fn withdrawn(
    session: &mut Session<'_>,
    chunk: &Chunk,
    rows: &[&Row],
) -> Result<HashSet<i64>, DatabaseError> {
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    let (received_at, batch_id) = (chunk.batch().received_at(), chunk.batch().batch_id());
    let mut cnpjs: Vec<Cnpj> = rows.iter().map(|row| row.key.cnpj).collect();
    cnpjs.dedup();
    let answers = session.query(LATER_LOADS, &[&texts(&cnpjs), &received_at, &batch_id]).await?;
    let loads = answers
        .iter()
        .map(|answer| Ok((cnpj(answer, "cnpj")?, answer.try_get("batch_id")?)))
        .collect::<Result<Vec<(Cnpj, Uuid)>, DatabaseError>>()?;
    if loads.is_empty() {
        return Ok(HashSet::new());
    }
    let batches: Vec<Uuid> = loads.iter().map(|(_, load)| *load).collect();
    let keys: Vec<i64> = rows.iter().map(|row| key(row)).collect();
    let contained = session
        .query(CONTAINED, &[&batches, &keys])
        .await?
        .iter()
        .map(|answer| Ok((answer.try_get("batch_id")?, answer.try_get("key")?)))
        .collect::<Result<HashSet<(Uuid, i64)>, DatabaseError>>()?;
    let is_gone = |row: &&&Row| {
        loads.iter().any(|(cnpj, load)| *cnpj == row.key.cnpj && !contained.contains(&(*load, key(row))))
    };
    Ok(rows.iter().filter(is_gone).map(|row| key(row)).collect())
}

/// The key hashes among those rows, newer than what the table's row says of itself, whose content in the table was confirmed by a version newer still.
pub(super) async fn outranked(
    session: &mut Session<'_>,
    chunk: &Chunk,
    rows: &[&Differing<'_>],
) -> Result<HashSet<i64>, DatabaseError> {
    let candidates: Vec<Candidate> = rows.iter().filter_map(|differing| Candidate::of(differing)).collect();
    let Some(since) = candidates.iter().map(|candidate| candidate.effective_at).min() else {
        return Ok(HashSet::new());
    };
    let (received_at, batch_id) = (chunk.batch().received_at(), chunk.batch().batch_id());
    let index = i32::try_from(chunk.index())?;
    let keys: Vec<i64> = candidates.iter().map(|candidate| candidate.key).collect();
    let contents: Vec<i64> = candidates.iter().map(|candidate| candidate.content).collect();
    let earlier_chunks =
        candidates.iter().any(|candidate| candidate.confirmed_at(received_at) > candidate.effective_at);
    let answers = session
        .query(
            CONFIRMATIONS,
            &[&texts(&chunk.cnpjs()), &since, &keys, &contents, &batch_id, &index, &earlier_chunks],
        )
        .await?;
    let mut confirmations = std::collections::HashMap::<(i64, i64), Vec<(Timestamp, Uuid, i32)>>::new();
    for answer in &answers {
        let confirmed = (answer.try_get("key")?, answer.try_get("content")?);
        let by =
            (answer.try_get("received_at")?, answer.try_get("batch_id")?, answer.try_get("chunk_index")?);
        confirmations.entry(confirmed).or_default().push(by);
    }
    let is_outranked = |candidate: &&Candidate| {
        let confirmed = confirmations.get(&(candidate.key, candidate.content));
        confirmed.into_iter().flatten().any(|(received, batch, place)| {
            // Within a batch, chunks follow the order of its items.
            (candidate.confirmed_at(*received), *received, *batch, *place)
                > (candidate.effective_at, received_at, batch_id, index)
        })
    };
    Ok(candidates.iter().filter(is_outranked).map(|candidate| candidate.key).collect())
}

/// A row that would be changed, unless what is there has been confirmed since.
struct Candidate {
    key: i64,
    content: i64,
    effective_at: Timestamp,
    source_updated_at: Option<Timestamp>,
}

impl Candidate {
    /// Nothing where no confirmation could be newer: the source itself says that what is there is older.
    fn of(differing: &Differing<'_>) -> Option<Self> {
        let Existing { row_hash, source_updated_at, .. } = differing.existing.as_ref()?;
        let effective_at = differing.row.version.effective_at();
        source_updated_at.is_none_or(|updated| updated >= effective_at).then(|| Self {
            key: key(differing.row),
            content: first_eight(row_hash.0),
            effective_at,
            source_updated_at: *source_updated_at,
        })
    }

    /// The effective time of the table's content in a batch that was received then.
    fn confirmed_at(&self, received_at: Timestamp) -> Timestamp {
        self.source_updated_at.map_or(received_at, |updated| updated.min(received_at))
    }
}

/// A row's key in a chunk's hashes.
pub(super) fn key(row: &Row) -> i64 {
    first_eight(row.key_hash.0)
}
