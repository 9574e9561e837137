//! Products of a full load's establishments that have to become inactive.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use ingestion::Cnpj;
use ingestion::batch::DeactivationGuard;

use super::Load;
use super::keys::LoadKeys;
use super::later::LaterChunks;
use crate::connection::Session;
use crate::error::DatabaseError;
use crate::row_location::RowLocation;
use crate::rows::texts;

/// Maximum number of product rows that one transaction makes inactive.
const MOST_AT_ONCE: usize = 50_000;

/// Query for the active products of some establishments, each with the position of its
/// establishment among them. `OFFSET 0` prevents the planner from merging the inner query, so that
/// it makes one pass over the index for each establishment.
const ACTIVE: &str = "SELECT c.place - 1 AS establishment, p.key_hash, p.ctid \
     FROM unnest($1::bpchar[]) WITH ORDINALITY AS c (cnpj, place) CROSS JOIN LATERAL ( \
         SELECT p.key_hash, p.ctid FROM products p WHERE p.cnpj = c.cnpj AND p.active OFFSET 0) p";

/// Active products that a full load does not contain, in some of the load's establishments.
pub(super) struct Lacking {
    pub(super) products: Vec<Product>,
    /// Number of all active products of each establishment, in the order of the establishments.
    active: Vec<u64>,
}

pub(super) struct Product {
    pub(super) key: i64,
    establishment: usize,
    location: RowLocation,
}

/// Finds the active products of the establishments `cnpjs` that a load does not contain, whether or
/// not a later batch contained them.
pub(super) async fn lacking(
    session: &mut Session<'_>,
    load_keys: &LoadKeys,
    cnpjs: &[Cnpj],
) -> Result<Lacking, DatabaseError> {
    let (mut products, mut active) = (Vec::new(), vec![0; cnpjs.len()]);
    if cnpjs.is_empty() {
        return Ok(Lacking { products, active });
    }
    let mut rows = pin!(session.stream(ACTIVE, &[&texts(cnpjs)]).await?);
    while let Some(row) = rows.try_next().await? {
        let establishment = usize::try_from(row.try_get::<_, i64>("establishment")?)?;
        *of_establishment(&mut active, establishment)? += 1;
        let key = row.try_get("key_hash")?;
        if !load_keys.contains(key) {
            products.push(Product { key, establishment, location: row.try_get("ctid")? });
        }
    }
    Ok(Lacking { products, active })
}

/// Active products that neither a full load nor a later batch contained, in some of the load's
/// establishments.
pub(super) struct Missing {
    /// Number of active products and number of missing products, for each establishment.
    counts: Vec<(u64, u64)>,
    locations: Vec<RowLocation>,
}

impl Missing {
    /// Finds the active products of these establishments that neither the load nor a later batch
    /// contained; `None` if the later batches have too many chunks to search.
    pub(super) async fn of(
        session: &mut Session<'_>,
        load: &Load,
        load_keys: &LoadKeys,
        later: &LaterChunks,
        cnpjs: &[Cnpj],
    ) -> Result<Option<Self>, DatabaseError> {
        let Lacking { mut products, active } = lacking(session, load_keys, cnpjs).await?;
        if !products.is_empty() {
            let keys: Vec<i64> = products.iter().map(|product| product.key).collect();
            let Some(contained) = later.contained(session, load, cnpjs, &keys).await? else {
                return Ok(None);
            };
            products.retain(|product| !contained.contains(&product.key));
        }
        let mut missing = vec![0; active.len()];
        for product in &products {
            *of_establishment(&mut missing, product.establishment)? += 1;
        }
        let locations = products.into_iter().map(|product| product.location).collect();
        Ok(Some(Self { counts: active.into_iter().zip(missing).collect(), locations }))
    }

    /// Returns the number of missing products in all establishments together.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|(_, missing)| missing).sum()
    }

    /// True if too many products are missing in one of the establishments for the guard against
    /// mass deactivation.
    pub(super) fn is_held_by(&self, guard: DeactivationGuard) -> bool {
        self.counts.iter().any(|(active, missing)| guard.holds(*active, *missing))
    }

    /// Returns the row locations of the missing products, at most [`MOST_AT_ONCE`].
    pub(super) fn locations(&self) -> &[RowLocation] {
        self.locations.get(..MOST_AT_ONCE).unwrap_or(&self.locations)
    }
}

fn of_establishment(counts: &mut [u64], establishment: usize) -> Result<&mut u64, DatabaseError> {
    counts.get_mut(establishment).ok_or(DatabaseError::Unreadable("the place of an establishment"))
}
