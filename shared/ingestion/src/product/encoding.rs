//! Attributes as bytes: the form in which chunks carry them, and which the row hash is made over.
//!
//! A set of 32 bits says which attributes are present, in the order below; their values follow. One
//! content has one form. Since row hashes are stored with products, any change here makes every
//! product look changed once.

use std::borrow::Cow;

use bytes::Bytes;
use jiff::Timestamp;

use super::bytes::{Malformed, Reader, Writer};
use super::{Attributes, Decimal, Price, RowHash};

/// Attributes as bytes, which are read only where they are written to the database. Those of a
/// chunk share its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedAttributes(pub(crate) Bytes);

/// These bytes are no attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the encoded attributes are damaged")]
pub struct EncodingError;

impl From<Malformed> for EncodingError {
    fn from(_: Malformed) -> Self {
        Self
    }
}

impl EncodedAttributes {
    /// The hash of the content.
    #[must_use]
    pub fn row_hash(&self) -> RowHash {
        RowHash::of(&self.0)
    }

    /// Bytes that it occupies.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// The attributes again, whose texts are those of these bytes.
    ///
    /// # Errors
    /// Where these are not bytes that [`Attributes::encode`] made.
    pub fn decode(&self) -> Result<Attributes<'_>, EncodingError> {
        let mut values = Values::new(&self.0)?;
        let attributes = Attributes {
            title: values.text()?,
            description: values.text()?,
            ean: values.text()?,
            brand: values.text()?,
            ncm: values.text()?,
            category: values.text()?,
            image_link: values.text()?,
            color: values.text()?,
            price: values.price()?,
            price_promo: values.price()?,
            wholesale_price: values.price()?,
            quantity: values.decimal()?,
            size: values.decimal()?,
            measure: values.decimal()?,
            wholesale_min: values.decimal()?,
            indice: values.next(Reader::i32)?,
            source_created_at: values.time()?,
            source_updated_at: values.time()?,
            extra: values.text()?,
        };
        values.end()?;
        Ok(attributes)
    }
}

impl Attributes<'_> {
    /// The attributes as bytes.
    #[must_use]
    pub fn encode(&self) -> EncodedAttributes {
        self.encode_in(&mut Writer::default())
    }

    /// The same in the free part of `memory`, so that many items' are allocated at once.
    pub(crate) fn encode_in(&self, memory: &mut Writer) -> EncodedAttributes {
        let mut sheet = Sheet::on(memory);
        for text in [
            &self.title,
            &self.description,
            &self.ean,
            &self.brand,
            &self.ncm,
            &self.category,
            &self.image_link,
            &self.color,
        ] {
            sheet.text(text.as_deref());
        }
        for price in [self.price, self.price_promo, self.wholesale_price] {
            sheet.value(price, |out, price| out.raw(&price.ten_thousandths().to_le_bytes()));
        }
        for number in [self.quantity, self.size, self.measure, self.wholesale_min] {
            sheet.value(number, |out, number: Decimal| {
                out.raw(&number.units().to_le_bytes());
                out.raw(&[number.places()]);
            });
        }
        sheet.value(self.indice, |out, indice| out.raw(&indice.to_le_bytes()));
        for time in [self.source_created_at, self.source_updated_at] {
            sheet.value(time, |out, time| out.raw(&time.as_microsecond().to_le_bytes()));
        }
        sheet.text(self.extra.as_deref());
        sheet.finish()
    }
}

/// Writes one attribute after the other.
struct Sheet<'a> {
    present: u32,
    bit: u32,
    out: &'a mut Writer,
}

impl<'a> Sheet<'a> {
    fn on(out: &'a mut Writer) -> Self {
        out.0.clear();
        out.raw(&[0; 4]);
        Self { present: 0, bit: 1, out }
    }

    fn value<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        if let Some(value) = value {
            self.present |= self.bit;
            write(self.out, value);
        }
        self.bit <<= 1;
    }

    fn text(&mut self, text: Option<&str>) {
        self.value(text, |out, text| out.sized(text.as_bytes()));
    }

    fn finish(self) -> EncodedAttributes {
        if let Some(present) = self.out.0.first_chunk_mut() {
            *present = self.present.to_le_bytes();
        }
        EncodedAttributes(self.out.0.split().freeze())
    }
}

/// Reads one attribute after the other.
struct Values<'a> {
    present: u32,
    rest: Reader<'a>,
}

impl<'a> Values<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Reader(bytes);
        Ok(Self { present: rest.u32()?, rest })
    }

    fn next<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        let here = self.present & 1 == 1;
        self.present >>= 1;
        if here { read(&mut self.rest).map(Some) } else { Ok(None) }
    }

    fn text(&mut self) -> Result<Option<Cow<'a, str>>, Malformed> {
        self.next(|rest| rest.text().map(Cow::Borrowed))
    }

    fn price(&mut self) -> Result<Option<Price>, Malformed> {
        self.next(|rest| Price::from_ten_thousandths(rest.i64()?).map_err(|_| Malformed))
    }

    fn decimal(&mut self) -> Result<Option<Decimal>, Malformed> {
        self.next(|rest| {
            let units = rest.array().map(i128::from_le_bytes)?;
            let [places] = rest.array()?;
            Decimal::new(units, places).ok_or(Malformed)
        })
    }

    fn time(&mut self) -> Result<Option<Timestamp>, Malformed> {
        self.next(|rest| Timestamp::from_microsecond(rest.i64()?).map_err(|_| Malformed))
    }

    fn end(self) -> Result<(), Malformed> {
        if self.present == 0 { self.rest.end() } else { Err(Malformed) }
    }
}
