//! JSON value of a message header, before type tags such as `int32` in `{"int32": "7"}` are
//! interpreted.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// JSON value of a header before type tags, such as `int32` in `{"int32": "7"}`, are interpreted.
/// Numbers are integers only. Objects keep all members in their order, including duplicates and
/// unknown names.
#[derive(Debug)]
pub(super) enum UntypedJson {
    Null,
    Boolean(bool),
    Integer(i64),
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl<'de> Deserialize<'de> for UntypedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UntypedJsonVisitor)
    }
}

struct UntypedJsonVisitor;

impl<'de> Visitor<'de> for UntypedJsonVisitor {
    type Value = UntypedJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, an integer, true, false, null, an array or an object")
    }

    fn visit_unit<E: Error>(self) -> Result<UntypedJson, E> {
        Ok(UntypedJson::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<UntypedJson, E> {
        Ok(UntypedJson::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<UntypedJson, E> {
        Ok(UntypedJson::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<UntypedJson, E> {
        i64::try_from(value).map(UntypedJson::Integer).map_err(|_| E::custom("is an integer beyond 64 bits"))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<UntypedJson, E> {
        Err(E::custom(
            "a number that is no integer is written {\"float64\": \"0.5\"} or {\"decimal\": \"0.5\"}",
        ))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<UntypedJson, E> {
        Ok(UntypedJson::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<UntypedJson, E> {
        Ok(UntypedJson::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<UntypedJson, A::Error> {
        let mut forms = Vec::new();
        while let Some(form) = items.next_element()? {
            forms.push(form);
        }
        Ok(UntypedJson::Array(forms))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<UntypedJson, A::Error> {
        let mut forms = Vec::new();
        while let Some(member) = members.next_entry()? {
            forms.push(member);
        }
        Ok(UntypedJson::Object(forms))
    }
}
