//! Conversion of a parsed body to the struct of an operation, or to a problem with the faulty
//! members.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::objects::Objects;
use super::pointer::{Step, pointer};
use crate::nearest::nearest;
use crate::problem::{Fault, Problem};
use crate::reason::Reason;

/// Maximum number of faults that one response reports. Each of them takes another attempt to
/// deserialize the body.
const MAX_FAULTS: usize = 8;

/// Deserializes `T` from a parsed body.
///
/// # Errors
/// `SCHEMA_VIOLATION` with a JSON pointer to each faulty member, up to the first 8. An unknown
/// member is reported by its own pointer. A missing member ends the search for further faults.
pub fn read<T: DeserializeOwned>(mut value: Value) -> Result<T, Problem> {
    // The names of all members are copied, to find the place of a fault, only if there is one.
    if let Ok(form) = serde::Deserialize::deserialize(Objects(&value)) {
        return Ok(form);
    }
    let mut faults: Vec<Fault> = Vec::new();
    while faults.len() < MAX_FAULTS {
        let error = match serde_path_to_error::deserialize::<_, T>(Objects(&value)) {
            Ok(form) if faults.is_empty() => return Ok(form),
            Ok(_) => break,
            Err(error) => error,
        };
        let found = Found::of(&error);
        if faults.iter().any(|known| found.follows_from(known)) {
            break;
        }
        let is_mended = found.mend(&mut value);
        faults.push(found.fault);
        if !is_mended {
            break;
        }
    }
    Err(Problem::faulty(Reason::SchemaViolation, faults))
}

/// Fault at which one attempt to deserialize the body stopped.
struct Found {
    fault: Fault,
    /// Path of the member that has the fault.
    path: Vec<OwnedStep>,
    kind: Kind,
}

/// Step on the path to a member, owned so that it outlives the error of `serde_path_to_error`.
enum OwnedStep {
    Member(String),
    Item(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The JSON object has an unknown member.
    Unknown,
    /// The JSON object lacks a member.
    Missing,
    /// The value does not fit the type of the member.
    Unfit,
}

impl Found {
    fn of(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let message = error.inner().to_string();
        let path: Vec<OwnedStep> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                Segment::Map { key } => Some(OwnedStep::Member(key.clone())),
                Segment::Seq { index } => Some(OwnedStep::Item(*index)),
                Segment::Enum { .. } | Segment::Unknown => None,
            })
            .collect();
        let steps = path.iter().map(|step| match step {
            OwnedStep::Member(name) => Step::Member(name),
            OwnedStep::Item(index) => Step::Item(*index),
        });
        let pointer = pointer(steps);
        let (kind, detail) = if message.starts_with("unknown field") {
            let name = match path.last() {
                Some(OwnedStep::Member(name)) => name.as_str(),
                _ => "",
            };
            (Kind::Unknown, unknown(name, &message))
        } else if message.starts_with("missing field") {
            (Kind::Missing, plain(&message))
        } else {
            (Kind::Unfit, plain(&message))
        };
        Self { fault: Fault { pointer, detail }, path, kind }
    }

    /// Returns whether the fault exists only because [`mend`](Self::mend) changed the body to get
    /// past the earlier fault `known`.
    fn follows_from(&self, known: &Fault) -> bool {
        let is_within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (here, there) = (self.fault.pointer.as_str(), known.pointer.as_str());
        self.kind != Kind::Missing && (is_within(here, there) || is_within(there, here))
    }

    /// Changes the body `value` so that the next attempt to deserialize it does not find this fault
    /// again: an unknown member is removed, any other value becomes null, which counts as absent.
    /// Returns false if that is not possible.
    fn mend(&self, value: &mut Value) -> bool {
        let (Some((last, above)), true) = (self.path.split_last(), self.kind != Kind::Missing) else {
            return false;
        };
        let holder = above.iter().try_fold(value, |value, step| match step {
            OwnedStep::Member(name) => value.get_mut(name),
            OwnedStep::Item(index) => value.get_mut(index),
        });
        match (holder, last) {
            (Some(Value::Object(members)), OwnedStep::Member(name)) if self.kind == Kind::Unknown => {
                members.remove(name).is_some()
            }
            (Some(holder), OwnedStep::Member(name)) => holder.get_mut(name).map(Value::take).is_some(),
            (Some(holder), OwnedStep::Item(index)) => holder.get_mut(index).map(Value::take).is_some(),
            (None, _) => false,
        }
    }
}

/// Describes an unknown member for the client: with the name that was probably meant, or with all
/// known names. `message` is serde's error message.
fn unknown(name: &str, message: &str) -> String {
    let listed = message.rsplit_once(", expected ").map_or("", |(_, listed)| listed);
    let known: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("is not a member of this object; did you mean `{meant}`?"),
        None if known.is_empty() => "is not a member of this object".to_owned(),
        None => format!("is not a member of this object, which takes `{}`", known.join("`, `")),
    }
}

/// Rewrites serde's error message for the caller, without any value of the body.
fn plain(message: &str) -> String {
    if let Some(field) = message.strip_prefix("missing field `").and_then(|field| field.strip_suffix('`')) {
        return format!("the member `{field}` is required");
    }
    if message.starts_with("unknown variant") {
        let expected = message.rsplit_once("expected ").map_or("", |(_, expected)| expected);
        return format!("must be {}", expected.replace('`', "\""));
    }
    let mismatch = ["invalid type: ", "invalid value: "];
    let mismatch = mismatch.iter().find_map(|prefix| message.strip_prefix(prefix));
    match (mismatch, message.rsplit_once(", expected ")) {
        (Some(found), Some((_, expected))) => match found_type(found) {
            Some(found) if found == json_type(expected) => format!("is {found} beyond what is allowed"),
            Some(found) => format!("must be {}, not {found}", json_type(expected)),
            None => format!("must be {}", json_type(expected)),
        },
        _ => message.to_owned(),
    }
}

/// Returns the JSON type of the value in serde's error message, without the value itself; `None` if
/// the message names no such type.
fn found_type(found: &str) -> Option<&'static str> {
    let types = [
        ("string", "a string"),
        ("integer", "an integer"),
        ("floating point", "a number with a fraction"),
        ("boolean", "true or false"),
        ("null", "null"),
        ("map", "an object"),
        ("sequence", "an array"),
    ];
    types.into_iter().find(|(name, _)| found.starts_with(name)).map(|(_, shown)| shown)
}

fn json_type(expected: &str) -> &str {
    match expected {
        "i64" | "u64" | "u32" | "u8" => "an integer",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "string or map" => "a string",
        expected if expected == "a map" || expected.starts_with("struct ") => "an object",
        expected => expected,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        #[expect(dead_code, reason = "only its reading is tested")]
        items: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        #[expect(dead_code, reason = "only its reading is tested")]
        size: u32,
    }

    #[test]
    fn a_violation_names_the_member_and_repeats_no_value() {
        for (value, pointer, detail) in [
            (
                json!({"items": [{"size": 1, "colour": "red"}]}),
                "/items/0/colour",
                "is not a member of this object, which takes `size`",
            ),
            (
                json!({"items": [{"size": 1, "siez": "red"}]}),
                "/items/0/siez",
                "is not a member of this object; did you mean `size`?",
            ),
            (json!({"items": [{"size": "top secret"}]}), "/items/0/size", "must be an integer, not a string"),
            (
                json!({"items": [{"size": 1.5}]}),
                "/items/0/size",
                "must be an integer, not a number with a fraction",
            ),
            (json!({"items": [{"size": -1}]}), "/items/0/size", "is an integer beyond what is allowed"),
            (json!({"items": [{}]}), "/items/0", "the member `size` is required"),
            (json!({"items": {}}), "/items", "must be an array, not an object"),
            (json!([]), "", "must be an object, not an array"),
            (json!([[]]), "", "must be an object, not an array"),
            (json!({"items": [[1]]}), "/items/0", "must be an object, not an array"),
        ] {
            let problem = read::<Form>(value).unwrap_err();
            let [fault] = problem.faults.as_slice() else { panic!("one fault: {problem}") };
            assert_eq!((fault.pointer.as_str(), fault.detail.as_str()), (pointer, detail));
            assert!(!problem.detail.contains("top secret"));
        }
    }

    fn pointers(value: Value) -> Vec<String> {
        read::<Form>(value).unwrap_err().faults.into_iter().map(|fault| fault.pointer).collect()
    }

    #[test]
    fn all_faults_are_named_at_once_and_none_that_follows_from_another() {
        let value = json!({"itmes": [], "items": [{"size": 1, "a": 1}, {"b": 1}], "more": true});
        assert_eq!(pointers(value), ["/items/0/a", "/items/1/b", "/items/1"]);
        let value = json!({"itmes": [], "items": [{"size": 1, "a": 1}], "more": true});
        assert_eq!(pointers(value), ["/items/0/a", "/itmes", "/more"]);
        // A required member of another type is not reported as missing.
        let value = json!({"items": [{"size": "a", "b": 1}]});
        assert_eq!(pointers(value), ["/items/0/b", "/items/0/size"]);
        // Null is no array either, so nothing behind it can be read.
        assert_eq!(pointers(json!({"items": 1, "more": true})), ["/items"]);
        let problem = read::<Form>(json!({"items": [], "a": 1, "b": 2})).unwrap_err();
        let first = "/a: is not a member of this object, which takes `items`";
        assert_eq!(problem.detail, format!("{first} (one of 2 faults, which `errors` lists)"));
    }

    #[test]
    fn the_search_for_faults_ends() {
        let items: Vec<Value> = (0..100_000).map(|_| json!({"size": 1, "a": 1})).collect();
        assert_eq!(pointers(json!({"items": items})).len(), MAX_FAULTS);
    }
}
