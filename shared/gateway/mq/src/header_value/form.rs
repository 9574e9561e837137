//! A header's value as it stands in JSON, before its types are read.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// JSON value of a header before its type tags are interpreted. Numbers are integers only. Objects
/// keep all members in their order, duplicates included, whatever their names are.
#[derive(Debug)]
pub(super) enum Form {
    Null,
    Boolean(bool),
    Integer(i64),
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Forms)
    }
}

struct Forms;

impl<'de> Visitor<'de> for Forms {
    type Value = Form;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, an integer, true, false, null, an array or an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Form, E> {
        Ok(Form::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Form, E> {
        Ok(Form::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Form, E> {
        Ok(Form::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Form, E> {
        i64::try_from(value).map(Form::Integer).map_err(|_| E::custom("is an integer beyond 64 bits"))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Form, E> {
        Err(E::custom(
            "a number that is no integer is written {\"float64\": \"0.5\"} or {\"decimal\": \"0.5\"}",
        ))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Form, E> {
        Ok(Form::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Form, E> {
        Ok(Form::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Form, A::Error> {
        let mut forms = Vec::new();
        while let Some(form) = items.next_element()? {
            forms.push(form);
        }
        Ok(Form::Array(forms))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Form, A::Error> {
        let mut forms = Vec::new();
        while let Some(member) = members.next_entry()? {
            forms.push(member);
        }
        Ok(Form::Object(forms))
    }
}
