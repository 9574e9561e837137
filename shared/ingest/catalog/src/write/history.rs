//! Search of other batches' chunks for the products of the chunk that is being written.
//!
//! A row whose content stays the same is not written, so it does not show which batch contained
//! (*confirmed*) that content last. A product that is missing from full loads does not show which
//! load lacked it last. The hashes that are stored with written chunks show both. They are queried
//! only for rows that are about to change, and only if another batch could matter, which is rare if
//! batches are processed in order.
//!
//! Hashes from before the start of the history of loads (the period for which batches are retained)
//! are deleted. So that no confirmation is lost with them, each row counts as confirmed at that
//! start.

use std::collections::{HashMap, HashSet};

use ingestion::Cnpj;
use ingestion::chunk::{Chunk, Row};
use jiff::Timestamp;
use uuid::Uuid;

use super::lookup::{Differing, Existing};
use crate::connection::Session;
use crate::error::DatabaseError;
use crate::hashes::{first_eight, first_five};
use crate::rows::{cnpj, texts};

/// Query for full loads of the same tenant, later than the batch `$3` (received at `$2`), that have
/// completed their deactivation in the establishments `$1`. A load is left out if an item of it was
/// refused in the establishment, even after the deactivation. Loads of a former owner are left out
/// too: they say nothing about the present owner's products.
const LATER_LOADS: &str = "SELECT c.cnpj, c.batch_id FROM batch_cnpjs c JOIN batches b ON b.batch_id = c.batch_id \
     WHERE c.cnpj = ANY($1::bpchar[]) AND c.deactivation = 'done' AND NOT c.refused \
     AND (c.received_at, c.batch_id) > ($2, $3) \
     AND b.tenant_id = (SELECT o.tenant_id FROM batches o WHERE o.batch_id = $3) \
     ORDER BY c.received_at DESC, c.batch_id DESC";
/// Query for those of the key hashes `$2` that the batch `$1` contained, items in error included.
/// `IS TRUE` makes the planner use a hash table of keys and one pass over the chunks; a join might
/// become a nested loop over keys and chunks.
const CONTAINED: &str = "SELECT h.key FROM batch_chunks c CROSS JOIN LATERAL unnest(c.key_hashes) AS h (key) \
     WHERE c.batch_id = $1 AND (h.key IN (SELECT unnest($2::bigint[]))) IS TRUE \
     UNION ALL SELECT e.key_hash FROM batch_item_errors e \
     WHERE e.batch_id = $1 AND (e.key_hash IN (SELECT unnest($2::bigint[]))) IS TRUE";
/// Query for the batches that were received since the time `$2` and may contain products of the
/// establishments `$1`. Batches of other tenants whose items were refused are left out, since the
/// tenant of the batch `$3` has no influence on their number.
const SINCE: &str = "SELECT DISTINCT c.received_at, c.batch_id FROM batch_cnpjs c WHERE c.cnpj = ANY($1::bpchar[]) \
     AND c.received_at >= $2 AND (NOT c.refused OR EXISTS (SELECT FROM batches o, batches b \
         WHERE o.batch_id = $3 AND b.batch_id = c.batch_id AND b.tenant_id = o.tenant_id)) \
     ORDER BY c.received_at DESC, c.batch_id DESC";
/// Query for the chunks of the batches `$1` that contained one of the key hashes `$2`, with the
/// hash of the content that each had for the key. In the batch `$3` of the chunk that is being
/// written, only chunks after this one (index `$4`) are searched, and those before it too if `$5`
/// is true. Appending an empty value makes PostgreSQL read a chunk's contents only once, and
/// `OFFSET 0` prevents repeating that for each key.
const CONFIRMATIONS: &str = "SELECT c.batch_id, c.chunk_index, h.key, \
         substring(c.contents FROM (5 * h.place - 4)::integer FOR 5) AS content \
     FROM (SELECT batch_id, chunk_index, key_hashes, row_hashes || ''::bytea AS contents FROM batch_chunks \
         WHERE batch_id = ANY($1) AND (batch_id <> $3 OR chunk_index > $4 OR ($5 AND chunk_index < $4)) OFFSET 0) c \
     CROSS JOIN LATERAL unnest(c.key_hashes) WITH ORDINALITY AS h (key, place) \
     WHERE (h.key IN (SELECT unnest($2::bigint[]))) IS TRUE";
/// Maximum number of batches that one query searches. The newest batch is searched first, and
/// nearly always makes a search of earlier ones unnecessary.
const MOST_AT_ONCE: usize = 8;

/// Returns the key hashes among `rows` that a later full load did not contain. Their products no
/// longer exist, although this chunk contains them.
pub(super) async fn withdrawn(
    session: &mut Session<'_>,
    chunk: &Chunk,
    rows: &[&Row],
) -> Result<HashSet<i64>, DatabaseError> {
    let mut withdrawn = HashSet::new();
    if rows.is_empty() {
        return Ok(withdrawn);
    }
    let (received_at, batch_id) = (chunk.batch.received_at(), chunk.batch.batch_id());
    let mut cnpjs: Vec<Cnpj> = rows.iter().map(|row| row.key.cnpj).collect();
    cnpjs.dedup();
    let answers = session.query(LATER_LOADS, &[&texts(&cnpjs), &received_at, &batch_id]).await?;
    let mut loads: Vec<(Uuid, Vec<Cnpj>)> = Vec::new();
    for answer in &answers {
        let (load, cnpj) = (answer.try_get("batch_id")?, cnpj(answer, "cnpj")?);
        match loads.last_mut() {
            Some((last, cnpjs)) if *last == load => cnpjs.push(cnpj),
            _ => loads.push((load, vec![cnpj])),
        }
    }
    for (load, cnpjs) in &loads {
        let cnpjs: HashSet<&Cnpj> = cnpjs.iter().collect();
        let asked = rows.iter().filter(|row| cnpjs.contains(&row.key.cnpj)).map(|row| key(row));
        let mut asked: HashSet<i64> = asked.filter(|key| !withdrawn.contains(key)).collect();
        if asked.is_empty() {
            continue;
        }
        let keys: Vec<i64> = asked.iter().copied().collect();
        for answer in session.query(CONTAINED, &[load, &keys]).await? {
            asked.remove(&answer.try_get("key")?);
        }
        withdrawn.extend(asked);
    }
    Ok(withdrawn)
}

/// Returns the key hashes among `rows` for which the table keeps its content, because another chunk
/// confirmed that content (contained it too) in a later version than this chunk's. Each of the
/// `rows` has a later version than the table's row. Every row of the table also counts as confirmed
/// at `kept_since`, the start of the period for which batches are retained.
pub(super) async fn outranked(
    session: &mut Session<'_>,
    chunk: &Chunk,
    rows: &[&Differing<'_>],
    kept_since: Timestamp,
) -> Result<HashSet<i64>, DatabaseError> {
    // An item may be dated before the start of the history. Whether its row was confirmed between
    // that date and the start is no longer known.
    let (confirmed_before, mut candidates): (Vec<Candidate>, Vec<Candidate>) = rows
        .iter()
        .filter_map(|differing| Candidate::of(differing))
        .partition(|candidate| candidate.confirmed_at(kept_since) > candidate.effective_at);
    let mut outranked: HashSet<i64> = confirmed_before.iter().map(|candidate| candidate.key).collect();
    let Some(since) = candidates.iter().map(|candidate| candidate.effective_at).min() else {
        return Ok(outranked);
    };
    let since = since.max(kept_since);
    let batch_id = chunk.batch.batch_id();
    let answers = session.query(SINCE, &[&texts(&chunk.cnpjs()), &since, &batch_id]).await?;
    let batches = answers
        .iter()
        .map(|answer| Ok((answer.try_get("batch_id")?, answer.try_get("received_at")?)))
        .collect::<Result<Vec<(Uuid, Timestamp)>, DatabaseError>>()?;
    let (mut rest, mut at_once) = (batches.as_slice(), 1);
    while !rest.is_empty() && !candidates.is_empty() {
        let (asked, older) = rest.split_at(at_once.min(rest.len()));
        let confirmed = confirmed(session, chunk, &candidates, asked).await?;
        candidates.retain(|candidate| !confirmed.contains(&candidate.key));
        outranked.extend(confirmed);
        rest = older;
        at_once = MOST_AT_ONCE.min(at_once * 2);
    }
    Ok(outranked)
}

/// Returns the key hashes of those candidates whose content in the table one of the batches
/// confirmed (contained it too), in a later version than the chunk's.
async fn confirmed(
    session: &mut Session<'_>,
    chunk: &Chunk,
    candidates: &[Candidate],
    batches: &[(Uuid, Timestamp)],
) -> Result<HashSet<i64>, DatabaseError> {
    let (received_at, batch_id) = (chunk.batch.received_at(), chunk.batch.batch_id());
    let index = i32::try_from(chunk.index)?;
    let ids: Vec<Uuid> = batches.iter().map(|(batch, _)| *batch).collect();
    let keys: Vec<i64> = candidates.iter().map(|candidate| candidate.key).collect();
    let earlier_chunks =
        candidates.iter().any(|candidate| candidate.confirmed_at(received_at) > candidate.effective_at);
    let answers = session.query(CONFIRMATIONS, &[&ids, &keys, &batch_id, &index, &earlier_chunks]).await?;
    let received: HashMap<Uuid, Timestamp> = batches.iter().copied().collect();
    let by_key: HashMap<i64, &Candidate> =
        candidates.iter().map(|candidate| (candidate.key, candidate)).collect();
    let mut confirmed = HashSet::new();
    for answer in &answers {
        let (by, place): (Uuid, i32) = (answer.try_get("batch_id")?, answer.try_get("chunk_index")?);
        let (key, content): (i64, &[u8]) = (answer.try_get("key")?, answer.try_get("content")?);
        let (Some(candidate), Some(received)) = (by_key.get(&key), received.get(&by)) else { continue };
        // Within a batch, the chunks that have a key follow the order of the key's items.
        let confirmation = (candidate.confirmed_at(*received), *received, by, place);
        let version = (candidate.effective_at, received_at, batch_id, index);
        if candidate.content == content && confirmation > version {
            confirmed.insert(key);
        }
    }
    Ok(confirmed)
}

/// Row of a chunk that would change the table, unless a later version in another chunk confirms the
/// table's content by containing it too.
struct Candidate {
    key: i64,
    content: [u8; 5],
    effective_at: Timestamp,
    source_updated_at: Option<Timestamp>,
}

impl Candidate {
    /// Creates the candidate; `None` if the product is new, or if the source dates the table's
    /// content before this item, so that every confirmation counts as earlier than this item.
    fn of(differing: &Differing<'_>) -> Option<Self> {
        let Existing { row_hash, source_updated_at, .. } = differing.existing.as_ref()?;
        let effective_at = differing.row.version.effective_at();
        source_updated_at.is_none_or(|updated| updated >= effective_at).then(|| Self {
            key: key(differing.row),
            content: first_five(row_hash.0),
            effective_at,
            source_updated_at: *source_updated_at,
        })
    }

    /// Returns the time at which a confirmation of the table's content takes effect, for a batch
    /// that was received at `received_at`: the source's date of the content or `received_at`,
    /// whichever is earlier.
    fn confirmed_at(&self, received_at: Timestamp) -> Timestamp {
        self.source_updated_at.map_or(received_at, |updated| updated.min(received_at))
    }
}

/// Returns the first eight bytes of the hash of a row's key, by which the stored chunks identify
/// the product.
pub(super) fn key(row: &Row) -> i64 {
    first_eight(row.key_hash.0)
}
