//! Tests of the JSON form of header values: each value has one form, and keeps its type.

use std::collections::BTreeMap;

use mq::{Decimal, HeaderName, HeaderValue, Headers, Time};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Generates header names, among them names that are also type tags.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["base64", "time", "table", "int8", "int64", "textBase64", "decimal", "a"])
            .prop_map(str::to_owned),
        ".{0,5}",
    ]
}

fn not_utf8() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..9)
        .prop_filter("no text", |bytes| std::str::from_utf8(bytes).is_err())
}

fn value() -> impl Strategy<Value = HeaderValue> {
    let leaf = prop_oneof![
        Just(HeaderValue::Null),
        any::<bool>().prop_map(HeaderValue::Boolean),
        any::<i8>().prop_map(HeaderValue::Int8),
        any::<u8>().prop_map(HeaderValue::UInt8),
        any::<i16>().prop_map(HeaderValue::Int16),
        any::<u16>().prop_map(HeaderValue::UInt16),
        any::<i32>().prop_map(HeaderValue::Int32),
        any::<u32>().prop_map(HeaderValue::UInt32),
        any::<i64>().prop_map(HeaderValue::Int64),
        any::<u32>().prop_map(|bits| HeaderValue::Float32(f32::from_bits(bits).into())),
        any::<u64>().prop_map(|bits| HeaderValue::Float64(f64::from_bits(bits).into())),
        (any::<u8>(), any::<u32>())
            .prop_map(|(scale, digits)| HeaderValue::Decimal(Decimal { scale, digits })),
        ".{0,9}".prop_map(HeaderValue::Text),
        not_utf8().prop_map(HeaderValue::TextBytes),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(HeaderValue::Bytes),
        any::<u64>().prop_map(|seconds| HeaderValue::Time(Time::from_seconds(seconds))),
        (0_u64..300_000_000_000).prop_map(|seconds| HeaderValue::Time(Time::from_seconds(seconds))),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(HeaderValue::Array),
            prop::collection::btree_map(name(), inner, 0..3).prop_map(HeaderValue::Table),
        ]
    })
}

fn read(json: Value) -> Result<HeaderValue, String> {
    serde_json::from_value(json).map_err(|error| error.to_string())
}

proptest! {
    #[test]
    fn every_value_is_read_back_as_it_was(value in value()) {
        let text = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(&serde_json::from_str::<HeaderValue>(&text).unwrap(), &value, "{}", text);
        prop_assert_eq!(&read(serde_json::to_value(&value).unwrap()).unwrap(), &value, "{}", text);
    }

    #[test]
    fn no_json_makes_the_reading_fail_badly(
        tag in name(), text in "[-+0-9.:TZeEnaif=]{0,30}",
    ) {
        if let Ok(value) = read(json!({ tag.clone(): text.clone() })) {
            let again = read(serde_json::to_value(&value).unwrap());
            prop_assert_eq!(again, Ok(value), "{} {}", tag, text);
        }
    }

    #[test]
    fn a_number_is_written_with_few_digits_more_than_it_was_given(text in "-?(0|[1-9][0-9]{0,20})(e-?[0-9]{1,2})?") {
        let written = text.parse::<mq::Float64>().unwrap().to_string();
        prop_assert!(written.len() <= text.len() + 4, "{} becomes {}", text, written);
    }
}

#[test]
fn each_type_has_the_form_that_the_contract_describes() {
    for (value, expected) in [
        (HeaderValue::Text("base64".to_owned()), json!("base64")),
        (HeaderValue::Int64(9_007_199_254_740_991), json!(9_007_199_254_740_991_i64)),
        (HeaderValue::Int64(9_007_199_254_740_992), json!({"int64": "9007199254740992"})),
        (HeaderValue::Int32(-7), json!({"int32": "-7"})),
        (HeaderValue::Float64(0.5.into()), json!({"float64": "0.5"})),
        (HeaderValue::Float64(f64::NEG_INFINITY.into()), json!({"float64": "-inf"})),
        (HeaderValue::Float32(f32::NAN.into()), json!({"float32": "NaN"})),
        (HeaderValue::Float64(1e300.into()), json!({"float64": "1e300"})),
        (HeaderValue::Decimal(Decimal { scale: 2, digits: 150 }), json!({"decimal": "1.50"})),
        (HeaderValue::Decimal(Decimal { scale: 2, digits: 5 }), json!({"decimal": "0.05"})),
        (HeaderValue::Decimal(Decimal { scale: 0, digits: 7 }), json!({"decimal": "7"})),
        (HeaderValue::Time(Time::from_seconds(1_790_000_000)), json!({"time": "2026-09-21T14:13:20Z"})),
        (HeaderValue::Time(Time::from_seconds(u64::MAX)), json!({"time": "18446744073709551615"})),
        (HeaderValue::Bytes(vec![1, 2]), json!({"base64": "AQI="})),
        (HeaderValue::TextBytes(vec![0xff]), json!({"textBase64": "/w=="})),
        (HeaderValue::Table(BTreeMap::new()), json!({})),
        (table(&[("time", "noon".into())]), json!({"table": {"time": "noon"}})),
        (table(&[("time", "noon".into()), ("a", HeaderValue::Null)]), json!({"time": "noon", "a": null})),
        (table(&[("a", "b".into())]), json!({"a": "b"})),
    ] {
        assert_eq!(serde_json::to_value(&value).unwrap(), expected);
        assert_eq!(read(expected.clone()), Ok(value), "{expected}");
    }
    assert_eq!(read(json!({"table": {"a": 1}})), Ok(table(&[("a", HeaderValue::Int64(1))])));
    assert_eq!(read(json!({"textBase64": "YQ=="})), Ok("a".into()));
}

fn table(entries: &[(&str, HeaderValue)]) -> HeaderValue {
    HeaderValue::Table(entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

#[test]
fn what_is_no_value_of_its_type_is_refused() {
    for json in [
        json!(0.5),
        json!({"int8": "128"}),
        json!({"int8": "-129"}),
        json!({"uint8": "-1"}),
        json!({"uint32": "4294967296"}),
        json!({"int64": "9223372036854775808"}),
        json!({"int32": 7}),
        json!({"base64": "?"}),
        json!({"base64": {"base64": "YQ=="}}),
        json!({"table": "a"}),
        json!({"table": []}),
        json!({"float64": "half"}),
        json!({"decimal": "-1"}),
        json!({"decimal": "1."}),
        json!({"decimal": ".5"}),
        json!({"decimal": "4294967296"}),
        json!({"decimal": format!("0.{}", "0".repeat(256))}),
        json!({"time": "2026-09-21"}),
        json!({"time": "2026-09-21T14:13:20"}),
        json!({"time": "2026-09-21 14:13:20Z"}),
        json!({"time": "2026-13-21T14:13:20Z"}),
        json!({"time": "1969-12-31T23:59:59Z"}),
        json!({"time": "1790000000"}),
        json!({"time": "18446744073709551616"}),
        json!({"time": ""}),
        json!({"a": {"n".repeat(256): 1}}),
    ] {
        assert!(read(json.clone()).is_err(), "{json}");
    }
}

#[test]
fn tables_and_arrays_nest_to_a_limit() {
    let nested = |levels: usize, open: fn(Value) -> Value| (0..levels).fold(json!(1), |inner, _| open(inner));
    let forms: [fn(Value) -> Value; 3] =
        [|inner| json!([inner]), |inner| json!({ "a": inner }), |inner| json!({"table": {"base64": inner}})];
    for open in forms {
        assert!(read(nested(HeaderValue::MAX_DEPTH, open)).is_ok());
        assert!(read(nested(HeaderValue::MAX_DEPTH + 1, open)).is_err());
    }
}

#[test]
fn the_bounds_of_headers_count_what_is_nested() {
    let headers = |value: HeaderValue| {
        let name = HeaderName::try_from("n".to_owned()).unwrap();
        Headers::try_from(BTreeMap::from([(name, value)]))
    };
    let nulls = |number: usize| HeaderValue::Array(vec![HeaderValue::Null; number]);
    assert!(headers(nulls(Headers::MAX_COUNT - 1)).is_ok());
    assert!(headers(nulls(Headers::MAX_COUNT)).is_err());
    assert!(headers(HeaderValue::Bytes(vec![0; Headers::MAX_BYTES - 1])).is_ok());
    assert!(headers(HeaderValue::Bytes(vec![0; Headers::MAX_BYTES])).is_err());
    let inner = |length: usize| table(&[("name", "v".repeat(length).as_str().into())]);
    assert!(headers(inner(Headers::MAX_BYTES - 1 - 4 - 4)).is_ok());
    assert!(headers(inner(Headers::MAX_BYTES - 1 - 4 - 3)).is_err());
}

#[test]
fn a_time_keeps_its_fraction_and_is_shown_in_utc() {
    for (text, shown) in [
        ("2026-09-21T11:13:20.120-03:00", "2026-09-21T14:13:20.12Z"),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("2026-09-21T14:13:20.123456789+00:00", "2026-09-21T14:13:20.123456789Z"),
    ] {
        let time: Time = text.parse().unwrap();
        assert_eq!(time.to_string(), shown);
        assert!(text.len() <= Time::MAX_BYTES);
    }
    assert_eq!("2026-09-21T14:13:20.999Z".parse::<Time>().unwrap().as_seconds(), 1_790_000_000);
}
