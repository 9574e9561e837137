use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::ProductKey;
use crate::Cnpj;
use crate::split::error_place;

/// Error of one item that did not become a product, as the batch's error report shows it. It
/// contains the item's key, and of other values only an invalid CNPJ or date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("item {item_index} at byte {byte_offset}: {detail}")]
#[expect(missing_docs, reason = "`ItemError` in openapi.yaml describes each member")]
pub struct ItemError {
    pub item_index: u64,
    pub byte_offset: u64,
    pub code: ItemErrorCode,
    /// Name of the member at fault: as the source writes it, or as it was sent if the member has no
    /// column. `None` if no single member is at fault.
    pub field: Option<Cow<'static, str>>,
    pub detail: Cow<'static, str>,
    pub key: PartialKey,
}

/// Code of the error of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "docs/batches.md lists the codes")]
pub enum ItemErrorCode {
    NotAnObject,
    MalformedJson,
    FieldRequired,
    FieldInvalid,
    CnpjInvalid,
    /// The API key may not load the establishment, or the establishment is not the tenant's.
    CnpjNotAllowed,
    ItemTooLarge,
    /// The item passed validation, but PostgreSQL refused it.
    RejectedByDatabase,
}

/// Key of an item in error, with those parts that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the members of `ProductKey`")]
pub struct PartialKey {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cnpj: Option<Cnpj>,
    #[serde(rename = "shopid", skip_serializing_if = "Option::is_none")]
    pub shop_id: Option<i32>,
    #[serde(rename = "productid", skip_serializing_if = "Option::is_none")]
    pub product_id: Option<String>,
}

impl PartialKey {
    /// Returns the complete key; `None` if a part could not be read.
    #[must_use]
    pub fn complete(&self) -> Option<ProductKey> {
        Some(ProductKey { cnpj: self.cnpj?, shop_id: self.shop_id?, product_id: self.product_id.clone()? })
    }
}

impl ItemError {
    /// Returns the key of the item's product, which counts as contained in the batch although the
    /// item is in error. `None` if the key is incomplete, or if the item is not JSON: its text may
    /// contain further products.
    #[must_use]
    pub fn settled_key(&self) -> Option<ProductKey> {
        if self.code == ItemErrorCode::MalformedJson { None } else { self.key.complete() }
    }

    /// Builds the error of an item of `length` bytes that was skipped because it has more than
    /// `limit` bytes.
    #[must_use]
    pub fn too_large(item_index: u64, byte_offset: u64, length: u64, limit: usize) -> Self {
        Self {
            item_index,
            byte_offset,
            code: ItemErrorCode::ItemTooLarge,
            field: None,
            detail: format!("the item has {length} bytes, the limit is {limit}").into(),
            key: PartialKey::default(),
        }
    }
}

/// Returns the JSON parser's message without the line and column that `serde_json` adds.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// Builds the detail of an error, preceded by the wrong value if that is at most 40 printable ASCII
/// characters. Any other value is left out, because it may contain anything.
pub(super) fn of_value(value: &str, detail: &str) -> String {
    const LONGEST: usize = 40;
    let value = value.trim();
    let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if is_plain && value.len() <= LONGEST { format!("`{value}`: {detail}") } else { detail.to_owned() }
}

/// Fault of an item, with the member at fault if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: ItemErrorCode,
    pub(super) field: Option<Cow<'static, str>>,
    pub(super) detail: Cow<'static, str>,
}

impl Fault {
    pub(super) fn invalid(field: impl Into<Cow<'static, str>>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code: ItemErrorCode::FieldInvalid, field: Some(field.into()), detail: detail.into() }
    }

    /// Builds the fault of a text that is not JSON and stands where an item should be.
    pub(super) const fn not_json() -> Self {
        let detail = Cow::Borrowed("it is not JSON");
        Self { code: ItemErrorCode::MalformedJson, field: None, detail }
    }

    /// Builds the fault of an item that is not valid JSON. It states the place as an offset in
    /// bytes, because the line and column of `serde_json`, counted within the item, cannot be found
    /// in the payload.
    pub(super) fn malformed(text: &[u8], error: &serde_json::Error) -> Self {
        let place = error_place(text, error).saturating_sub(1);
        let detail = format!("{} at byte {place} of the item", without_place(error));
        Self { code: ItemErrorCode::MalformedJson, field: None, detail: detail.into() }
    }
}
