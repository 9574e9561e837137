use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::field::Field;

/// The members of one item, by name and not yet read. What was read before a syntax error stays.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    known: [Option<&'a RawValue>; Field::COUNT],
    /// Fields that were given more than once, so that none of their values counts.
    repeated: Vec<Field>,
    pub(super) extra: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Members<'a> {
    /// Reads one object, which must be all that `item` holds.
    pub(super) fn read(&mut self, item: &'a [u8]) -> Result<(), serde_json::Error> {
        let mut json = serde_json::Deserializer::from_slice(item);
        json.deserialize_map(Into(|name: Cow<'a, str>, value| match Field::of(&name) {
            Some(field) => self.add(field, value),
            None => self.extra.push((name, value)),
        }))?;
        json.end()
    }

    pub(super) fn get(&self, field: Field) -> Option<&'a RawValue> {
        if self.repeated.contains(&field) {
            return None;
        }
        self.known.get(field.place()).copied().flatten()
    }

    /// The first field that was given more than once.
    pub(super) fn repeated(&self) -> Option<Field> {
        self.repeated.first().copied()
    }

    fn add(&mut self, field: Field, value: &'a RawValue) {
        if let Some(known) = self.known.get_mut(field.place())
            && known.replace(value).is_some()
        {
            self.repeated.push(field);
        }
    }
}

/// The members of a nested object, in the order in which they were sent.
pub(super) fn of_object(json: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, serde_json::Error> {
    let mut members = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_map(Into(|name, value| members.push((name, value))))?;
    reader.end()?;
    Ok(members)
}

/// Hands each member of an object on.
struct Into<F>(F);

impl<'de, F: FnMut(Cow<'de, str>, &'de RawValue)> Visitor<'de> for Into<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            let value = map.next_value()?;
            (self.0)(name, value);
        }
        Ok(())
    }
}

/// A member's name, borrowed where it has no escapes.
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
