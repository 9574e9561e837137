use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::MemberSet;
use super::field::Field;
use super::scan::{self, Json};

/// Members of one item by name, whose values are not parsed yet. If the item has a syntax error,
/// the members before the error are kept.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    known: [Option<Json<'a>>; Field::COUNT],
    /// Fields that the item has more than once, whose values are all ignored.
    repeated: Vec<Field>,
    pub(super) set: MemberSet,
    pub(super) extra: Vec<(Cow<'a, str>, Json<'a>)>,
}

impl<'a> Members<'a> {
    /// Reads the members of a JSON object, which must be the only content of `item`.
    pub(super) fn read(&mut self, item: &'a [u8]) -> Result<(), serde_json::Error> {
        if let Ok(text) = simdutf8::basic::from_utf8(item)
            && scan::object(text, |name, value| self.add(Cow::Borrowed(name), value)).is_some()
        {
            return Ok(());
        }
        *self = Self::default();
        self.read_any(item)
    }

    /// Reads an object in any form that JSON allows, including those that the fast scan does not
    /// know.
    ///
    /// # Errors
    /// If `item` is not a JSON object.
    fn read_any(&mut self, item: &'a [u8]) -> Result<(), serde_json::Error> {
        let mut json = serde_json::Deserializer::from_slice(item);
        json.deserialize_map(Each(|name, value| self.add(name, Json::Any(value))))?;
        json.end()
    }

    pub(super) fn get(&self, field: Field) -> Option<Json<'a>> {
        if self.repeated.contains(&field) {
            return None;
        }
        self.known.get(field.place()).copied().flatten()
    }

    /// Returns the first field that the item has more than once; `None` if there is none.
    pub(super) fn repeated(&self) -> Option<Field> {
        self.repeated.first().copied()
    }

    fn add(&mut self, name: Cow<'a, str>, value: Json<'a>) {
        let Some(field) = Field::of(&name) else {
            self.extra.push((name, value));
            return;
        };
        self.set = self.set.with(field);
        if let Some(known) = self.known.get_mut(field.place())
            && known.replace(value).is_some()
        {
            self.repeated.push(field);
        }
    }
}

/// Returns the members of a JSON object within an item, in the order in which they were sent.
pub(super) fn of_object(json: &str) -> Result<Vec<(Cow<'_, str>, Json<'_>)>, serde_json::Error> {
    let mut members = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_map(Each(|name, value| members.push((name, Json::Any(value)))))?;
    reader.end()?;
    Ok(members)
}

/// Serde visitor that passes each member of an object to a function.
struct Each<F>(F);

impl<'de, F: FnMut(Cow<'de, str>, &'de str)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            let value: &RawValue = map.next_value()?;
            (self.0)(name, value.get());
        }
        Ok(())
    }
}

/// Serde seed that reads a member's name, which is borrowed if it has no escapes.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Read = Option<Vec<(String, String)>>;

    fn as_sent((name, value): (Cow<'_, str>, Json<'_>)) -> (String, String) {
        let value = match value {
            Json::Plain(text) => format!("\"{text}\""),
            Json::Any(json) => json.to_owned(),
        };
        (name.into_owned(), value)
    }

    fn scanned(text: &str) -> Read {
        let mut members = Vec::new();
        scan::object(text, |name, value| members.push(as_sent((name.into(), value))))?;
        Some(members)
    }

    fn read(text: &str) -> Read {
        Some(of_object(text).ok()?.into_iter().map(as_sent).collect())
    }

    #[test]
    fn plain_objects_are_scanned_and_the_rest_is_left_to_serde_json() {
        for text in [
            "{}",
            " { } ",
            r#"{"a":1,"b":-0.5,"c":"x\n\u00e9\"","d":null , "e" :true,"f":false}"#,
            "{\n  \"a\" : \"é\",\r\n\t\"b\":0\n}",
            r#"{"a":{"b":["}",{}]},"c":[[],"]"]}"#,
        ] {
            assert_eq!(scanned(text), read(text), "{text}");
            assert!(scanned(text).is_some(), "{text}");
        }
        for text in [r#"{"\u0061":1}"#, r#"{"a":1e5}"#] {
            assert!(scanned(text).is_none() && of_object(text).is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_scanned_is_what_serde_json_reads(
            tokens in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", ":", ",", "\"a\"", "\"é\\n\"", "\"", "\\", "\\u00e9", "\\ud800", "\u{1}", " ", "\n", "0",
                    "12", "-", ".5", "e1", "null", "tru", "true", "x",
                ]),
                0..14,
            ),
            wrapped: bool,
        ) {
            let inner = tokens.concat();
            let text = if wrapped { format!("{{\"k\":{inner}}}") } else { inner };
            if let Some(members) = scanned(&text) {
                prop_assert_eq!(read(&text), Some(members));
            }
        }
    }
}
