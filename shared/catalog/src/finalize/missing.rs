//! What a full load did not contain.

use ingestion::Cnpj;
use ingestion::batch::DeactivationGuard;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::batch::LockedBatch;
use crate::connection::Session;
use crate::error::DatabaseError;
use crate::place::Place;
use crate::rows::{count, texts};

/// Chunks of later batches that one slice looks through at most: about as many thousand products. What came so late is not
/// decided.
const MOST_LATER_CHUNKS: i64 = 8192;
/// Rows that one transaction deactivates at most.
const MOST_AT_ONCE: u16 = 50_000;

/// Chunks of batches received later that may contain products of these establishments: those between whose first and last
/// establishment one of these lies.
const LATER_CHUNKS: &str = "SELECT c.chunk_id FROM (SELECT DISTINCT batch_id FROM batch_cnpjs \
         WHERE cnpj = ANY($1::bpchar[]) AND (received_at, batch_id) > ($2, $3)) b \
     JOIN batch_chunks c USING (batch_id) WHERE c.key_hashes IS NOT NULL \
     AND c.first_cnpj <= $5::bpchar AND (c.last_cnpj IS NULL OR c.last_cnpj >= $4::bpchar) LIMIT $6";
/// The two sides are joined as a whole, or sorted, and never one row against all of the other side.
const NO_LOOPS: &str = "SET LOCAL enable_nestloop = off";
/// Of each establishment the active products in all, how many of them neither the batch nor a later chunk contained, and the
/// places of as many of these as are deactivated at once.
const MISSING: &str = "WITH own AS (\
         SELECT DISTINCT h.key FROM batch_chunks c CROSS JOIN LATERAL unnest(c.key_hashes) AS h (key) \
         WHERE c.batch_id = $1 AND c.first_cnpj <= $5::bpchar AND (c.last_cnpj IS NULL OR c.last_cnpj >= $4::bpchar) \
         UNION SELECT key_hash FROM batch_item_errors WHERE batch_id = $1 AND key_hash IS NOT NULL), \
     found AS MATERIALIZED (SELECT p.cnpj, p.ctid AS place, p.key_hash, own.key IS NULL AS is_lacking \
         FROM products p LEFT JOIN own ON own.key = p.key_hash \
         WHERE p.cnpj = ANY($2::bpchar[]) AND p.active), \
     later AS (SELECT DISTINCT lacking.key_hash AS key FROM (SELECT key_hash FROM found WHERE is_lacking) lacking \
         JOIN (SELECT h.key FROM batch_chunks c CROSS JOIN LATERAL unnest(c.key_hashes) AS h (key) \
             WHERE c.chunk_id = ANY($3)) h ON h.key = lacking.key_hash) \
     SELECT found.cnpj, count(*) AS active, \
         count(*) FILTER (WHERE is_lacking AND later.key IS NULL) AS lacking, \
         (array_agg(place) FILTER (WHERE is_lacking AND later.key IS NULL))[1:$6] AS places \
     FROM found LEFT JOIN later ON later.key = found.key_hash GROUP BY found.cnpj";

/// The active products of some establishments that a batch lacks.
pub(super) struct Missing(Vec<OfCnpj>);

struct OfCnpj {
    active: u64,
    lacking: u64,
    /// Of all of them, or of as many as are deactivated at once.
    places: Vec<Place>,
}

impl Missing {
    /// Looks for them. `None` if more has come since than can be looked through, or some of it may be deleted by now.
    pub(super) async fn of(
        session: &mut Session<'_>,
        batch: &LockedBatch,
        cnpjs: &[Cnpj],
    ) -> Result<Option<Self>, DatabaseError> {
        let (Some(first), Some(last)) = (cnpjs.first(), cnpjs.last()) else {
            return Ok(Some(Self(Vec::new())));
        };
        if batch.is_too_old {
            return Ok(None);
        }
        let (texts, first, last) = (texts(cnpjs), first.as_str(), last.as_str());
        let (received_at, limit) = (batch.received_at, MOST_LATER_CHUNKS + 1);
        let later = session
            .query(LATER_CHUNKS, &[&texts, &received_at, &batch.batch_id, &first, &last, &limit])
            .await?;
        if later.len() >= usize::try_from(limit)? {
            return Ok(None);
        }
        let later = later.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Uuid>, _>>()?;
        session.transaction.batch_execute(NO_LOOPS).await?;
        let rows = session
            .query(MISSING, &[&batch.batch_id, &texts, &later, &first, &last, &i32::from(MOST_AT_ONCE)])
            .await?;
        Ok(Some(Self(rows.iter().map(OfCnpj::of).collect::<Result<_, _>>()?)))
    }

    /// How many they are.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|of| of.lacking).sum()
    }

    /// Whether they are too many for the guard in one of the establishments.
    pub(super) fn is_held_by(&self, guard: DeactivationGuard) -> bool {
        self.0.iter().any(|of| guard.holds(of.active, of.lacking))
    }

    /// Where they are, as many as are deactivated at once.
    pub(super) fn places(&self) -> Vec<Place> {
        self.0.iter().flat_map(|of| &of.places).copied().take(MOST_AT_ONCE.into()).collect()
    }
}

impl OfCnpj {
    fn of(row: &Row) -> Result<Self, DatabaseError> {
        let places: Option<Vec<Place>> = row.try_get("places")?;
        Ok(Self {
            active: count(row, "active")?,
            lacking: count(row, "lacking")?,
            places: places.unwrap_or_default(),
        })
    }
}
