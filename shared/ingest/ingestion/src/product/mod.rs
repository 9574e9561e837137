//! A product: its key, its typed attributes, and the version that decides which item wins.

mod attributes;
pub(crate) mod bytes;
mod canonical;
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

use crate::Cnpj;

pub use attributes::{
    ATTRIBUTES, Attribute, AttributeReader, AttributeWriter, Attributes, Group, Kind, known_members,
};
pub use canonical::RowHasher;
pub use decimal::{Decimal, DecimalError, Price};
pub use encoding::{EncodedAttributes, EncodingError};
pub use error::{ItemError, ItemErrorCode, PartialKey};
pub use hash::{KeyHash, RowHash};
pub use item::{CnpjAccess, ItemPlace, ItemRules, MAX_PRODUCT_ID};
pub use partial::{MemberSet, PartialItems, PartialPolicy};
pub use version::{BatchStamp, Version};

pub(crate) use date::to_microseconds;

/// Key of a product: the primary key of its row. Keys sort in the order in which rows are written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProductKey {
    /// CNPJ of the establishment that the product belongs to.
    pub cnpj: Cnpj,
    /// Number of the shop within the establishment.
    pub shop_id: i32,
    /// Id of the product as text: the number `25901` and the string `"25901"` are the same id.
    pub product_id: String,
}

/// Product that one valid item describes. Texts without escapes are borrowed from the item's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product<'a> {
    /// Primary key of the product's row.
    pub key: ProductKey,
    /// Attributes of the product: the values of its other columns.
    pub attributes: Attributes<'a>,
    /// Set of the members that the item has, including those whose value is null.
    pub members: MemberSet,
}

#[cfg(test)]
mod tests;
