//! List of a product's attributes, from which all code that handles attributes is generated.
//!
//! The item parser, the chunk format, the canonical form behind the row hash, the generator and
//! `catalog`'s COPY and UPDATE all use this list. Tests compare the columns of the table `products`
//! and the properties of `Product` in `openapi.yaml` with it.
//!
//! To add an attribute, append a line to the list, add its column in a migration, and add the
//! property to `openapi.yaml`.

use std::borrow::Cow;

use jiff::Timestamp;

use super::{Decimal, Price};

/// Attribute of a product: its entry in the table [`ATTRIBUTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Number that identifies the attribute in chunk files and in row hashes. It never changes, and
    /// no other attribute may get it.
    pub(super) number: u8,
    pub(super) members: &'static [Field],
    /// Name of the attribute's field in [`Attributes`].
    pub name: &'static str,
    /// Kind of the attribute's values, such as text or price.
    pub kind: Kind,
    /// Group of attributes that usually change together with this one.
    pub group: Group,
    /// Name of the attribute's column in the table `products`.
    pub column: &'static str,
}

/// Kind of the values of a product's attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, stored as it was sent.
    Text,
    /// Price: a number with four decimal places.
    Price,
    /// Decimal number with up to 38 digits.
    Decimal,
    /// Signed integer of 32 bits.
    Integer,
    /// Time, to the microsecond. If several members of an item give it, the latest counts.
    Time,
    /// Members of an item that have no column, as one JSON object in canonical form.
    Json,
}

/// Group of attributes that usually change together. The row hash has one part for each group, so
/// that a group can be compared, or get versions, separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Identity and description of the product.
    Catalogue,
    /// Prices of the product.
    Price,
    /// Quantity of the product.
    Stock,
    /// Attributes of the item as a whole: the time of its last change at the source.
    Item,
}

impl Attribute {
    /// Returns the names of the members of an item from which the attribute is read, as the source
    /// writes them; none for [`Kind::Json`].
    pub fn members(&self) -> impl Iterator<Item = &'static str> {
        self.members.iter().map(|field| field.name())
    }
}

/// Reader that supplies the values of all attributes in the order of [`ATTRIBUTES`], with one
/// method for each kind.
#[allow(missing_docs, reason = "one method for each kind")]
pub trait AttributeReader<'a> {
    type Error;

    fn text(&mut self, attribute: &'static Attribute) -> Result<Option<Cow<'a, str>>, Self::Error>;
    fn price(&mut self, attribute: &'static Attribute) -> Result<Option<Price>, Self::Error>;
    fn decimal(&mut self, attribute: &'static Attribute) -> Result<Option<Decimal>, Self::Error>;
    fn integer(&mut self, attribute: &'static Attribute) -> Result<Option<i32>, Self::Error>;
    fn time(&mut self, attribute: &'static Attribute) -> Result<Option<Timestamp>, Self::Error>;
    fn json(&mut self, attribute: &'static Attribute) -> Result<Option<Cow<'a, str>>, Self::Error>;
}

/// Writer that receives the values of all attributes in the order of [`ATTRIBUTES`], with one
/// method for each kind.
#[allow(missing_docs, reason = "one method for each kind")]
pub trait AttributeWriter {
    fn absent(&mut self, attribute: &'static Attribute);
    fn text(&mut self, attribute: &'static Attribute, text: &str);
    fn price(&mut self, attribute: &'static Attribute, price: Price);
    fn decimal(&mut self, attribute: &'static Attribute, number: Decimal);
    fn integer(&mut self, attribute: &'static Attribute, number: i32);
    fn time(&mut self, attribute: &'static Attribute, time: Timestamp);
    fn json(&mut self, attribute: &'static Attribute, json: &str);
}

/// Expands to the Rust type, the call of the reader or the call of the writer for a kind of
/// attribute.
#[rustfmt::skip]
macro_rules! of_kind {
    (type Text) => { Cow<'a, str> };
    (type Price) => { Price };
    (type Decimal) => { Decimal };
    (type Integer) => { i32 };
    (type Time) => { Timestamp };
    (type Json) => { Cow<'a, str> };
    (read Text, $reader:expr, $attribute:expr) => { $reader.text($attribute) };
    (read Price, $reader:expr, $attribute:expr) => { $reader.price($attribute) };
    (read Decimal, $reader:expr, $attribute:expr) => { $reader.decimal($attribute) };
    (read Integer, $reader:expr, $attribute:expr) => { $reader.integer($attribute) };
    (read Time, $reader:expr, $attribute:expr) => { $reader.time($attribute) };
    (read Json, $reader:expr, $attribute:expr) => { $reader.json($attribute) };
    (write Text, $writer:expr, $attribute:expr, $value:expr) => { $writer.text($attribute, $value) };
    (write Price, $writer:expr, $attribute:expr, $value:expr) => { $writer.price($attribute, *$value) };
    (write Decimal, $writer:expr, $attribute:expr, $value:expr) => { $writer.decimal($attribute, *$value) };
    (write Integer, $writer:expr, $attribute:expr, $value:expr) => { $writer.integer($attribute, *$value) };
    (write Time, $writer:expr, $attribute:expr, $value:expr) => { $writer.time($attribute, *$value) };
    (write Json, $writer:expr, $attribute:expr, $value:expr) => { $writer.json($attribute, $value) };
}

/// Generates [`Attributes`], [`ATTRIBUTES`] and [`Field`]'s variants from the list of attributes.
macro_rules! attributes {
    ($($number:literal $name:ident: $kind:ident in $group:ident, $column:literal <- $($member:ident)*;)*) => {
        /// Attributes of a product, which an item gives in addition to the key. A member that was
        /// not sent, or was sent as `null`, is `None` and clears its column.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Attributes<'a> {
            $(#[doc = concat!("The column `", $column, "`.")] pub $name: Option<of_kind!(type $kind)>,)*
        }

        impl<'a> Attributes<'a> {
            /// Reads the values of all attributes from `reader`.
            ///
            /// # Errors
            /// If the reader fails for any value; the error is its first one.
            pub fn read<R: AttributeReader<'a>>(reader: &mut R) -> Result<Self, R::Error> {
                Ok(Self { $($name: of_kind!(read $kind, reader, &list::$name)?,)* })
            }

            /// Passes the values of all attributes to `writer`.
            pub fn write(&self, writer: &mut impl AttributeWriter) {
                $(match &self.$name {
                    None => writer.absent(&list::$name),
                    Some(value) => of_kind!(write $kind, writer, &list::$name, value),
                })*
            }
        }

        /// Table of all attributes of a product.
        pub const ATTRIBUTES: &[Attribute] = &[$(list::$name),*];

        #[allow(non_upper_case_globals, reason = "named as the attributes are")]
        mod list {
            use super::{Attribute, Field, Group, Kind};

            $(pub(super) const $name: Attribute = Attribute {
                number: $number,
                members: &[$(Field::$member),*],
                name: stringify!($name),
                kind: Kind::$kind,
                group: Group::$group,
                column: $column,
            };)*
        }

        /// JSON member of an item that is stored in a column, named as the source writes it.
        #[allow(clippy::upper_case_acronyms, reason = "the source's names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Field {
            CNPJ,
            SHOPID,
            PRODUCTID,
            $($($member,)*)*
        }

        impl Field {
            /// All members that have a column: first those of the key, then those of the
            /// attributes.
            pub(super) const ALL: &[Self] =
                &[Self::CNPJ, Self::SHOPID, Self::PRODUCTID, $($(Self::$member,)*)*];

            /// Returns the member's name in the source's JSON.
            pub(super) const fn name(self) -> &'static str {
                match self {
                    Self::CNPJ => "CNPJ",
                    Self::SHOPID => "SHOPID",
                    Self::PRODUCTID => "PRODUCTID",
                    $($(Self::$member => stringify!($member),)*)*
                }
            }
        }
    };
}

// Number, name, kind, group, column, and the members that it is read from.
attributes! {
    1 title: Text in Catalogue, "title" <- TITLE;
    2 description: Text in Catalogue, "description" <- DESCRIPTION;
    3 ean: Text in Catalogue, "ean" <- EAN;
    4 brand: Text in Catalogue, "brand" <- BRAND;
    5 ncm: Text in Catalogue, "ncm" <- NCM;
    6 category: Text in Catalogue, "category" <- CATEGORY;
    7 image_link: Text in Catalogue, "imagelink" <- IMAGELINK;
    8 color: Text in Catalogue, "color" <- COLOR;
    9 price: Price in Price, "price" <- PRICE;
    10 price_promo: Price in Price, "pricepromo" <- PRICEPROMO;
    11 wholesale_price: Price in Price, "wholesaleprice" <- WHOLESALEPRICE;
    12 quantity: Decimal in Stock, "quantity" <- QUANTITY;
    13 size: Decimal in Catalogue, "size" <- SIZE;
    14 measure: Decimal in Catalogue, "measure" <- MEASURE;
    15 wholesale_min: Decimal in Price, "wholesalemin" <- WHOLESALEMIN;
    16 indice: Integer in Catalogue, "indice" <- INDICE;
    17 source_created_at: Time in Catalogue, "source_created_at" <- DATACADASTROPRODUTO;
    18 source_updated_at: Time in Item, "source_updated_at"
        <- DATAATUALIZACAOPRODUTO DATAATUALIZACAOESTOQUE;
    19 extra: Json in Catalogue, "extra" <- ;
}

/// Maximum number of attributes: a chunk file shows in 32 bits which of them a row has.
const MOST: u8 = 32;

// The numbers ascend, so a new attribute is the last one. An attribute is read from one member; a
// time may have several, and the JSON object has none of its own.
const _: () = {
    let (mut list, mut last) = (ATTRIBUTES, 0);
    while let [attribute, rest @ ..] = list {
        assert!(attribute.number > last && attribute.number <= MOST);
        match attribute.kind {
            Kind::Json => assert!(attribute.members.is_empty()),
            Kind::Time => assert!(!attribute.members.is_empty()),
            _ => assert!(attribute.members.len() == 1),
        }
        (list, last) = (rest, attribute.number);
    }
};

/// Returns the names of the members of an item that have a column, as the source writes them; first
/// those of the key. Items may write them in any case.
pub fn known_members() -> impl Iterator<Item = &'static str> {
    Field::ALL.iter().map(|field| field.name())
}
