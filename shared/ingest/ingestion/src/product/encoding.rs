//! The encoding of attributes in chunk files.
//!
//! A set of 32 bits shows which attributes are present, each by its number; their values follow in
//! the order of the list. Chunks in transit outlive a deployment, so a change of this form is a new
//! version of the chunk's format.

use std::borrow::Cow;

use bytes::Bytes;
use jiff::Timestamp;

use super::attributes::{Attribute, AttributeReader, AttributeWriter};
use super::bytes::{Malformed, Reader, Writer};
use super::{Attributes, Decimal, Price};

/// Attributes of a product in encoded form, which are decoded only when they are written to the
/// database. The encoded attributes of several products share one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedAttributes(pub(crate) Bytes);

/// Error for bytes that are not encoded attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the encoded attributes are damaged")]
pub struct EncodingError;

impl From<Malformed> for EncodingError {
    fn from(_: Malformed) -> Self {
        Self
    }
}

impl EncodedAttributes {
    /// Returns the number of encoded bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Decodes the attributes. Texts are borrowed from the encoded bytes.
    ///
    /// # Errors
    /// If [`Attributes::encode`] did not make these bytes.
    pub fn decode(&self) -> Result<Attributes<'_>, EncodingError> {
        let mut values = Values::new(&self.0)?;
        let attributes = Attributes::read(&mut values)?;
        values.end()?;
        Ok(attributes)
    }
}

impl Attributes<'_> {
    /// Encodes the attributes as bytes for the chunk's file.
    #[must_use]
    pub fn encode(&self) -> EncodedAttributes {
        self.encode_in(&mut Writer::default())
    }

    /// Encodes the attributes in the free part of `memory`, so that one allocation serves many
    /// products.
    pub(crate) fn encode_in(&self, memory: &mut Writer) -> EncodedAttributes {
        memory.0.clear();
        memory.raw(&[0; 4]);
        let mut sheet = Sheet { present: 0, out: memory };
        self.write(&mut sheet);
        let present = sheet.present.to_le_bytes();
        if let Some(place) = memory.0.first_chunk_mut() {
            *place = present;
        }
        EncodedAttributes(memory.0.split().freeze())
    }
}

impl Attribute {
    /// Returns the attribute's bit in the set of present attributes. Attributes have the numbers 1
    /// to 32.
    const fn bit(&self) -> u32 {
        1 << (self.number - 1)
    }
}

/// Writer that encodes the attributes of one product.
struct Sheet<'a> {
    present: u32,
    out: &'a mut Writer,
}

impl Sheet<'_> {
    /// Marks an attribute as present, and returns the buffer for its value.
    const fn of(&mut self, attribute: &Attribute) -> &mut Writer {
        self.present |= attribute.bit();
        self.out
    }
}

impl AttributeWriter for Sheet<'_> {
    fn absent(&mut self, _: &'static Attribute) {}

    fn text(&mut self, attribute: &'static Attribute, text: &str) {
        self.of(attribute).sized(text.as_bytes());
    }

    fn price(&mut self, attribute: &'static Attribute, price: Price) {
        self.of(attribute).raw(&price.ten_thousandths().to_le_bytes());
    }

    fn decimal(&mut self, attribute: &'static Attribute, number: Decimal) {
        let out = self.of(attribute);
        out.raw(&number.units().to_le_bytes());
        out.raw(&[number.places()]);
    }

    fn integer(&mut self, attribute: &'static Attribute, number: i32) {
        self.of(attribute).raw(&number.to_le_bytes());
    }

    fn time(&mut self, attribute: &'static Attribute, time: Timestamp) {
        self.of(attribute).raw(&time.as_microsecond().to_le_bytes());
    }

    fn json(&mut self, attribute: &'static Attribute, json: &str) {
        self.text(attribute, json);
    }
}

/// Reader that decodes the attributes of one product.
struct Values<'a> {
    /// Bits of the present attributes that were not read yet.
    present: u32,
    rest: Reader<'a>,
}

impl<'a> Values<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Reader(bytes);
        Ok(Self { present: rest.u32()?, rest })
    }

    fn of<T>(
        &mut self,
        attribute: &Attribute,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        let is_present = self.present & attribute.bit() != 0;
        self.present &= !attribute.bit();
        if is_present { read(&mut self.rest).map(Some) } else { Ok(None) }
    }

    const fn end(self) -> Result<(), Malformed> {
        if self.present == 0 { self.rest.end() } else { Err(Malformed) }
    }
}

impl<'a> AttributeReader<'a> for Values<'a> {
    type Error = Malformed;

    fn text(&mut self, attribute: &'static Attribute) -> Result<Option<Cow<'a, str>>, Malformed> {
        self.of(attribute, |rest| rest.text().map(Cow::Borrowed))
    }

    fn price(&mut self, attribute: &'static Attribute) -> Result<Option<Price>, Malformed> {
        self.of(attribute, |rest| Price::from_ten_thousandths(rest.i64()?).map_err(|_| Malformed))
    }

    fn decimal(&mut self, attribute: &'static Attribute) -> Result<Option<Decimal>, Malformed> {
        self.of(attribute, |rest| {
            let units = rest.array().map(i128::from_le_bytes)?;
            let [places] = rest.array()?;
            Decimal::new(units, places).ok_or(Malformed)
        })
    }

    fn integer(&mut self, attribute: &'static Attribute) -> Result<Option<i32>, Malformed> {
        self.of(attribute, Reader::i32)
    }

    fn time(&mut self, attribute: &'static Attribute) -> Result<Option<Timestamp>, Malformed> {
        self.of(attribute, |rest| Timestamp::from_microsecond(rest.i64()?).map_err(|_| Malformed))
    }

    fn json(&mut self, attribute: &'static Attribute) -> Result<Option<Cow<'a, str>>, Malformed> {
        self.text(attribute)
    }
}
