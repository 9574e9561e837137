//! Search for products that a full load lacks, but that batches received later contained. They stay
//! active.
//!
//! The chunks of the later batches are searched without locks, for many establishments at once. A
//! transaction that has locked a slice of the establishments then has to search only for chunks and
//! products that were added since.

use std::collections::HashSet;

use ingestion::Cnpj;
use uuid::Uuid;

use super::Load;
use super::keys::LoadKeys;
use super::missing::lacking;
use crate::connection::Session;
use crate::error::DatabaseError;
use crate::rows::texts;

/// Maximum number of chunks of later batches, with about a thousand products each, that one search
/// for some establishments reads. If there are more, the full load deactivates nothing in the
/// establishments.
const MOST_CHUNKS: usize = 8192;

/// Query for up to `$6` chunks of batches later than the load `$3` (received at `$2`) that may
/// contain products of the establishments `$1`, by the first and last establishment of each chunk.
/// Batches of other tenants than `$7` whose items were refused are left out, since the load's
/// tenant has no influence on their number.
const CHUNKS: &str = "SELECT c.chunk_id FROM (SELECT DISTINCT l.batch_id FROM batch_cnpjs l \
         WHERE l.cnpj = ANY($1::bpchar[]) AND (l.received_at, l.batch_id) > ($2, $3) AND (NOT l.refused \
             OR EXISTS (SELECT FROM batches o WHERE o.batch_id = l.batch_id AND o.tenant_id = $7))) b \
     JOIN batch_chunks c USING (batch_id) WHERE c.key_hashes IS NOT NULL \
     AND c.first_cnpj <= $5::bpchar AND (c.last_cnpj IS NULL OR c.last_cnpj >= $4::bpchar) LIMIT $6";
/// Query for those of the key hashes `$2` that the chunks `$1` contained. `IS TRUE` makes the
/// planner use a hash table of keys and one pass over the chunks; a join might become a nested loop
/// over keys and chunks.
const CONTAINED: &str = "SELECT DISTINCT h.key FROM batch_chunks c CROSS JOIN LATERAL unnest(c.key_hashes) AS h (key) \
     WHERE c.chunk_id = ANY($1) AND (h.key IN (SELECT unnest($2::bigint[]))) IS TRUE";

/// Result of a search for product keys in chunks of later batches (received after the full load).
#[derive(Default)]
pub(super) struct LaterChunks {
    chunks: HashSet<Uuid>,
    /// Hashes of the product keys that were searched for in `chunks`. Those that a chunk contained
    /// are in `found`.
    asked: HashSet<i64>,
    found: HashSet<i64>,
}

impl LaterChunks {
    /// Searches chunks of later batches for the products that the load lacks in the establishments
    /// `cnpjs`, which must be in ascending order. If the later batches have too many chunks with
    /// products of these establishments, nothing is searched.
    pub(super) async fn ahead(
        session: &mut Session<'_>,
        load: &Load,
        load_keys: &LoadKeys,
        cnpjs: &[Cnpj],
    ) -> Result<Self, DatabaseError> {
        let chunks = chunks(session, load, cnpjs).await?.unwrap_or_default();
        if chunks.is_empty() {
            return Ok(Self::default());
        }
        let products = lacking(session, load_keys, cnpjs).await?.products;
        let keys: Vec<i64> = products.iter().map(|product| product.key).collect();
        let found = contained(session, &chunks, &keys).await?;
        Ok(Self { chunks: chunks.into_iter().collect(), asked: keys.into_iter().collect(), found })
    }

    /// Returns those of the key hashes `keys`, of products of the establishments `cnpjs`, that a
    /// later batch contained; `None` if there are more than [`MOST_CHUNKS`] chunks to search.
    /// Searches that [`ahead`](Self::ahead) made are not repeated.
    pub(super) async fn contained(
        &self,
        session: &mut Session<'_>,
        load: &Load,
        cnpjs: &[Cnpj],
        keys: &[i64],
    ) -> Result<Option<HashSet<i64>>, DatabaseError> {
        let Some(chunks) = chunks(session, load, cnpjs).await? else { return Ok(None) };
        let (known, new): (Vec<Uuid>, Vec<Uuid>) =
            chunks.into_iter().partition(|chunk| self.chunks.contains(chunk));
        let (asked, unasked): (Vec<i64>, Vec<i64>) = keys.iter().partition(|key| self.asked.contains(key));
        let mut found: HashSet<i64> = asked.into_iter().filter(|key| self.found.contains(key)).collect();
        found.extend(contained(session, &new, keys).await?);
        found.extend(contained(session, &known, &unasked).await?);
        Ok(Some(found))
    }
}

async fn chunks(
    session: &mut Session<'_>,
    load: &Load,
    cnpjs: &[Cnpj],
) -> Result<Option<Vec<Uuid>>, DatabaseError> {
    let (Some(first), Some(last)) = (cnpjs.first(), cnpjs.last()) else { return Ok(Some(Vec::new())) };
    let (first, last, limit) = (first.as_str(), last.as_str(), i64::try_from(MOST_CHUNKS + 1)?);
    let Load { batch_id, tenant_id, received_at, .. } = load;
    let rows = session
        .query(CHUNKS, &[&texts(cnpjs), received_at, batch_id, &first, &last, &limit, tenant_id])
        .await?;
    if rows.len() > MOST_CHUNKS {
        return Ok(None);
    }
    let chunks = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    Ok(Some(chunks))
}

/// Returns those of the key hashes that one of the chunks contained.
async fn contained(
    session: &mut Session<'_>,
    chunks: &[Uuid],
    keys: &[i64],
) -> Result<HashSet<i64>, DatabaseError> {
    if chunks.is_empty() || keys.is_empty() {
        return Ok(HashSet::new());
    }
    let rows = session.query(CONTAINED, &[&chunks, &keys]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
