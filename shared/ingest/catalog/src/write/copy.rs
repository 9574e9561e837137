//! Rows in PostgreSQL's binary COPY format, encoded by hand. That takes half the time of
//! `tokio_postgres`'s own encoder. The encoding is most of this program's cost of a new chunk.
//!
//! PostgreSQL's manual describes the format ("COPY", "Binary Format"). The values are as the types'
//! `_send` functions write them.

use bytes::Bytes;
use futures_util::SinkExt as _;
use ingestion::chunk::Row;
use ingestion::product::{Attribute, AttributeWriter, Decimal, Price};
use jiff::Timestamp;

use super::columns::CopyTarget;
use super::numeric;
use crate::connection::Session;
use crate::error::DatabaseError;
use crate::hashes::first_eight;
use crate::row_location::RowLocation;

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const END: [u8; 2] = (-1_i16).to_be_bytes();
const NULL: [u8; 4] = (-1_i32).to_be_bytes();
/// Epoch of PostgreSQL's timestamps, 2000-01-01, in microseconds of Unix time.
const EPOCH: i64 = 946_684_800_000_000;
const JSONB_VERSION: u8 = 1;
/// Number of decimal places of a price and of its column.
const PRICE_PLACES: u8 = 4;

/// State in which a product row is written: active or inactive.
#[derive(Clone, Copy, Debug)]
pub(super) enum Presence {
    Active,
    /// Inactive since this time, because a later full load did not contain the product.
    Inactive(Timestamp),
}

/// Approximate number of bytes of COPY data that are sent in one piece.
const PIECE: usize = 64 * 1024;

/// Copies rows into a table with COPY; `push` encodes one row. The rows are sent in pieces, so that
/// the server processes one while the next is encoded.
pub(super) async fn copy<T>(
    session: &mut Session<'_>,
    target: &'static CopyTarget,
    rows: impl IntoIterator<Item = T>,
    push: impl Fn(&mut Rows, T) -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    let statement = session.prepared(&target.sql).await?;
    let sink = session.transaction.copy_in::<_, Bytes>(&statement).await?;
    let mut sink = std::pin::pin!(sink);
    let mut piece = Rows { bytes: SIGNATURE.to_vec(), columns: target.columns };
    for row in rows {
        push(&mut piece, row)?;
        if piece.bytes.len() >= PIECE {
            let full = std::mem::replace(&mut piece.bytes, Vec::with_capacity(PIECE + PIECE / 8));
            sink.send(full.into()).await?;
        }
    }
    piece.bytes.extend_from_slice(&END);
    sink.send(piece.bytes.into()).await?;
    sink.finish().await?;
    Ok(())
}

/// Rows encoded in PostgreSQL's binary COPY format.
pub(super) struct Rows {
    bytes: Vec<u8>,
    columns: i16,
}

impl Rows {
    /// Appends a complete new product row to the COPY data.
    pub(super) fn push(&mut self, row: &Row, presence: Presence) -> Result<(), DatabaseError> {
        self.bytes.extend_from_slice(&self.columns.to_be_bytes());
        self.value(row.key.cnpj.as_bytes());
        self.value(&row.key.shop_id.to_be_bytes());
        self.value(row.key.product_id.as_bytes());
        self.version(row, presence)?;
        self.value(&first_eight(row.key_hash.0).to_be_bytes());
        match presence {
            Presence::Active => self.null(),
            Presence::Inactive(since) => self.timestamp(since),
        }
        Ok(())
    }

    /// Appends a row for the staging table: the new version of the product row at `location`.
    pub(super) fn push_change(
        &mut self,
        location: RowLocation,
        row: &Row,
        presence: Presence,
    ) -> Result<(), DatabaseError> {
        self.bytes.extend_from_slice(&self.columns.to_be_bytes());
        self.value(&location.0);
        self.version(row, presence)
    }

    /// Appends the columns that each new version of a product row sets.
    fn version(&mut self, row: &Row, presence: Presence) -> Result<(), DatabaseError> {
        let attributes =
            row.attributes.decode().map_err(|_| DatabaseError::Unreadable("a product's attributes"))?;
        let item_index = i64::try_from(row.version.item_index())?;
        attributes.write(self);
        self.value(&row.row_hash.0);
        self.value(row.version.batch().batch_id().as_bytes());
        self.timestamp(row.version.batch().received_at());
        self.value(&item_index.to_be_bytes());
        self.value(&[u8::from(matches!(presence, Presence::Active))]);
        Ok(())
    }

    fn null(&mut self) {
        self.bytes.extend_from_slice(&NULL);
    }

    fn value(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(&length(value.len()));
        self.bytes.extend_from_slice(value);
    }

    fn timestamp(&mut self, time: Timestamp) {
        self.value(&(time.as_microsecond() - EPOCH).to_be_bytes());
    }

    fn numeric(&mut self, units: i128, places: u8) {
        self.sized(|out| numeric::encode(units, places, out));
    }

    /// Appends a value whose length is known only after it is written, with its length in front.
    fn sized(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        write(&mut self.bytes);
        let length = length(self.bytes.len() - at - 4);
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&length);
        }
    }
}

impl AttributeWriter for Rows {
    fn absent(&mut self, _: &'static Attribute) {
        self.null();
    }

    fn text(&mut self, _: &'static Attribute, text: &str) {
        self.value(text.as_bytes());
    }

    fn price(&mut self, _: &'static Attribute, price: Price) {
        self.numeric(price.ten_thousandths().into(), PRICE_PLACES);
    }

    fn decimal(&mut self, _: &'static Attribute, number: Decimal) {
        self.numeric(number.units(), number.places());
    }

    fn integer(&mut self, _: &'static Attribute, number: i32) {
        self.value(&number.to_be_bytes());
    }

    fn time(&mut self, _: &'static Attribute, time: Timestamp) {
        self.timestamp(time);
    }

    fn json(&mut self, _: &'static Attribute, json: &str) {
        self.sized(|out| {
            out.push(JSONB_VERSION);
            out.extend_from_slice(json.as_bytes());
        });
    }
}

/// Encodes the length of a value as COPY's format does, in four bytes. Chunks are far smaller than
/// the maximum.
fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes()
}
