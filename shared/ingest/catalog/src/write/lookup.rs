//! Look-up of the rows that the table already has for the products of a chunk.
//!
//! The chunker cuts a catalogue into chunks in the order of the keys, at least within the products
//! that it sorts at once. So the rows of a chunk are neighbours in the table, or have few other
//! rows between them. Reading a row in a scan of the range between the first and the last of them
//! costs a fifth of a lookup by key. If there are many other rows in the range, the scan ends
//! early, and each key is looked up.

use std::collections::HashMap;

use ingestion::chunk::Row;
use ingestion::product::{BatchStamp, RowHash, Version};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::connection::Session;
use crate::error::DatabaseError;
use crate::row_location::RowLocation;

/// Query for all products in each range of keys, in the order of the index. If it returns `$5`
/// rows, the ranges contain too many rows for a scan.
pub(super) const RANGES: &str = "SELECT r.place, p.productid, p.ctid, p.row_hash, p.active \
     FROM unnest($1::bpchar[], $2::integer[], $3::text[], $4::text[]) WITH ORDINALITY AS r (cnpj, shopid, \
     low, high, place) \
     CROSS JOIN LATERAL (SELECT p.productid, p.ctid, p.row_hash, p.active FROM products p \
         WHERE p.cnpj = r.cnpj AND p.shopid = r.shopid AND p.productid BETWEEN r.low AND r.high \
         ORDER BY p.productid LIMIT $5) p LIMIT $5";
/// Query that looks up each key by the index. `OFFSET 0` prevents the planner from merging the
/// inner query, so that it makes an index lookup for each key in order, however large it thinks the
/// table is. Active rows with the content of the chunk's row are not returned.
const KEYS: &str = "SELECT i.place, p.ctid, p.row_hash, p.active \
     FROM unnest($1::bpchar[], $2::integer[], $3::text[], $4::bytea[]) WITH ORDINALITY \
         AS i (cnpj, shopid, productid, row_hash, place) \
     LEFT JOIN LATERAL (SELECT p.ctid, p.row_hash, p.active FROM products p \
         WHERE p.cnpj = i.cnpj AND p.shopid = i.shopid AND p.productid = i.productid OFFSET 0) p ON true \
     WHERE p.row_hash IS DISTINCT FROM i.row_hash OR NOT p.active";
const VERSIONS: &str = "SELECT ctid, source_updated_at, last_received_at, last_batch_id, last_item_index \
     FROM products WHERE ctid = ANY($1)";

/// Maximum number of table rows that a scan of ranges reads for each row of the chunk. With more,
/// lookups by key would cost less.
const READ_PER_ROW: usize = 4;

/// Row of a chunk that differs from the table's row, or whose product is new or inactive in the
/// table.
pub(super) struct Differing<'a> {
    pub(super) row: &'a Row,
    /// Existing row in the table; `None` if the product is new.
    pub(super) existing: Option<Existing>,
}

/// Row of a product as the table holds it.
pub(super) struct Existing {
    /// Location of the row in the table, valid while its establishment is locked.
    pub(super) location: RowLocation,
    pub(super) row_hash: RowHash,
    pub(super) active: bool,
    pub(super) source_updated_at: Option<Timestamp>,
    /// Version of the item that wrote the row.
    pub(super) version: Version,
}

/// Rows of a chunk in key order, grouped into ranges of keys. A range is one shop of an
/// establishment, from its first product in the chunk to its last.
pub(super) struct Ranges<'r, 'a> {
    rows: &'r [&'a Row],
    ranges: Vec<&'r [&'a Row]>,
    cnpjs: Vec<&'a str>,
    shops: Vec<i32>,
    lows: Vec<&'a str>,
    highs: Vec<&'a str>,
    /// Number of table rows in the ranges from which on a scan is too expensive.
    too_many: i64,
}

impl<'r, 'a> Ranges<'r, 'a> {
    pub(super) fn of(rows: &'r [&'a Row]) -> Result<Self, DatabaseError> {
        let of_one_shop = |left: &&Row, right: &&Row| {
            (left.key.cnpj, left.key.shop_id) == (right.key.cnpj, right.key.shop_id)
        };
        let ranges: Vec<_> = rows.chunk_by(of_one_shop).collect();
        let first = || ranges.iter().filter_map(|range| range.first());
        Ok(Self {
            rows,
            cnpjs: first().map(|row| row.key.cnpj.as_str()).collect(),
            shops: first().map(|row| row.key.shop_id).collect(),
            lows: first().map(|row| row.key.product_id.as_str()).collect(),
            highs: ranges
                .iter()
                .filter_map(|range| range.last())
                .map(|row| row.key.product_id.as_str())
                .collect(),
            too_many: i64::try_from(rows.len().saturating_mul(READ_PER_ROW) + 1)?,
            ranges,
        })
    }

    /// Returns the parameters of the statement [`RANGES`].
    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.cnpjs, &self.shops, &self.lows, &self.highs, &self.too_many]
    }

    /// Returns the rows that differ from the table's, given `answers`, the table's rows in the
    /// ranges; `None` if the table has too many rows there.
    fn differing(&self, answers: &[tokio_postgres::Row]) -> Result<Option<Vec<Lookup<'a>>>, DatabaseError> {
        if i64::try_from(answers.len())? >= self.too_many {
            return Ok(None);
        }
        let mut stored: Vec<Vec<Option<StoredRow>>> =
            self.ranges.iter().map(|range| range.iter().map(|_| None).collect()).collect();
        for answer in answers {
            let range = usize::try_from(answer.try_get::<_, i64>("place")?)?.checked_sub(1);
            let range = range.and_then(|place| Some((self.ranges.get(place)?, stored.get_mut(place)?)));
            let (rows, stored) = range.ok_or(DatabaseError::Unreadable("a range's place"))?;
            let product: &str = answer.try_get("productid")?;
            if let Ok(place) = rows.binary_search_by(|row| row.key.product_id.as_str().cmp(product))
                && let Some(stored) = stored.get_mut(place)
            {
                *stored = Some(StoredRow::of(answer)?);
            }
        }
        let all = self.rows.iter().copied().zip(stored.into_iter().flatten());
        let differs =
            |(row, stored): &Lookup<'_>| stored.as_ref().is_none_or(|stored| stored.differs_from(row));
        Ok(Some(all.filter(differs).collect()))
    }
}

/// Returns how many rows of a chunk, from the first on, are looked up as a sample: an eighth. The
/// sample shows at little cost whether a scan of the rows' ranges reads few other rows of the
/// table. If scans did so for the previous chunk, the caller looks up all rows at once instead.
pub(super) const fn probe(rows: usize) -> usize {
    rows.div_ceil(8)
}

/// Returns the rows that differ from the table's or whose product is inactive, in key order.
/// `first` are the ranges of the first rows with the result of [`RANGES`], if they were queried
/// already.
pub(super) async fn differing<'a>(
    session: &mut Session<'_>,
    rows: &[&'a Row],
    first: Option<(&Ranges<'_, 'a>, &[tokio_postgres::Row])>,
) -> Result<Vec<Differing<'a>>, DatabaseError> {
    let (mut lookups, left, may_be_neighbours) = match first {
        None => (Vec::new(), rows, true),
        Some((first, answers)) => match first.differing(answers)? {
            Some(found) => (found, rows.get(first.rows.len()..).unwrap_or_default(), true),
            None => (Vec::new(), rows, false),
        },
    };
    let passed = if may_be_neighbours { by_pass(session, left).await? } else { None };
    *session.were_neighbours = passed.is_some();
    lookups.extend(match passed {
        Some(found) => found,
        None => by_key(session, left).await?,
    });
    let locations: Vec<RowLocation> =
        lookups.iter().filter_map(|(_, stored)| Some(stored.as_ref()?.location)).collect();
    let mut versions = versions(session, &locations).await?;
    let differing = lookups.into_iter().map(|(row, stored)| {
        let existing = stored.map(|StoredRow { location, row_hash, active }| {
            let (source_updated_at, version) = versions.remove(&location).ok_or(DatabaseError::Moved)?;
            Ok::<_, DatabaseError>(Existing { location, row_hash, active, source_updated_at, version })
        });
        Ok(Differing { row, existing: existing.transpose()? })
    });
    differing.collect()
}

/// Finds the rows that differ from the table's by a scan of their ranges; `None` if the ranges
/// contain too many other rows.
async fn by_pass<'a>(
    session: &mut Session<'_>,
    rows: &[&'a Row],
) -> Result<Option<Vec<Lookup<'a>>>, DatabaseError> {
    if rows.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let ranges = Ranges::of(rows)?;
    let answers = session.query(RANGES, &ranges.params()).await?;
    ranges.differing(&answers)
}

/// Pair of a chunk's row and the table's row of the same product, if there is one.
type Lookup<'a> = (&'a Row, Option<StoredRow>);

/// Columns of a table row that a lookup by range or by key returns.
struct StoredRow {
    location: RowLocation,
    row_hash: RowHash,
    active: bool,
}

impl StoredRow {
    fn of(answer: &tokio_postgres::Row) -> Result<Self, DatabaseError> {
        let hash: &[u8] = answer.try_get("row_hash")?;
        let row_hash = RowHash(hash.try_into().map_err(|_| DatabaseError::Unreadable("a row's hash"))?);
        Ok(Self { location: answer.try_get("ctid")?, row_hash, active: answer.try_get("active")? })
    }

    fn differs_from(&self, row: &Row) -> bool {
        self.row_hash != row.row_hash || !self.active
    }
}

/// Finds the rows that differ from the table's by an index lookup of each key.
async fn by_key<'a>(session: &mut Session<'_>, rows: &[&'a Row]) -> Result<Vec<Lookup<'a>>, DatabaseError> {
    let cnpjs: Vec<&str> = rows.iter().map(|row| row.key.cnpj.as_str()).collect();
    let shops: Vec<i32> = rows.iter().map(|row| row.key.shop_id).collect();
    let products: Vec<&str> = rows.iter().map(|row| row.key.product_id.as_str()).collect();
    let hashes: Vec<&[u8]> = rows.iter().map(|row| row.row_hash.0.as_slice()).collect();
    let mut stored = Vec::new();
    for answer in session.query(KEYS, &[&cnpjs, &shops, &products, &hashes]).await? {
        let place = usize::try_from(answer.try_get::<_, i64>("place")?)?;
        let row = place.checked_sub(1).and_then(|place| rows.get(place));
        let row = *row.ok_or(DatabaseError::Unreadable("a row's place"))?;
        let is_there = answer.try_get::<_, Option<RowLocation>>("ctid")?.is_some();
        stored.push((place, row, is_there.then(|| StoredRow::of(&answer)).transpose()?));
    }
    stored.sort_unstable_by_key(|(place, ..)| *place);
    Ok(stored.into_iter().map(|(_, row, stored)| (row, stored)).collect())
}

type Versions = HashMap<RowLocation, (Option<Timestamp>, Version)>;

/// Reads the versions of the table rows at these locations, with the source's date of each.
async fn versions(session: &mut Session<'_>, locations: &[RowLocation]) -> Result<Versions, DatabaseError> {
    let mut versions = HashMap::with_capacity(locations.len());
    if locations.is_empty() {
        return Ok(versions);
    }
    for answer in session.query(VERSIONS, &[&locations]).await? {
        let source_updated_at = answer.try_get("source_updated_at")?;
        let received_at: Timestamp = answer.try_get("last_received_at")?;
        let batch_id: Uuid = answer.try_get("last_batch_id")?;
        let item_index = u64::try_from(answer.try_get::<_, i64>("last_item_index")?)?;
        let version = Version::new(source_updated_at, BatchStamp::new(received_at, batch_id), item_index);
        versions.insert(answer.try_get("ctid")?, (source_updated_at, version));
    }
    Ok(versions)
}
