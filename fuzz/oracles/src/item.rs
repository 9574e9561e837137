//! Oracle for the parser of catalogue items. An accepted item can be stored, passes through a chunk
//! file unchanged, and is the same in every spelling of its JSON.

use std::fmt;
use std::sync::LazyLock;

use ingestion::chunk::{Chunk, Generation, Plan, Planner, decode, encode};
use ingestion::product::{
    Attribute, AttributeWriter, BatchStamp, CnpjAccess, Decimal, ItemError, ItemErrorCode, ItemPlace,
    ItemRules, MAX_PRODUCT_ID, PartialPolicy, Price, Product, RowHash, known_members,
};
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{without_white_end, without_white_start};

static RULES: LazyLock<ItemRules> = LazyLock::new(|| ItemRules {
    zone: TimeZone::fixed(Offset::constant(-3)),
    cnpjs: CnpjAccess::Any,
    partial: PartialPolicy::Warn,
});

/// Checks the item parser with a fuzz input: as an item, and as the members of an item after a
/// valid key.
pub(crate) fn check(input: &[u8]) {
    let item = without_white_end(without_white_start(input));
    check_item(item);
    if !item.is_empty() && item[0] != b'{' {
        let key = br#"{"CNPJ":"11222333000181","SHOPID":1,"PRODUCTID":2,"#;
        check_item(&[key, item, b"}"].concat());
    }
}

fn check_item(item: &[u8]) {
    let outcome = parse(item);
    match &outcome {
        Ok(product) => {
            storable(product);
            survives_a_chunk(product);
            extra_is_in_its_one_form(product);
        }
        Err(error) => reportable(error),
    }
    match serde_json::from_slice::<Members>(item) {
        Ok(members) => {
            let other = members.spelled_otherwise();
            same(&outcome, &parse(other.as_bytes()));
        }
        Err(error) => assert!(outcome.is_err(), "serde_json refuses it: {error}"),
    }
}

fn parse(item: &[u8]) -> Result<Product<'_>, ItemError> {
    RULES.parse(ItemPlace { index: 17, offset: 10_993 }, item)
}

/// Checks that the database's columns can hold a parsed product.
fn storable(product: &Product<'_>) {
    let Product { key, attributes, .. } = product;
    assert_eq!(key.product_id, key.product_id.trim());
    assert!((1..=MAX_PRODUCT_ID).contains(&key.product_id.len()) && !key.product_id.contains('\0'));
    attributes.write(&mut Storable);
}

/// Attribute writer that panics if the attribute's database column cannot hold the value.
struct Storable;

impl AttributeWriter for Storable {
    fn absent(&mut self, _: &'static Attribute) {}

    fn text(&mut self, attribute: &'static Attribute, text: &str) {
        assert!(!text.contains('\0'), "{attribute:?}: {text:?}");
    }

    fn price(&mut self, attribute: &'static Attribute, price: Price) {
        let fits = price.ten_thousandths().unsigned_abs() < 100_000_000_000_000;
        assert!(fits, "{attribute:?}, numeric(14,4): {price}");
    }

    fn decimal(&mut self, attribute: &'static Attribute, number: Decimal) {
        let fits = number.units().unsigned_abs() < 10_u128.pow(38) && number.places() <= 38;
        assert!(fits, "{attribute:?}: {number}");
        assert_eq!(number.to_string().parse::<Decimal>(), Ok(number));
    }

    fn integer(&mut self, _: &'static Attribute, _: i32) {}

    fn time(&mut self, attribute: &'static Attribute, time: Timestamp) {
        // PostgreSQL's timestamps begin in the year -4713, and hold microseconds.
        let first: Timestamp = "-004712-01-01T00:00:00Z".parse().expect("the text is a time");
        assert!(time >= first && time.subsec_nanosecond() % 1000 == 0, "{attribute:?}: {time}");
    }

    fn json(&mut self, attribute: &'static Attribute, json: &str) {
        self.text(attribute, json);
    }
}

fn survives_a_chunk(product: &Product<'_>) {
    let batch = BatchStamp::new(Timestamp::UNIX_EPOCH, Uuid::nil());
    let mut planner = Planner::new(Plan::default(), batch, Generation::FIRST);
    let mut chunks = planner.push(product.clone(), 17);
    chunks.extend(planner.finish());
    let [chunk]: [Chunk; 1] = chunks.try_into().expect("a planner with a product has a chunk");
    let read =
        decode(&encode(&chunk).expect("a planned chunk is encoded")).expect("an encoded chunk is decoded");
    assert_eq!(read, chunk);
    let [row] = read.rows() else { panic!("the chunk of one product has one row") };
    assert_eq!((&row.key, row.attributes.decode().as_ref()), (&product.key, Ok(&product.attributes)));
    assert_eq!(row.row_hash, RowHash::of(&product.attributes));
}

/// Checks that the product's further members (`extra`) are a JSON object that `jsonb` accepts, and
/// that parsing them again results in the same text.
fn extra_is_in_its_one_form(product: &Product<'_>) {
    let Some(extra) = &product.attributes.extra else { return };
    // Not as a `Value`, whose numbers have 64 bits; those of `jsonb` are not bounded so.
    let known = serde_json::from_str::<Members>(extra).expect("further members are kept as an object");
    assert!(!known.0.is_empty());
    assert!(!has_escaped_nul(extra), "{extra}");
    let members = extra.strip_prefix('{').expect("an object begins with a brace");
    let item = format!(r#"{{"CNPJ":"11222333000181","SHOPID":1,"PRODUCTID":2,{members}"#);
    let again = parse(item.as_bytes()).expect("members that were parsed are parsed again");
    assert_eq!(again.attributes.extra.as_ref(), Some(extra));
}

/// Checks that the database's table of items in error can hold the error of an item.
fn reportable(error: &ItemError) {
    assert_eq!((error.item_index, error.byte_offset), (17, 10_993));
    assert!(!error.detail.contains('\0') && error.detail.len() < 1000, "{error:?}");
    assert!(
        error.field.as_ref().is_none_or(|field| !field.contains('\0') && field.len() < 1000),
        "{error:?}"
    );
    without_nul(&serde_json::to_value(&error.key).expect("a key is written as JSON"));
}

/// Returns whether a JSON text contains an escaped NUL. A backslash that is itself escaped does not
/// count.
fn has_escaped_nul(json: &str) -> bool {
    let mut rest = json;
    while let Some((_, after)) = rest.split_once('\\') {
        if after.starts_with("u0000") {
            return true;
        }
        rest = after.get(1..).unwrap_or_default();
    }
    false
}

fn without_nul(value: &Value) {
    match value {
        Value::String(text) => assert!(!text.contains('\0'), "{text:?}"),
        Value::Array(items) => items.iter().for_each(without_nul),
        Value::Object(members) => {
            assert!(members.keys().all(|name| !name.contains('\0')));
            members.values().for_each(without_nul);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Checks that two JSON spellings of an item result in the same product or in the same error code
/// and key. If an item has several faults, other parts of the errors may differ.
fn same(one: &Result<Product<'_>, ItemError>, other: &Result<Product<'_>, ItemError>) {
    match (one, other) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(one), Err(other)) => {
            assert_eq!((one.code, &one.key), (other.code, &other.key));
            assert_ne!(one.code, ItemErrorCode::MalformedJson, "serde_json reads it");
        }
        _ => panic!("{one:?}, and spelled otherwise {other:?}"),
    }
}

/// Members of a JSON object in their order, including those with repeated names.
struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// Returns another JSON spelling of the object: the members in reverse order, with every
    /// character of their names escaped. Names of known members also change their case.
    fn spelled_otherwise(&self) -> String {
        let members = self.0.iter().rev().map(|(name, value)| {
            let is_known = known_members().any(|known| known.eq_ignore_ascii_case(name));
            let units: String = name
                .encode_utf16()
                .map(|unit| match char::from_u32(unit.into()) {
                    Some(letter) if is_known && letter.is_ascii_lowercase() => unit - 32,
                    Some(letter) if is_known && letter.is_ascii_uppercase() => unit + 32,
                    _ => unit,
                })
                .map(|unit| format!("\\u{unit:04x}"))
                .collect();
            format!("\n\"{units}\" :\t{} ", value.get())
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}
