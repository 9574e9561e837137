//! Strict JSON: what two readers could understand differently is refused.
//!
//! UTF-8, no duplicate members, no lone surrogates, no trailing text, integer literals within ±(2^53-1) and at most
//! 64 levels deep. Beyond 2^53 different integers have one canonical form (RFC 8785), and of two members with
//! one name every parser keeps another.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer as _, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};
use serde_path_to_error::Segment;

use crate::problem::{Fault, Problem};
use crate::reason::Reason;

const MAX_DEPTH: usize = 64;
const MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// Marks errors of this module's own among those of the JSON parser, whose error type carries text only.
const DUPLICATE: &str = "\u{1}duplicate ";
const TOO_DEEP: &str = "\u{1}deep ";

/// Parses a body.
///
/// # Errors
/// A [`Problem`] that says what is wrong and where: `MALFORMED_JSON`, `DUPLICATE_MEMBER` or `NUMBER_OUT_OF_RANGE`.
pub fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    let malformed = |detail: String| {
        Problem::faulty(Reason::MalformedJson, vec![Fault { pointer: String::new(), detail }])
    };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| malformed(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    let mut parser = serde_json::Deserializer::from_str(text);
    let parsed = parser.deserialize_any(Strict { path: Vec::new() }.into_visitor()).and_then(|value| {
        parser.end()?;
        Ok(value)
    });
    let value = parsed.map_err(|error| explain(&error, malformed))?;
    match integer_out_of_range(text) {
        Some(offset) => {
            let detail = format!(
                "the integer at byte {offset} is beyond ±9007199254740991 (2^53-1); send it as a string"
            );
            Err(Problem::faulty(Reason::NumberOutOfRange, vec![Fault { pointer: String::new(), detail }]))
        }
        None => Ok(value),
    }
}

fn explain(error: &serde_json::Error, malformed: impl Fn(String) -> Problem) -> Problem {
    let message = error.to_string();
    if let Some(pointer) = between(&message, DUPLICATE) {
        let fault = Fault { pointer, detail: "stands there more than once".to_owned() };
        return Problem::faulty(Reason::DuplicateMember, vec![fault]);
    }
    if message.contains(TOO_DEEP) || message.starts_with("recursion limit exceeded") {
        return malformed(format!("nested deeper than {MAX_DEPTH} levels"));
    }
    if message.starts_with("number out of range") {
        let detail =
            format!("a number at line {} column {} is beyond a double", error.line(), error.column());
        return Problem::faulty(Reason::NumberOutOfRange, vec![Fault { pointer: String::new(), detail }]);
    }
    malformed(message)
}

/// The text after `mark` up to the position that the parser appends.
fn between(message: &str, mark: &str) -> Option<String> {
    let (_, tail) = message.split_once(mark)?;
    Some(tail.rsplit_once(" at line ").map_or(tail, |(pointer, _)| pointer).to_owned())
}

/// Where the path through a document leads, as a JSON Pointer.
fn pointer(path: &[String]) -> String {
    path.iter().fold(String::new(), |pointer, segment| {
        pointer + "/" + &segment.replace('~', "~0").replace('/', "~1")
    })
}

/// Builds a [`Value`] and refuses what [`Value`]'s own reader lets pass.
struct Strict {
    path: Vec<String>,
}

impl Strict {
    fn into_visitor(self) -> Self {
        self
    }

    fn below(&self, segment: String) -> Self {
        let mut path = self.path.clone();
        path.push(segment);
        Self { path }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.path.len() >= MAX_DEPTH {
            return Err(D::Error::custom(TOO_DEEP));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
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

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    /// `16.0` is the integer 16.
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        let integer = (value.fract() == 0.0).then(|| format!("{value:.0}").parse::<i64>().ok()).flatten();
        Ok(match integer.filter(|integer| integer.unsigned_abs() <= MAX_INTEGER) {
            Some(integer) => integer.into(),
            None => Number::from_f64(value).map_or(Value::Null, Value::Number),
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.below(array.len().to_string()))? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let member = self.below(name.clone());
            if object.contains_key(&name) {
                return Err(A::Error::custom(format!("{DUPLICATE}{}", pointer(&member.path))));
            }
            object.insert(name, members.next_value_seed(member)?);
        }
        Ok(Value::Object(object))
    }
}

/// The offset of the first integer literal beyond ±(2^53-1) in `text`, which is valid JSON.
fn integer_out_of_range(text: &str) -> Option<usize> {
    let mut in_string = false;
    let mut escaped = false;
    let mut number: Option<usize> = None;
    for (offset, byte) in text.bytes().chain([b' ']).enumerate() {
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match (number, byte) {
            (None, b'-' | b'0'..=b'9') => number = Some(offset),
            (Some(_), b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E') => {}
            (Some(start), _) => {
                if text.get(start..offset).is_some_and(is_unsafe_integer) {
                    return Some(start);
                }
                number = None;
            }
            (None, _) => {}
        }
        in_string = byte == b'"';
    }
    None
}

fn is_unsafe_integer(literal: &str) -> bool {
    let digits = literal.trim_start_matches('-');
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer && digits.parse::<u64>().ok().is_none_or(|integer| integer > MAX_INTEGER)
}

/// Reads a type from a parsed body.
///
/// # Errors
/// `SCHEMA_VIOLATION` with a pointer to the member at fault; an unknown member's pointer names it.
pub fn read<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path: Vec<String> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                Segment::Map { key } => Some(key.clone()),
                Segment::Seq { index } => Some(index.to_string()),
                Segment::Enum { .. } | Segment::Unknown => None,
            })
            .collect();
        Problem::violation(pointer(&path), plain(&error.inner().to_string()))
    })
}

/// Says in a caller's words what serde found, and repeats nothing of the body.
fn plain(message: &str) -> String {
    if message.starts_with("unknown field") {
        return "is not a member of this object".to_owned();
    }
    if let Some(field) = message.strip_prefix("missing field `").and_then(|field| field.strip_suffix('`')) {
        return format!("the member `{field}` is required");
    }
    if message.starts_with("unknown variant") {
        let expected = message.rsplit_once("expected ").map_or("", |(_, expected)| expected);
        return format!("must be {}", expected.replace('`', "\""));
    }
    let mismatch = message.starts_with("invalid type")
        || message.starts_with("invalid value")
        || message.starts_with("invalid length");
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if mismatch => format!("must be {}", json_type(expected)),
        _ => message.to_owned(),
    }
}

fn json_type(expected: &str) -> &str {
    match expected {
        "i64" | "u64" | "u32" | "u8" => "an integer",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        expected if expected == "a map" || expected.starts_with("struct ") => "an object",
        expected => expected,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    fn refused(text: &str) -> (Reason, String) {
        let problem = parse(text.as_bytes()).expect_err(text);
        (problem.reason, problem.detail)
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        for (text, reason) in [
            ("", Reason::MalformedJson),
            ("{\"a\":1", Reason::MalformedJson),
            ("{\"a\":1}}", Reason::MalformedJson),
            ("{\"a\":1} x", Reason::MalformedJson),
            ("{'a':1}", Reason::MalformedJson),
            ("{\"a\":01}", Reason::MalformedJson),
            ("[1,]", Reason::MalformedJson),
            ("{\"a\":NaN}", Reason::MalformedJson),
            ("\"\\ud800\"", Reason::MalformedJson),
            ("\"\\udc00\\ud800\"", Reason::MalformedJson),
            ("\u{feff}{}", Reason::MalformedJson),
            ("{\"a\":1,\"a\":1}", Reason::DuplicateMember),
            ("{\"a\":1,\"\\u0061\":2}", Reason::DuplicateMember),
            ("9007199254740992", Reason::NumberOutOfRange),
            ("[-9007199254740992]", Reason::NumberOutOfRange),
            ("{\"a\":100000000000000000000000}", Reason::NumberOutOfRange),
            ("1e400", Reason::NumberOutOfRange),
        ] {
            assert_eq!(refused(text).0, reason, "{text}");
        }
        assert_eq!(parse(b"\"\xff\"").unwrap_err().reason, Reason::MalformedJson);
    }

    #[test]
    fn a_refusal_says_where() {
        assert_eq!(refused(r#"{"a":[{"b/c":1,"b/c":2}]}"#).1, "/a/0/b~1c: stands there more than once");
        assert!(refused("{\n \"a\": tru }").1.contains("line 2"), "{}", refused("{\n \"a\": tru }").1);
        assert!(refused("[1, 9007199254740993]").1.contains("byte 4"));
    }

    #[test]
    fn digits_in_strings_and_fractions_are_not_integers() {
        for text in
            [r#""9007199254740993""#, r#"{"9007199254740993":"\"9007199254740993"}"#, "9007199254740993.5e1"]
        {
            assert!(parse(text.as_bytes()).is_ok(), "{text}");
        }
        assert_eq!(parse(b"9007199254740991").unwrap(), json!(9_007_199_254_740_991_i64));
    }

    #[test]
    fn a_whole_double_is_an_integer() {
        assert_eq!(parse(b"[16.0, 1e3, -0.0, 0.5]").unwrap(), json!([16, 1000, 0, 0.5]));
    }

    #[test]
    fn depth_is_limited_to_64_levels() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(nested(64).as_bytes()).is_ok());
        for depth in [65, 127, 128, 129, 100_000] {
            let (reason, detail) = refused(&nested(depth));
            assert_eq!(
                (reason, detail.as_str()),
                (Reason::MalformedJson, "nested deeper than 64 levels"),
                "{depth}"
            );
        }
    }

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
                "is not a member of this object",
            ),
            (json!({"items": [{"size": "top secret"}]}), "/items/0/size", "must be an integer"),
            (json!({"items": [{}]}), "/items/0", "the member `size` is required"),
            (json!({"items": {}}), "/items", "must be an array"),
            (json!([]), "", "must be an object"),
        ] {
            let problem = read::<Form>(value).unwrap_err();
            let [fault] = problem.faults.as_slice() else { panic!("one fault") };
            assert_eq!((fault.pointer.as_str(), fault.detail.as_str()), (pointer, detail));
            assert!(!problem.detail.contains("top secret"));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn what_serde_json_writes_is_read_back(text in "\\PC*", number in -9_007_199_254_740_991_i64..=9_007_199_254_740_991) {
            let value = json!({"text": text, "numbers": [number, true, null]});
            prop_assert_eq!(parse(value.to_string().as_bytes()).unwrap(), value);
        }
    }
}
