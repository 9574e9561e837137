use std::borrow::Cow;
use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use serde::de::IgnoredAny;

use super::error::Fault;
use super::field::Field;
use super::members::Members;
use super::scalar::Scalar;
use super::{Attributes, ItemError, ItemErrorCode, PartialKey, Product, ProductKey, extra};
use crate::Cnpj;

/// Bytes of a product id. PostgreSQL's index would hold more, but no catalogue has such ids.
pub const MAX_PRODUCT_ID: usize = 200;

/// Where an item was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemPlace {
    pub index: u64,
    pub offset: u64,
}

/// Which establishments a tenant may load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CnpjAccess {
    Any,
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

/// The rules for the items of one batch.
///
/// An item fails at its first fault: its syntax, then its key, then whether the tenant may load
/// that CNPJ, then the other members. Neither the order of members nor the case of their names
/// matters. A member that is given twice, even in two spellings, is a fault, since nothing says
/// which was meant.
#[derive(Debug, Clone)]
pub struct ItemRules {
    /// The time zone of the source's dates.
    pub zone: TimeZone,
    pub cnpjs: CnpjAccess,
}

impl ItemRules {
    /// Reads one item.
    ///
    /// # Errors
    /// The item's first fault, with as much of its key as could be read.
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

    fn product<'a>(&self, members: &mut Members<'a>, item: &'a [u8]) -> Result<Product<'a>, Fault> {
        must_be_object(item)?;
        members.read(item).map_err(|error| Fault::malformed(&error))?;
        if let Some(field) = members.repeated() {
            return Err(Fault::invalid(field.name(), "it is given more than once"));
        }
        let key =
            ProductKey { cnpj: cnpj(members)?, shop_id: shop_id(members)?, product_id: product_id(members)? };
        if !self.cnpjs.allows(key.cnpj) {
            return Err(Fault {
                code: ItemErrorCode::CnpjNotAllowed,
                field: Some(Field::Cnpj.name().into()),
                detail: "the tenant may not load this CNPJ".into(),
            });
        }
        Ok(Product { key, attributes: self.attributes(members)?, members: members.set })
    }

    fn attributes<'a>(&self, members: &mut Members<'a>) -> Result<Attributes<'a>, Fault> {
        let zone = &self.zone;
        Ok(Attributes {
            title: members.text(Field::Title)?,
            description: members.text(Field::Description)?,
            ean: members.text(Field::Ean)?,
            brand: members.text(Field::Brand)?,
            ncm: members.text(Field::Ncm)?,
            category: members.text(Field::Category)?,
            image_link: members.text(Field::ImageLink)?,
            color: members.text(Field::Color)?,
            price: members.price(Field::Price)?,
            price_promo: members.price(Field::PricePromo)?,
            wholesale_price: members.price(Field::WholesalePrice)?,
            quantity: members.decimal(Field::Quantity)?,
            size: members.decimal(Field::Size)?,
            measure: members.decimal(Field::Measure)?,
            wholesale_min: members.decimal(Field::WholesaleMin)?,
            indice: members.integer(Field::Indice)?,
            source_created_at: members.date(Field::Created, zone)?,
            source_updated_at: members
                .date(Field::Updated, zone)?
                .max(members.date(Field::StockUpdated, zone)?),
            extra: extra::object(std::mem::take(&mut members.extra))?.map(Cow::Owned),
        })
    }
}

fn must_be_object(item: &[u8]) -> Result<(), Fault> {
    if item.first() == Some(&b'{') {
        return Ok(());
    }
    let _: IgnoredAny = serde_json::from_slice(item).map_err(|error| Fault::malformed(&error))?;
    Err(Fault { code: ItemErrorCode::NotAnObject, field: None, detail: "an item must be an object".into() })
}

fn required(field: Field) -> Fault {
    let detail = "it is part of the key";
    Fault { code: ItemErrorCode::FieldRequired, field: Some(field.name().into()), detail: detail.into() }
}

/// A CNPJ may come as a number. A number's text is never read as a CNPJ's text, which may hold
/// points and letters.
fn cnpj(members: &Members<'_>) -> Result<Cnpj, Fault> {
    let parsed = match members.scalar(Field::Cnpj)? {
        Scalar::Null => return Err(required(Field::Cnpj)),
        Scalar::Text(text) if text.trim().is_empty() => return Err(required(Field::Cnpj)),
        Scalar::Text(text) => text.parse::<Cnpj>(),
        Scalar::Number(number) => Cnpj::from_number(number),
        Scalar::Boolean(_) | Scalar::Nested(_) => {
            return Err(Fault::invalid(Field::Cnpj.name(), "it must be a text"));
        }
    };
    parsed.map_err(|error| Fault {
        code: ItemErrorCode::CnpjInvalid,
        field: Some(Field::Cnpj.name().into()),
        detail: error.to_string().into(),
    })
}

fn shop_id(members: &Members<'_>) -> Result<i32, Fault> {
    members.integer(Field::ShopId)?.ok_or_else(|| required(Field::ShopId))
}

fn product_id(members: &Members<'_>) -> Result<String, Fault> {
    let id = members.text(Field::ProductId)?.unwrap_or_default();
    match id.trim() {
        "" => Err(required(Field::ProductId)),
        id if id.len() > MAX_PRODUCT_ID => {
            Err(Fault::invalid(Field::ProductId.name(), format!("it has more than {MAX_PRODUCT_ID} bytes")))
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
