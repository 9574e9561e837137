//! A product: its key, its typed attributes, and the version that decides which item wins.

pub(crate) mod bytes;
mod date;
mod decimal;
mod encoding;
mod error;
mod extra;
mod field;
mod hash;
mod item;
mod members;
mod partial;
mod scalar;
mod scan;
mod version;

use std::borrow::Cow;

use jiff::Timestamp;

use crate::Cnpj;

pub use decimal::{Decimal, DecimalError, Price};
pub use encoding::{EncodedAttributes, EncodingError};
pub use error::{ItemError, ItemErrorCode, PartialKey};
pub use hash::{KeyHash, RowHash};
pub use item::{CnpjAccess, ItemPlace, ItemRules, MAX_PRODUCT_ID};
pub use partial::{MemberSet, PartialItems};
pub use version::{BatchStamp, Version};

pub(crate) use date::to_microseconds;

/// What identifies a product: the primary key of its row, ordered as rows are written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProductKey {
    pub cnpj: Cnpj,
    pub shop_id: i32,
    /// As text: `25901` and `"25901"` are the same.
    pub product_id: String,
}

/// One valid item. Texts without escapes are those of the item's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product<'a> {
    pub key: ProductKey,
    pub attributes: Attributes<'a>,
    /// The members that the item has, whatever their values.
    pub members: MemberSet,
}

/// What an item says of its product beside the key. What was not sent, or sent as `null`, is
/// absent, and clears its column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes<'a> {
    pub title: Option<Cow<'a, str>>,
    pub description: Option<Cow<'a, str>>,
    pub ean: Option<Cow<'a, str>>,
    pub brand: Option<Cow<'a, str>>,
    pub ncm: Option<Cow<'a, str>>,
    pub category: Option<Cow<'a, str>>,
    pub image_link: Option<Cow<'a, str>>,
    pub color: Option<Cow<'a, str>>,
    pub price: Option<Price>,
    pub price_promo: Option<Price>,
    pub wholesale_price: Option<Price>,
    pub quantity: Option<Decimal>,
    pub size: Option<Decimal>,
    pub measure: Option<Decimal>,
    pub wholesale_min: Option<Decimal>,
    pub indice: Option<i32>,
    pub source_created_at: Option<Timestamp>,
    /// The later of the item's two dates, of the product and of its stock.
    pub source_updated_at: Option<Timestamp>,
    /// Every other member of the item: a JSON object with sorted names and without white space.
    pub extra: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests;
