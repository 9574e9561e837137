//! Rows in PostgreSQL's binary COPY format, encoded by hand: half the time of the general way, and
//! most of what a fresh chunk costs here.
//!
//! Binary COPY of PostgreSQL's manual ("COPY", "Binary Format"); the types are as their `_send`
//! functions write them.

use bytes::Bytes;
use futures_util::SinkExt as _;
use ingestion::chunk::Row;
use ingestion::product::{Attributes, Decimal};
use jiff::Timestamp;

use super::numeric;
use crate::connection::Session;
use crate::error::DatabaseError;
use crate::hashes::first_eight;
use crate::place::Place;

/// The columns of a new row, in the order of [`Rows::push`].
macro_rules! columns {
    () => {
        "cnpj, shopid, productid, title, description, ean, brand, ncm, category, imagelink, color, price, pricepromo, \
         wholesaleprice, quantity, size, measure, wholesalemin, indice, source_created_at, source_updated_at, extra, \
         row_hash, last_batch_id, last_received_at, last_item_index, active, key_hash, deactivated_at"
    };
}
pub(super) use columns;

/// The columns that another version of a row brings, in the order of [`Rows::push_change`] behind
/// the row's place.
macro_rules! changing {
    () => {
        "title, description, ean, brand, ncm, category, imagelink, color, price, pricepromo, \
         wholesaleprice, quantity, size, measure, wholesalemin, indice, source_created_at, source_updated_at, extra, \
         row_hash, last_batch_id, last_received_at, last_item_index, active"
    };
}
pub(super) use changing;

const COLUMNS: i16 = 29;
/// The place among them.
const CHANGING: i16 = 25;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const END: [u8; 2] = (-1_i16).to_be_bytes();
/// 2000-01-01, from which PostgreSQL counts its microseconds, as Unix counts them.
const EPOCH: i64 = 946_684_800_000_000;
const JSONB_VERSION: u8 = 1;

/// Whether the row is written as active.
#[derive(Debug, Clone, Copy)]
pub(super) enum Presence {
    Active,
    /// Inactive since then: a later full load did not contain the product.
    Inactive(Timestamp),
}

/// About how many bytes are sent at once.
const PIECE: usize = 64 * 1024;

/// Copies rows by this statement, in pieces, so that the server works on one while the next is
/// made.
pub(super) async fn copy<T>(
    session: &mut Session<'_>,
    sql: &'static str,
    rows: impl IntoIterator<Item = T>,
    push: impl Fn(&mut Rows, T) -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    let statement = session.prepared(sql).await?;
    let sink = session.transaction.copy_in::<_, Bytes>(&statement).await?;
    let mut sink = std::pin::pin!(sink);
    let mut piece = Rows(SIGNATURE.to_vec());
    for row in rows {
        push(&mut piece, row)?;
        if piece.0.len() >= PIECE {
            let full = std::mem::replace(&mut piece.0, Vec::with_capacity(PIECE + PIECE / 8));
            sink.send(full.into()).await?;
        }
    }
    piece.0.extend_from_slice(&END);
    sink.send(piece.0.into()).await?;
    sink.finish().await?;
    Ok(())
}

/// Rows as COPY takes them.
pub(super) struct Rows(Vec<u8>);

impl Rows {
    /// A new row.
    pub(super) fn push(&mut self, row: &Row, presence: Presence) -> Result<(), DatabaseError> {
        self.0.extend_from_slice(&COLUMNS.to_be_bytes());
        self.value(row.key.cnpj.as_bytes());
        self.value(&row.key.shop_id.to_be_bytes());
        self.value(row.key.product_id.as_bytes());
        self.version(row, presence)?;
        self.value(&first_eight(row.key_hash.0).to_be_bytes());
        self.time(match presence {
            Presence::Active => None,
            Presence::Inactive(since) => Some(since),
        });
        Ok(())
    }

    /// The new version of the row at that place.
    pub(super) fn push_change(
        &mut self,
        place: Place,
        row: &Row,
        presence: Presence,
    ) -> Result<(), DatabaseError> {
        self.0.extend_from_slice(&CHANGING.to_be_bytes());
        self.value(&place.0);
        self.version(row, presence)
    }

    /// The columns that every version of a product brings.
    fn version(&mut self, row: &Row, presence: Presence) -> Result<(), DatabaseError> {
        let attributes =
            row.attributes.decode().map_err(|_| DatabaseError::Unreadable("a product's attributes"))?;
        let item_index = i64::try_from(row.version.item_index())?;
        self.attributes(&attributes);
        self.value(&row.row_hash.0);
        self.value(row.version.batch().batch_id().as_bytes());
        self.time(Some(row.version.batch().received_at()));
        self.value(&item_index.to_be_bytes());
        self.value(&[u8::from(matches!(presence, Presence::Active))]);
        Ok(())
    }

    fn attributes(&mut self, product: &Attributes<'_>) {
        for text in [
            &product.title,
            &product.description,
            &product.ean,
            &product.brand,
            &product.ncm,
            &product.category,
            &product.image_link,
            &product.color,
        ] {
            self.optional(text.as_deref().map(str::as_bytes));
        }
        for price in [product.price, product.price_promo, product.wholesale_price] {
            self.number(price.and_then(|price| Decimal::new(price.ten_thousandths().into(), 4)));
        }
        for number in [product.quantity, product.size, product.measure, product.wholesale_min] {
            self.number(number);
        }
        self.optional(product.indice.map(i32::to_be_bytes).as_ref().map(<[u8; 4]>::as_slice));
        self.time(product.source_created_at);
        self.time(product.source_updated_at);
        match &product.extra {
            None => self.optional(None),
            Some(json) => {
                self.sized(|out| {
                    out.push(JSONB_VERSION);
                    out.extend_from_slice(json.as_bytes());
                });
            }
        }
    }

    fn number(&mut self, number: Option<Decimal>) {
        match number {
            None => self.optional(None),
            Some(number) => self.sized(|out| numeric::encode(number, out)),
        }
    }

    fn time(&mut self, time: Option<Timestamp>) {
        let bytes = time.map(|time| (time.as_microsecond() - EPOCH).to_be_bytes());
        self.optional(bytes.as_ref().map(<[u8; 8]>::as_slice));
    }

    fn optional(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.0.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(value) => self.value(value),
        }
    }

    fn value(&mut self, value: &[u8]) {
        self.0.extend_from_slice(&length(value.len()));
        self.0.extend_from_slice(value);
    }

    /// A value whose length is known only after it is written.
    fn sized(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        write(&mut self.0);
        let length = length(self.0.len() - at - 4);
        if let Some(place) = self.0.get_mut(at..at + 4) {
            place.copy_from_slice(&length);
        }
    }
}

/// Chunks are far smaller than a length can be.
fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes()
}
