//! Value of a message header, with its type, and the one JSON form that it has in requests and in
//! responses.
//!
//! Text, booleans, integers within ±(2^53-1), `null`, arrays and tables are written as plain JSON.
//! Any other value is an object with one member. The member's name is the type, and its value is
//! text: `{"base64": "…"}`, `{"time": "2026-09-21T14:13:20Z"}`, `{"int32": "7"}`. A table that has
//! one member of such a name is written inside another: `{"table": {"time": "noon"}}`.

mod number;
mod untyped_json;

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use self::number::{Decimal, Float32, Float64};
use self::untyped_json::UntypedJson;
use crate::base64_bytes::Base64Bytes;
use crate::time::Time;

/// Typed value of a message header. AMQP 0-9-1 has all of these types; IBM MQ has no unsigned
/// integers, decimals, times, arrays and tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the type of its name")]
pub enum HeaderValue {
    Null,
    Boolean(bool),
    Int8(i8),
    UInt8(u8),
    Int16(i16),
    UInt16(u16),
    Int32(i32),
    UInt32(u32),
    Int64(i64),
    Float32(Float32),
    Float64(Float64),
    Decimal(Decimal),
    Text(String),
    /// Bytes of a text value that is not valid UTF-8.
    TextBytes(Vec<u8>),
    Bytes(Vec<u8>),
    Time(Time),
    Array(Vec<Self>),
    Table(BTreeMap<String, Self>),
}

/// Tags that name the type of a header value without a plain JSON form, as in `{"int32": "7"}`,
/// separated by spaces.
const TAGS: &str =
    "int8 uint8 int16 uint16 int32 uint32 int64 float32 float64 decimal textBase64 base64 time table";

fn is_tag(name: &str) -> bool {
    TAGS.split(' ').any(|tag| tag == name)
}

impl HeaderValue {
    /// Maximum nesting of tables and arrays. JSON may need twice as many levels, since a table may
    /// be written as `{"table": {…}}`.
    pub const MAX_DEPTH: usize = 24;
    /// Maximum length in bytes of a name in a table (AMQP 0-9-1, section 4.2.5.3).
    pub const MAX_NAME: usize = 255;
    /// Largest integer that JSON carries exactly as a plain number (RFC 7493, section 2.2).
    const MAX_PLAIN: u64 = 9_007_199_254_740_991;

    /// Counts the values, including nested ones, and the bytes of names and values. Type and length
    /// fields of the broker's encoding do not count.
    pub(crate) fn weigh(&self) -> Weight {
        let of_one = |bytes| Weight { values: 1, bytes };
        match self {
            Self::Null | Self::Boolean(_) | Self::Int8(_) | Self::UInt8(_) => of_one(1),
            Self::Int16(_) | Self::UInt16(_) => of_one(2),
            Self::Int32(_) | Self::UInt32(_) | Self::Float32(_) => of_one(4),
            Self::Decimal(_) => of_one(5),
            Self::Int64(_) | Self::Float64(_) | Self::Time(_) => of_one(8),
            Self::Text(text) => of_one(text.len()),
            Self::TextBytes(bytes) | Self::Bytes(bytes) => of_one(bytes.len()),
            Self::Array(values) => values.iter().map(Self::weigh).fold(of_one(4), Weight::plus),
            Self::Table(values) => values
                .iter()
                .map(|(name, value)| value.weigh().plus(Weight { values: 0, bytes: name.len() }))
                .fold(of_one(4), Weight::plus),
        }
    }
}

/// Size of a header: its number of values and bytes, counted by [`HeaderValue::weigh`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) values: usize,
    pub(crate) bytes: usize,
}

impl Weight {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            values: self.values.saturating_add(other.values),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl From<String> for HeaderValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for HeaderValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Serialize for HeaderValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Boolean(value) => serializer.serialize_bool(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Int64(value) if value.unsigned_abs() <= Self::MAX_PLAIN => serializer.serialize_i64(*value),
            Self::Int8(value) => tagged(serializer, "int8", &value.to_string()),
            Self::UInt8(value) => tagged(serializer, "uint8", &value.to_string()),
            Self::Int16(value) => tagged(serializer, "int16", &value.to_string()),
            Self::UInt16(value) => tagged(serializer, "uint16", &value.to_string()),
            Self::Int32(value) => tagged(serializer, "int32", &value.to_string()),
            Self::UInt32(value) => tagged(serializer, "uint32", &value.to_string()),
            Self::Int64(value) => tagged(serializer, "int64", &value.to_string()),
            Self::Float32(value) => tagged(serializer, "float32", &value.to_string()),
            Self::Float64(value) => tagged(serializer, "float64", &value.to_string()),
            Self::Decimal(value) => tagged(serializer, "decimal", &value.to_string()),
            Self::TextBytes(bytes) => tagged(serializer, "textBase64", &Base64Bytes::encode(bytes)),
            Self::Bytes(bytes) => tagged(serializer, "base64", &Base64Bytes::encode(bytes)),
            Self::Time(time) => tagged(serializer, "time", &time.to_string()),
            Self::Array(values) => serializer.collect_seq(values),
            Self::Table(values) if reads_as_tagged(values) => tagged(serializer, "table", values),
            Self::Table(values) => serializer.collect_map(values),
        }
    }
}

fn tagged<S: Serializer>(
    serializer: S,
    tag: &str,
    value: &(impl Serialize + ?Sized),
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(tag, value)?;
    map.end()
}

fn reads_as_tagged(table: &BTreeMap<String, HeaderValue>) -> bool {
    table.len() == 1 && table.keys().all(|name| is_tag(name))
}

impl<'de> Deserialize<'de> for HeaderValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntypedJson::deserialize(deserializer)?.into_value(Self::MAX_DEPTH).map_err(de::Error::custom)
    }
}

impl UntypedJson {
    /// Converts the JSON form to a header value, with tables and arrays nested at most `depth`
    /// levels deep.
    fn into_value(self, depth: usize) -> Result<HeaderValue, String> {
        Ok(match self {
            Self::Null => HeaderValue::Null,
            Self::Boolean(value) => HeaderValue::Boolean(value),
            Self::Integer(value) => HeaderValue::Int64(value),
            Self::Text(text) => HeaderValue::Text(text),
            Self::Array(forms) => {
                let depth = one_less(depth)?;
                let values = forms.into_iter().map(|form| form.into_value(depth));
                HeaderValue::Array(values.collect::<Result<_, _>>()?)
            }
            Self::Object(members) if members.is_empty() => HeaderValue::Table(BTreeMap::new()),
            Self::Object(members) => match <[_; 1]>::try_from(members) {
                Ok([(name, form)]) if is_tag(&name) => of_tag(&name, form, depth)?,
                Ok(member) => table(member.into(), depth)?,
                Err(members) => table(members, depth)?,
            },
        })
    }
}

fn one_less(depth: usize) -> Result<usize, String> {
    depth.checked_sub(1).ok_or_else(|| {
        format!("a header's tables and arrays may nest {} levels deep", HeaderValue::MAX_DEPTH)
    })
}

fn table(members: Vec<(String, UntypedJson)>, depth: usize) -> Result<HeaderValue, String> {
    let depth = one_less(depth)?;
    let mut table = BTreeMap::new();
    for (name, form) in members {
        if name.len() > HeaderValue::MAX_NAME {
            let max = HeaderValue::MAX_NAME;
            return Err(format!("a name in a table must be at most {max} bytes long, not {}", name.len()));
        }
        table.insert(name, form.into_value(depth)?);
    }
    Ok(HeaderValue::Table(table))
}

/// Reads a header value that is tagged with its type, such as `{"int32": "7"}`. `form` is the JSON
/// value of the member `tag`, and `depth` the number of levels that a table may still nest.
fn of_tag(tag: &str, form: UntypedJson, depth: usize) -> Result<HeaderValue, String> {
    let text = match (tag, form) {
        ("table", UntypedJson::Object(members)) => return table(members, depth),
        ("table", _) => return Err("`table` must be an object".to_owned()),
        (_, UntypedJson::Text(text)) => text,
        (_, _) => return Err("the value of a type is text, as {\"int32\": \"7\"}".to_owned()),
    };
    let malformed = |what: &str| format!("is not {what}");
    let integer = |_| malformed("an integer of this type");
    Ok(match tag {
        "int8" => HeaderValue::Int8(text.parse().map_err(integer)?),
        "uint8" => HeaderValue::UInt8(text.parse().map_err(integer)?),
        "int16" => HeaderValue::Int16(text.parse().map_err(integer)?),
        "uint16" => HeaderValue::UInt16(text.parse().map_err(integer)?),
        "int32" => HeaderValue::Int32(text.parse().map_err(integer)?),
        "uint32" => HeaderValue::UInt32(text.parse().map_err(integer)?),
        "int64" => HeaderValue::Int64(text.parse().map_err(integer)?),
        "float32" => HeaderValue::Float32(text.parse().map_err(|_| malformed("a number"))?),
        "float64" => HeaderValue::Float64(text.parse().map_err(|_| malformed("a number"))?),
        "decimal" => HeaderValue::Decimal(text.parse()?),
        "base64" => HeaderValue::Bytes(Base64Bytes::decode(&text)?),
        "textBase64" => match String::from_utf8(Base64Bytes::decode(&text)?) {
            Ok(text) => HeaderValue::Text(text),
            Err(error) => HeaderValue::TextBytes(error.into_bytes()),
        },
        "time" => HeaderValue::Time(text.parse()?),
        _ => return Err(malformed("of a known type")),
    })
}
