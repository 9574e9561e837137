//! The canonical form of a product's content, and the row hash over it.
//!
//! The canonical form is independent of the form of chunk files. Row hashes are stored with
//! products, so a change of the canonical form makes every product look changed once. Equal content
//! has one form.
//!
//! - Each [`Group`] has a *section*: the number and the value of each of its attributes that is
//!   present, in the order of the numbers. A text has its length in front, a decimal its places.
//!   Lengths are varints; numbers are varints of their zigzag form, with a price in
//!   ten-thousandths. A time has eight bytes: microseconds since 1970, little-endian.
//! - A group's *fingerprint* is the section's length in one byte and the section, if that has fewer
//!   than 32 bytes; or else a zero and the first 16 bytes of the section's SHA-256.
//! - The row hash is the first 16 bytes of the SHA-256 over the groups whose section is not empty,
//!   in the order of their tags: each group's tag and fingerprint.
//!
//! So an attribute or a group that is added later changes only the hashes of products that have it.
//! If a row's fingerprints are stored, one group can be compared and replaced, and the row hash
//! calculated again, without the values of the other groups.
//!
//! One hash of all sections would cost one SHA-256 less for each item, but could not be calculated
//! again without the values of all groups. Short sections stand for themselves, since a SHA-256 of
//! them would cost more than it saves: stock takes some five bytes, and prices some twenty.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::attributes::{Attribute, AttributeWriter, Attributes, Group};
use super::hash::first_half;
use super::{Decimal, Price, RowHash};

/// Length in bytes from which on a section (the attributes of one group) enters the row hash as its
/// own hash instead of its bytes.
const HASHED_FROM: usize = 32;
/// Byte that stands in place of a section's length if the section's hash follows. It cannot be a
/// length, since empty sections are left out.
const HASHED: u8 = 0;

/// Calculator of row hashes, which reuses its memory from one product to the next.
#[derive(Debug, Default)]
pub struct RowHasher {
    sections: Sections,
    row: Vec<u8>,
}

impl RowHasher {
    /// Returns the hash of a product's content.
    #[must_use]
    pub fn hash(&mut self, attributes: &Attributes<'_>) -> RowHash {
        self.sections.fill(attributes);
        self.row.clear();
        for (group, section) in Group::ALL.into_iter().zip(&self.sections.0) {
            match u8::try_from(section.len()) {
                Ok(0) => {}
                Ok(length) if section.len() < HASHED_FROM => {
                    self.row.extend_from_slice(&[group.tag(), length]);
                    self.row.extend_from_slice(section);
                }
                _ => {
                    self.row.extend_from_slice(&[group.tag(), HASHED]);
                    self.row.extend_from_slice(&first_half(Sha256::digest(section)));
                }
            }
        }
        RowHash(first_half(Sha256::digest(&self.row)))
    }
}

impl Group {
    /// All groups of attributes, in the order of their tags.
    pub(super) const ALL: [Self; 4] = [Self::Catalogue, Self::Price, Self::Stock, Self::Item];

    /// Returns the number that identifies the group in row hashes. It never changes.
    const fn tag(self) -> u8 {
        match self {
            Self::Catalogue => 1,
            Self::Price => 2,
            Self::Stock => 3,
            Self::Item => 4,
        }
    }
}

/// Sections of a product's content: the encoded attributes of each group, in the order of
/// [`Group::ALL`].
#[derive(Debug, Default)]
pub(super) struct Sections(pub(super) [Vec<u8>; Group::ALL.len()]);

impl Sections {
    pub(super) fn fill(&mut self, attributes: &Attributes<'_>) {
        self.0.iter_mut().for_each(Vec::clear);
        attributes.write(self);
    }

    /// Appends an attribute's number to the section of its group, and returns this section, to
    /// which the caller appends the value.
    fn of(&mut self, attribute: &Attribute) -> &mut Vec<u8> {
        let [catalogue, price, stock, item] = &mut self.0;
        let section = match attribute.group {
            Group::Catalogue => catalogue,
            Group::Price => price,
            Group::Stock => stock,
            Group::Item => item,
        };
        section.push(attribute.number);
        section
    }
}

impl AttributeWriter for Sections {
    fn absent(&mut self, _: &'static Attribute) {}

    fn text(&mut self, attribute: &'static Attribute, value: &str) {
        text(self.of(attribute), value.as_bytes());
    }

    fn price(&mut self, attribute: &'static Attribute, price: Price) {
        number(self.of(attribute), price.ten_thousandths().into());
    }

    fn decimal(&mut self, attribute: &'static Attribute, value: Decimal) {
        let section = self.of(attribute);
        section.push(value.places());
        number(section, value.units());
    }

    fn integer(&mut self, attribute: &'static Attribute, value: i32) {
        number(self.of(attribute), value.into());
    }

    fn time(&mut self, attribute: &'static Attribute, time: Timestamp) {
        self.of(attribute).extend_from_slice(&time.as_microsecond().to_le_bytes());
    }

    fn json(&mut self, attribute: &'static Attribute, json: &str) {
        text(self.of(attribute), json.as_bytes());
    }
}

/// Appends the length of a text, and then the text.
fn text(section: &mut Vec<u8>, text: &[u8]) {
    varint(section, u64::try_from(text.len()).unwrap_or(u64::MAX));
    section.extend_from_slice(text);
}

/// Appends a number in zigzag encoding, in which numbers near zero are short whatever their sign.
fn number(section: &mut Vec<u8>, number: i128) {
    let mut rest = ((number << 1) ^ (number >> 127)).cast_unsigned();
    // Nearly all numbers fit into 64 bits at once.
    let short = loop {
        match u64::try_from(rest) {
            Ok(short) => break short,
            Err(_) => {
                section.push(low(rest) | MORE);
                rest >>= 7;
            }
        }
    };
    varint(section, short);
}

/// Appends a number as a varint: seven bits in each byte, the lowest first, with the highest bit
/// set in all bytes but the last.
fn varint(section: &mut Vec<u8>, mut rest: u64) {
    while rest >= MORE.into() {
        section.push(low(rest.into()) | MORE);
        rest >>= 7;
    }
    section.push(low(rest.into()));
}

/// Highest bit of a byte in a varint, which says that more bytes follow.
const MORE: u8 = 0x80;

fn low(number: u128) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low
}
