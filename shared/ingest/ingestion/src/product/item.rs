//! Parser that turns the JSON of an item into a product, or into the item's error.

use std::borrow::Cow;
use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::de::IgnoredAny;

use super::attributes::{Attribute, AttributeReader, Group};
use super::date::Day;
use super::error::{Fault, of_value};
use super::field::Field;
use super::members::Members;
use super::partial::{MemberSet, PartialPolicy};
use super::scalar::Scalar;
use super::{Attributes, Decimal, ItemError, ItemErrorCode, PartialKey, Price, Product, ProductKey, extra};
use crate::Cnpj;

/// Maximum number of bytes of a product id. PostgreSQL's index would allow more, but no catalogue
/// has longer ids.
pub const MAX_PRODUCT_ID: usize = 200;

/// Position of an item in its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemPlace {
    /// Index of the item from 0, in the payload's order.
    pub index: u64,
    /// Offset of the item's first byte in the decoded payload.
    pub offset: u64,
}

/// Establishments that an API key, or a tenant's grant for dropped objects, may load. Whether they
/// are the tenant's is checked when a chunk is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CnpjAccess {
    /// Every establishment of the tenant may be loaded.
    Any,
    /// Only these establishments may be loaded, if they are the tenant's.
    Only(BTreeSet<Cnpj>),
}

impl CnpjAccess {
    fn allows(&self, cnpj: Cnpj) -> bool {
        match self {
            Self::Any => true,
            Self::Only(cnpjs) => cnpjs.contains(&cnpj),
        }
    }
}

/// Rules by which the items of one batch are parsed.
///
/// An item is refused for its first fault: its syntax is checked first, then its key, then whether
/// its CNPJ may be loaded, then its other members. Neither the order of members nor the case of
/// their names matters. A member that is given twice, even in different case, is a fault, because
/// its meaning is ambiguous.
#[derive(Clone, Debug)]
pub struct ItemRules {
    /// Time zone of the source's dates that state none.
    pub zone: TimeZone,
    /// Establishments that the batch may load. Items of other establishments are in error.
    pub cnpjs: CnpjAccess,
    /// Policy of the batch for items that lack members.
    pub partial: PartialPolicy,
}

impl ItemRules {
    /// Parses one item of a payload as a product.
    ///
    /// # Errors
    /// If the item is invalid; the error has its first fault, and those parts of its key that could
    /// be read.
    pub fn parse<'a>(&self, place: ItemPlace, item: &'a [u8]) -> Result<Product<'a>, ItemError> {
        let mut members = Members::default();
        self.product(&mut members, item).map_err(|fault| ItemError {
            item_index: place.index,
            byte_offset: place.offset,
            code: fault.code,
            field: fault.field,
            detail: fault.detail,
            key: partial_key(&members),
        })
    }

    /// Builds the error of a text that is not JSON, with the key that can be read at its beginning.
    #[must_use]
    pub fn broken(&self, place: ItemPlace, text: &[u8]) -> ItemError {
        let mut members = Members::default();
        let fault =
            members.read(text).map_or_else(|error| Fault::malformed(text, &error), |()| Fault::not_json());
        ItemError {
            item_index: place.index,
            byte_offset: place.offset,
            code: fault.code,
            field: None,
            detail: format!("{}; it may hold further products, which are not loaded", fault.detail).into(),
            key: partial_key(&members),
        }
    }

    fn product<'a>(&self, members: &mut Members<'a>, item: &'a [u8]) -> Result<Product<'a>, Fault> {
        must_be_object(item)?;
        members.read(item).map_err(|error| Fault::malformed(item, &error))?;
        if let Some(field) = members.repeated() {
            return Err(Fault::invalid(field.name(), "it is given more than once"));
        }
        let key =
            ProductKey { cnpj: cnpj(members)?, shop_id: shop_id(members)?, product_id: product_id(members)? };
        if !self.cnpjs.allows(key.cnpj) {
            return Err(Fault {
                code: ItemErrorCode::CnpjNotAllowed,
                field: Some(Field::CNPJ.name().into()),
                detail: "the API key may not load this CNPJ".into(),
            });
        }
        let set = members.set;
        let attributes = Attributes::read(&mut ItemAttributes { members, zone: &self.zone })?;
        if self.partial == PartialPolicy::Refuse {
            must_be_whole(set)?;
        }
        Ok(Product { key, attributes, members: set })
    }
}

/// Reader of a product's attributes from the members of one item.
struct ItemAttributes<'r, 'a> {
    members: &'r mut Members<'a>,
    zone: &'r TimeZone,
}

impl<'a> ItemAttributes<'_, 'a> {
    /// Reads an attribute from its only member. All attributes but times have just one.
    fn of<T>(
        &self,
        attribute: &Attribute,
        read: impl FnOnce(&Members<'a>, Field) -> Result<Option<T>, Fault>,
    ) -> Result<Option<T>, Fault> {
        attribute.members.first().map_or(Ok(None), |member| read(self.members, *member))
    }
}

impl<'a> AttributeReader<'a> for ItemAttributes<'_, 'a> {
    type Error = Fault;

    fn text(&mut self, attribute: &'static Attribute) -> Result<Option<Cow<'a, str>>, Fault> {
        self.of(attribute, Members::text)
    }

    fn price(&mut self, attribute: &'static Attribute) -> Result<Option<Price>, Fault> {
        self.of(attribute, Members::price)
    }

    fn decimal(&mut self, attribute: &'static Attribute) -> Result<Option<Decimal>, Fault> {
        self.of(attribute, Members::decimal)
    }

    fn integer(&mut self, attribute: &'static Attribute) -> Result<Option<i32>, Fault> {
        self.of(attribute, Members::integer)
    }

    fn time(&mut self, attribute: &'static Attribute) -> Result<Option<Timestamp>, Fault> {
        // The time of a creation is not compared; the time of a change is, with those of its day.
        let day = if attribute.group == Group::Item { Day::End } else { Day::Begin };
        attribute
            .members
            .iter()
            .try_fold(None, |latest, member| Ok(latest.max(self.members.date(*member, self.zone, day)?)))
    }

    fn json(&mut self, _: &'static Attribute) -> Result<Option<Cow<'a, str>>, Fault> {
        Ok(extra::object(std::mem::take(&mut self.members.extra))?.map(Cow::Owned))
    }
}

fn must_be_object(item: &[u8]) -> Result<(), Fault> {
    if item.first() == Some(&b'{') {
        return Ok(());
    }
    let _: IgnoredAny = serde_json::from_slice(item).map_err(|error| Fault::malformed(item, &error))?;
    Err(Fault { code: ItemErrorCode::NotAnObject, field: None, detail: "an item must be an object".into() })
}

/// Refuses an item that lacks members. An item replaces its whole product, so each missing member
/// would clear a column.
fn must_be_whole(members: MemberSet) -> Result<(), Fault> {
    let lacking: Vec<&'static str> = members.lacking().map(Field::name).collect();
    let Some(first) = lacking.first().copied() else { return Ok(()) };
    let detail = format!(
        "it lacks {}, which would be cleared; send each member, with null where there is no value",
        lacking.join(", ")
    );
    Err(Fault { code: ItemErrorCode::FieldRequired, field: Some(first.into()), detail: detail.into() })
}

fn required(field: Field) -> Fault {
    let detail = "it is part of the key";
    Fault { code: ItemErrorCode::FieldRequired, field: Some(field.name().into()), detail: detail.into() }
}

/// Reads the CNPJ of an item, as text or as a number. A number is not parsed as text, which would
/// allow points and letters.
fn cnpj(members: &Members<'_>) -> Result<Cnpj, Fault> {
    let (sent, parsed) = match members.scalar(Field::CNPJ)? {
        Scalar::Null => return Err(required(Field::CNPJ)),
        Scalar::Text(text) if text.trim().is_empty() => return Err(required(Field::CNPJ)),
        Scalar::Text(text) => (text.clone(), text.parse::<Cnpj>()),
        Scalar::Number(number) => (number.into(), Cnpj::from_number(number)),
        Scalar::Boolean(_) | Scalar::Nested(_) => {
            return Err(Fault::invalid(Field::CNPJ.name(), "it must be a text"));
        }
    };
    parsed.map_err(|error| Fault {
        code: ItemErrorCode::CnpjInvalid,
        field: Some(Field::CNPJ.name().into()),
        detail: of_value(&sent, &format!("{error}; correct it where it comes from, and send the item again"))
            .into(),
    })
}

fn shop_id(members: &Members<'_>) -> Result<i32, Fault> {
    members.integer(Field::SHOPID)?.ok_or_else(|| required(Field::SHOPID))
}

fn product_id(members: &Members<'_>) -> Result<String, Fault> {
    let id = members.text(Field::PRODUCTID)?.unwrap_or_default();
    match id.trim() {
        "" => Err(required(Field::PRODUCTID)),
        id if id.len() > MAX_PRODUCT_ID => {
            Err(Fault::invalid(Field::PRODUCTID.name(), format!("it has more than {MAX_PRODUCT_ID} bytes")))
        }
        id => Ok(id.to_owned()),
    }
}

fn partial_key(members: &Members<'_>) -> PartialKey {
    PartialKey {
        cnpj: cnpj(members).ok(),
        shop_id: shop_id(members).ok(),
        product_id: product_id(members).ok(),
    }
}
