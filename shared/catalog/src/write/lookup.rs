//! Keys first: what the table already holds of a chunk. Rows that say the same are not even returned.

use ingestion::chunk::Row;
use ingestion::product::{BatchStamp, RowHash, Version};
use jiff::Timestamp;
use uuid::Uuid;

use super::place::Place;
use crate::connection::Session;
use crate::error::DatabaseError;

/// `OFFSET 0` keeps the inner query as it is: an index look-up for each key, in the order of the keys, whatever the planner thinks of the table's size.
const LOOKUP: &str = "SELECT i.place, p.ctid, p.row_hash, p.active, p.source_updated_at, p.last_received_at, \
         p.last_batch_id, p.last_item_index \
     FROM unnest($1::bpchar[], $2::integer[], $3::text[], $4::bytea[]) WITH ORDINALITY \
         AS i (cnpj, shopid, productid, row_hash, place) \
     LEFT JOIN LATERAL (SELECT p.ctid, p.row_hash, p.active, p.source_updated_at, p.last_received_at, p.last_batch_id, \
             p.last_item_index FROM products p \
         WHERE p.cnpj = i.cnpj AND p.shopid = i.shopid AND p.productid = i.productid OFFSET 0) p ON true \
     WHERE p.row_hash IS DISTINCT FROM i.row_hash OR NOT p.active";

/// A row of the chunk that the table does not hold as it is.
pub(super) struct Differing<'a> {
    pub(super) row: &'a Row,
    /// Absent where the product is new.
    pub(super) existing: Option<Existing>,
}

/// What the table holds of a product.
pub(super) struct Existing {
    /// For as long as its establishment is locked.
    pub(super) place: Place,
    pub(super) row_hash: RowHash,
    pub(super) active: bool,
    pub(super) source_updated_at: Option<Timestamp>,
    /// Of the item that wrote it.
    pub(super) version: Version,
}

/// The rows that differ from the table's, or whose product is inactive, in the order of their keys.
pub(super) async fn differing<'a>(
    session: &mut Session<'_>,
    rows: &[&'a Row],
) -> Result<Vec<Differing<'a>>, DatabaseError> {
    let cnpjs: Vec<&str> = rows.iter().map(|row| row.key.cnpj.as_str()).collect();
    let shops: Vec<i32> = rows.iter().map(|row| row.key.shop_id).collect();
    let products: Vec<&str> = rows.iter().map(|row| row.key.product_id.as_str()).collect();
    let hashes: Vec<&[u8]> = rows.iter().map(|row| row.row_hash.0.as_slice()).collect();
    let mut found = Vec::new();
    for answer in session.query(LOOKUP, &[&cnpjs, &shops, &products, &hashes]).await? {
        let place = usize::try_from(answer.try_get::<_, i64>("place")?)?;
        let row = place.checked_sub(1).and_then(|place| rows.get(place));
        let row = *row.ok_or(DatabaseError::Unreadable("a row's place"))?;
        found.push((place, Differing { row, existing: existing(&answer)? }));
    }
    found.sort_unstable_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, differing)| differing).collect())
}

fn existing(answer: &tokio_postgres::Row) -> Result<Option<Existing>, DatabaseError> {
    let Some(place) = answer.try_get::<_, Option<Place>>("ctid")? else { return Ok(None) };
    let hash: &[u8] = answer.try_get("row_hash")?;
    let source_updated_at = answer.try_get("source_updated_at")?;
    let received_at: Timestamp = answer.try_get("last_received_at")?;
    let batch_id: Uuid = answer.try_get("last_batch_id")?;
    let item_index = u64::try_from(answer.try_get::<_, i64>("last_item_index")?)?;
    Ok(Some(Existing {
        place,
        row_hash: RowHash(hash.try_into().map_err(|_| DatabaseError::Unreadable("a row's hash"))?),
        active: answer.try_get("active")?,
        source_updated_at,
        version: Version::new(source_updated_at, BatchStamp::new(received_at, batch_id), item_index),
    }))
}
