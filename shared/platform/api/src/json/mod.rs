//! Strict JSON: a text that two parsers could understand differently is refused.
//!
//! A body must be UTF-8, without duplicate members, lone surrogates or trailing text. Integer
//! literals must be within ±(2^53-1), names have at most 1 KiB, and there are at most 64 levels.
//! Beyond 2^53, different integers may have one canonical form (RFC 8785). Of two members with one
//! name, some parsers keep the first and others the last.
//!
//! The cost of parsing and reading is linear in the body's length, whatever its shape; the test
//! `linear` checks that.

mod form;
mod objects;
mod pointer;
mod strict;

use serde_json::Value;

pub use self::form::read;
use self::strict::{Findings, MAX_INTEGER, Strict};
use crate::problem::{Fault, Problem};
use crate::reason::Reason;

/// Parses a request's body as JSON.
///
/// # Errors
/// A [`Problem`] with the fault and its place: `MALFORMED_JSON`, `DUPLICATE_MEMBER`,
/// `NUMBER_OUT_OF_RANGE`, or `SCHEMA_VIOLATION` if a name is too long or there are too many arrays
/// and objects.
pub fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| malformed(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    let findings = Findings::default();
    let mut parser = serde_json::Deserializer::from_str(text);
    let parsed = serde::de::DeserializeSeed::deserialize(Strict::document(&findings), &mut parser);
    let parsed = parsed.and_then(|value| parser.end().map(|()| value));
    if let Some(refusal) = findings.refusal.take() {
        return Err(refusal);
    }
    let value = parsed.map_err(|error| explain(&error))?;
    // Only literals beyond 64 bits are left to search for, and only they come as such doubles.
    let offset = if findings.has_large_double.get() { integer_out_of_range(text) } else { None };
    match offset {
        None => Ok(value),
        Some(offset) => {
            let detail = format!("the integer at byte {offset} is beyond ±9007199254740991 (2^53-1)");
            Err(whole(Reason::NumberOutOfRange, detail))
        }
    }
}

/// Creates the problem for a fault of the body as a whole.
fn whole(reason: Reason, detail: String) -> Problem {
    Problem::faulty(reason, vec![Fault { pointer: String::new(), detail }])
}

fn malformed(detail: String) -> Problem {
    whole(Reason::MalformedJson, detail)
}

/// Converts an error of `serde_json`'s parser to a problem. The parser's messages repeat nothing of
/// the body.
fn explain(error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    if error.is_eof() && error.line() == 1 && error.column() == 0 {
        return malformed("the body is empty".to_owned());
    }
    if message.starts_with("number out of range") {
        let detail =
            format!("a number at line {} column {} is beyond a double", error.line(), error.column());
        return whole(Reason::NumberOutOfRange, detail);
    }
    malformed(message)
}

/// Returns the byte offset of the first integer literal beyond ±(2^53-1) in `text`, which is valid
/// JSON.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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
        assert!(refused(r#"{"a":[1, 9007199254740993]}"#).1.starts_with("/a/1: "));
        assert!(refused("[1, 100000000000000000000]").1.contains("byte 4"));
        let long = "a".repeat(1025);
        assert_eq!(refused(&format!("{{\"{long}\":1}}")).0, Reason::SchemaViolation);
        assert!(parse(format!("{{\"{}\":1}}", "a".repeat(1024)).as_bytes()).is_ok());
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
        assert!(parse(("[".repeat(64) + "0" + &"]".repeat(64)).as_bytes()).is_ok());
        for depth in [65, 127, 128, 129, 100_000] {
            let (reason, detail) = refused(&nested(depth));
            assert_eq!(
                (reason, detail.as_str()),
                (Reason::MalformedJson, "nested deeper than 64 levels"),
                "{depth}"
            );
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
