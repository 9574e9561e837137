use serde_json::Value;

use super::{Fingerprint, FingerprintError, canonical};

mod properties;
mod spelling;
mod vectors;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn canonical_text(value: &Value) -> String {
    String::from_utf8(canonical(value).unwrap()).unwrap()
}

fn of(text: &str) -> Fingerprint {
    Fingerprint::of(&parsed(text)).unwrap()
}

/// Checks a fingerprint against the output of `printf '{"a":1,"b":"x"}' | sha256sum`, which any
/// implementation of RFC 8785 and SHA-256 has.
#[test]
fn the_fingerprint_is_plain_sha_256_of_the_canonical_form() {
    let expected = "ecf9e98ec0641e23113ff3ce8bdc78d0ddd249886517fd4a7f68cc83d4e65667";
    assert_eq!(of(r#"{"b":"x", "a":1.0}"#).as_str(), expected);
}

#[test]
fn order_and_white_space_do_not_matter() {
    assert_eq!(of(r#"{"a":1,"b":[true,null]}"#), of("{ \"b\" : [ true, null ],\n \"a\" : 1 }"));
}

#[test]
fn values_null_and_the_order_of_items_do() {
    let base = of(r#"{"a":[1,2]}"#);
    for other in [r#"{"a":[2,1]}"#, r#"{"a":[1,2],"b":null}"#, r#"{"a":["1",2]}"#, r#"{"A":[1,2]}"#] {
        assert_ne!(base, of(other), "{other}");
    }
}

/// Checks that integers beyond ±(2^53-1) are refused. For example, 2^53 and 2^53+1 are the same
/// double, so their fingerprints would be equal.
#[test]
fn integers_that_are_no_double_of_their_own_have_no_fingerprint() {
    for integer in ["9007199254740992", "-9007199254740992", "18446744073709551615", "-9223372036854775808"] {
        for body in [integer.to_owned(), format!("[{integer}]"), format!("{{\"a\":{{\"b\":{integer}}}}}")] {
            match Fingerprint::of(&parsed(&body)) {
                Err(FingerprintError::IntegerTooLarge(number)) => assert_eq!(number.to_string(), integer),
                other => panic!("{body}: {other:?}"),
            }
        }
    }
    assert_ne!(of("9007199254740991"), of("9007199254740990"));
    assert_eq!(of("-9007199254740991"), of("-9007199254740991.0"));
}
