//! Builds a [`Value`] from JSON, and refuses texts that [`Value`]'s own `Deserialize` accepts, such
//! as those with duplicate members.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::pointer::{Path, Step};
use crate::problem::{Fault, Problem};
use crate::reason::Reason;

/// Maximum depth of nested arrays and objects in a JSON document.
pub(super) const MAX_DEPTH: usize = 64;
/// Maximum bytes of a member's name. No request has a member with a longer name.
pub(super) const MAX_NAME: usize = 1024;
/// Maximum number of arrays and objects in a document. The smallest object has six bytes of text,
/// and takes 640 bytes of memory; a hundred thousand messages with headers need 200,000.
pub(super) const MAX_NESTS: usize = 250_000;
/// Maximum integer for which no other integer has the same double: 2^53-1 (RFC 7493, section 2.2).
pub(super) const MAX_INTEGER: u64 = 9_007_199_254_740_991;
/// Smallest absolute value from which on `serde_json` parses an integer literal as a double: 2^63.
const COMES_AS_DOUBLE: f64 = 9_223_372_036_854_775_808.0;

/// State that all deserializers of one document share: the reason to refuse the document, and what
/// they found in it so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Problem for which the document is refused; `None` as long as there is no such problem.
    /// Errors of `serde_json` could not carry it.
    pub(super) refusal: RefCell<Option<Problem>>,
    /// Number of arrays and objects in the document so far.
    nests: Cell<usize>,
    /// True if a double was found that is so large that its literal may have been an integer.
    pub(super) has_large_double: Cell<bool>,
}

/// Strict deserializer for the value at `path`.
#[derive(Clone, Copy)]
pub(super) struct Strict<'a> {
    path: &'a Path<'a>,
    /// Number of nested arrays and objects around the value; 0 for the whole document.
    depth: usize,
    findings: &'a Findings,
}

impl<'a> Strict<'a> {
    pub(super) fn document(findings: &'a Findings) -> Self {
        Self { path: &Path::ROOT, depth: 0, findings }
    }

    fn refuse<E: Error>(&self, path: &Path<'_>, reason: Reason, detail: String) -> E {
        let fault = Fault { pointer: path.pointer(), detail };
        self.findings.refusal.replace(Some(Problem::faulty(reason, vec![fault])));
        E::custom("refused")
    }

    /// Returns the deserializer for the values directly inside an array or object. Fails if the
    /// document has too many levels, or too many arrays and objects.
    fn inside<'b, E: Error>(&'b self) -> Result<Inside<'b>, E> {
        if self.depth >= MAX_DEPTH {
            let detail = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(self.refuse(&Path::ROOT, Reason::MalformedJson, detail));
        }
        let nests = self.findings.nests.get().saturating_add(1);
        self.findings.nests.set(nests);
        if nests > MAX_NESTS {
            let detail = format!("a body may hold {MAX_NESTS} arrays and objects");
            return Err(self.refuse(&Path::ROOT, Reason::SchemaViolation, detail));
        }
        Ok(Inside { of: self })
    }

    fn integer<E: Error>(&self, value: impl Into<Number>, magnitude: u64) -> Result<Value, E> {
        if magnitude > MAX_INTEGER {
            let detail = "is an integer beyond ±9007199254740991 (2^53-1)".to_owned();
            return Err(self.refuse(self.path, Reason::NumberOutOfRange, detail));
        }
        Ok(Value::Number(value.into()))
    }
}

/// Deserializer for the values inside an array or object.
struct Inside<'a> {
    of: &'a Strict<'a>,
}

impl Inside<'_> {
    fn at<'b>(&'b self, path: &'b Path<'b>) -> Strict<'b> {
        Strict { path, depth: self.of.depth.saturating_add(1), findings: self.of.findings }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.integer(value, value.unsigned_abs())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.integer(value, value)
    }

    /// Converts a double without a fraction to an integer, such as `16.0` to 16.
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        if value.abs() >= COMES_AS_DOUBLE {
            self.findings.has_large_double.set(true);
        } else if value.fract() == 0.0
            && let Ok(integer) = format!("{value:.0}").parse::<i64>()
            && integer.unsigned_abs() <= MAX_INTEGER
        {
            return Ok(integer.into());
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut array = Vec::new();
        while let Some(item) =
            items.next_element_seed(inside.at(&self.path.below(Step::Item(array.len()))))?
        {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let path = self.path.below(Step::Member(&name));
            if name.len() > MAX_NAME {
                let detail = format!("a member's name may have {MAX_NAME} bytes");
                return Err(self.refuse(&path, Reason::SchemaViolation, detail));
            }
            if object.contains_key(&name) {
                let detail = "stands there more than once".to_owned();
                return Err(self.refuse(&path, Reason::DuplicateMember, detail));
            }
            let value = members.next_value_seed(inside.at(&path))?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}
