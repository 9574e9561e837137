//! Tests that the contract and the code accept the same header values.

use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};
use idempotency::{IdempotencyKey, KeyForm};
use proptest::prelude::*;
use serde_json::json;

use crate::bounds::contract::schema;

const KEY: &str = "5c1e0a56-4a58-4aaf-9359-83ec8f663f10";

fn is_described(value: &str, form: KeyForm) -> bool {
    let name = match form {
        KeyForm::Uuid => "IdempotencyKey",
        KeyForm::Text => "TextIdempotencyKey",
    };
    jsonschema::is_valid(schema(name), &json!(value))
}

fn is_key(value: &str, form: KeyForm) -> bool {
    IdempotencyKey::parse(value, form).is_ok()
}

#[test]
fn a_key_with_parameters_is_described_as_it_is_taken() {
    for (value, is_key) in [
        (KEY.to_owned(), true),
        (KEY.to_uppercase(), true),
        (format!("\"{KEY}\""), true),
        (format!("\"{KEY}\";a"), true),
        (format!("\"{KEY}\";a=1;b=-1.5;  c=\"x \\\"y\\\\\";d=?1;*e=*t/x:y"), true),
        (format!("\"{KEY}\";{}", "a;".repeat(107) + "ab"), true),
        (format!("\"{KEY}\";{}", "a;".repeat(107) + "abc"), false),
        (format!("{KEY}\""), false),
        (format!("\"{KEY}"), false),
        (format!("{KEY};a=1"), false),
        (format!("\"{KEY}\" ;a=1"), false),
        (format!("\"{KEY}\";A=1"), false),
        (format!("\"{KEY}\";a="), false),
        (format!("\"{KEY}\";"), false),
        (format!("\"{KEY}\";a=1234567890123.5"), false),
    ] {
        let both = (is_described(&value, KeyForm::Uuid), self::is_key(&value, KeyForm::Uuid));
        assert_eq!(both, (is_key, is_key), "contract and code: {value}");
    }
}

#[test]
fn a_text_is_described_as_it_is_taken() {
    let longest = "x".repeat(IdempotencyKey::MAX_TEXT);
    for (value, is_key) in [
        (KEY.to_owned(), true),
        ("loja-12-2026-11-22".to_owned(), true),
        ("a\"b\\#;=~!".to_owned(), true),
        (longest.clone(), true),
        (format!("\"{longest}\";a=1"), true),
        (format!("\"{}\"", "\\\"".repeat(IdempotencyKey::MAX_TEXT)), true),
        (format!("\"x\";{}", "a;".repeat(509) + "ab"), true),
        (format!("\"x\";{}", "a;".repeat(509) + "abc"), false),
        (longest + "x", false),
        ("\"a,b\"".to_owned(), true),
        ("a,b".to_owned(), false),
        (String::new(), false),
        ("\"\"".to_owned(), false),
        ("\"a b\"".to_owned(), false),
        ("a b".to_owned(), false),
        ("\"a".to_owned(), false),
        ("\"a\"b".to_owned(), false),
        ("é".to_owned(), false),
    ] {
        let both = (is_described(&value, KeyForm::Text), self::is_key(&value, KeyForm::Text));
        assert_eq!(both, (is_key, is_key), "contract and code: {value}");
    }
}

proptest! {
    #[test]
    fn what_the_contract_describes_is_a_key_for_the_code(
        parameters in "(; {0,2}[a-c*][a-c0-9_.*-]{0,3}(=([A-Za-z*][a-z:/!]{0,3}|\"([a-z ]|\\\\[\"\\\\]){0,4}\"|\\?[012]|-?[0-9]{1,13}(\\.[0-9]{0,4})?))?){0,3}",
    ) {
        let value = format!("\"{KEY}\"{parameters}");
        for form in [KeyForm::Uuid, KeyForm::Text] {
            if is_described(&value, form) {
                prop_assert!(is_key(&value, form), "{}", value);
            }
        }
    }

    #[test]
    fn what_is_a_key_for_the_code_is_described(value in "\"?[0-9a-f]{8}-4a58-4aaf-9359-83ec8f663f10\"?(;a(=[a-z0-9?\".]{1,4})?)?") {
        for form in [KeyForm::Uuid, KeyForm::Text] {
            prop_assert_eq!(is_described(&value, form), is_key(&value, form), "{}", value);
        }
    }

    #[test]
    fn what_is_a_text_for_the_code_is_described(value in "\"?[!-~]{0,6}\"?") {
        prop_assert_eq!(is_described(&value, KeyForm::Text), is_key(&value, KeyForm::Text), "{}", value);
    }
}

#[test]
fn an_encoding_is_described_as_it_is_taken() {
    for (value, is_one) in [
        ("gzip", true),
        ("GZip", true),
        ("identity", true),
        ("IDENTITY", true),
        ("", true),
        ("br", false),
        ("gzip,", false),
        ("gzip, identity", false),
        ("x-gzip", false),
    ] {
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(value))]);
        let is_taken = api::body::content_encoding(&headers).is_ok();
        let both = (jsonschema::is_valid(schema("Encoding"), &json!(value)), is_taken);
        assert_eq!(both, (is_one, is_one), "{value:?}");
    }
}
