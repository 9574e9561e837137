//! Tests that events are written as their schema describes, and that no other text is read as an
//! event.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

use api::idempotency_key::{IdempotencyKey, KeyForm};
use events::{Attributes, Event, EventError};
use jsonschema::Validator;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const KEY: &str = "5c1e0a56-4a58-4aaf-9359-83ec8f663f10";
const CLIENTS_KEY: &str = "0192a3b4-c5d6-7e8f-9a0b-1c2d3e4f5a6b";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunk {
    batch: String,
    items: u32,
}

fn schema() -> Validator {
    let schema = serde_json::from_str(Event::SCHEMA).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    jsonschema::draft202012::options().should_validate_formats(true).build(&schema).unwrap()
}

fn attributes() -> Attributes {
    Attributes {
        id: "01JD0Q".to_owned(),
        source: "/batches/17".to_owned(),
        event_type: "com.example.chunk.ready".to_owned(),
        subject: Some("chunk 3".to_owned()),
        time: "2026-11-21T10:00:00.123Z".parse().unwrap(),
        idempotency_key: IdempotencyKey::parse(KEY, KeyForm::Uuid).unwrap(),
        source_idempotency_key: Some(
            IdempotencyKey::parse(&CLIENTS_KEY.to_uppercase(), KeyForm::Text).unwrap(),
        ),
        tenant: "tenant".to_owned(),
        trace_id: "trace-1".to_owned(),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
    }
}

fn chunk() -> Chunk {
    Chunk { batch: "b".to_owned(), items: 1000 }
}

fn event() -> Event<Chunk> {
    Event::new(attributes(), chunk()).unwrap()
}

fn read(event: &Value) -> Result<Event<Chunk>, EventError> {
    Event::read(event.to_string().as_bytes())
}

#[test]
fn an_event_is_written_under_the_names_of_the_schema() {
    let expected = json!({
        "specversion": "1.0",
        "id": "01JD0Q",
        "source": "/batches/17",
        "type": "com.example.chunk.ready",
        "subject": "chunk 3",
        "time": "2026-11-21T10:00:00.123Z",
        "datacontenttype": "application/json",
        "idempotencykey": KEY,
        "tenant": "tenant",
        "traceid": "trace-1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "data": {"batch": "b", "items": 1000, "source_idempotency_key": CLIENTS_KEY},
    });
    let written = serde_json::to_value(event()).unwrap();
    assert_eq!(written, expected);
    assert!(schema().is_valid(&written));
    let read = read(&written).unwrap();
    assert_eq!(read.data(), &chunk());
    assert_eq!(read.fingerprint(), event().fingerprint());
    assert_eq!(serde_json::to_value(read).unwrap(), written);
}

#[test]
fn an_event_of_a_request_with_a_trace_context_carries_it() {
    let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let of = |trace_id: &str| {
        let attributes = Attributes { trace_id: trace_id.to_owned(), traceparent: None, ..attributes() };
        let written = serde_json::to_value(Event::new(attributes, chunk()).unwrap()).unwrap();
        assert!(schema().is_valid(&written), "{written}");
        (written["traceid"].clone(), written.get("traceparent").cloned())
    };
    assert_eq!(of(context), (json!(context), Some(json!(context))));
    assert_eq!(of("mine"), (json!("mine"), None));
}

/// Faulty events: for each, the wrong attribute, its value (`None` if the attribute is missing),
/// and a part of the expected error text.
fn faults() -> Vec<(&'static str, Option<Value>, &'static str)> {
    let upper = KEY.to_uppercase();
    let long = "x".repeat(256);
    let source_key = |key: &str| Some(json!({"batch": "b", "items": 1, "source_idempotency_key": key}));
    vec![
        ("data", source_key(&upper), "and a UUID in lower case"),
        ("data", source_key(&long), "must be 1 to 255 visible ASCII"),
        ("specversion", None, "the event's specversion is missing"),
        ("specversion", Some(json!("0.3")), "the event's specversion must be \"1.0\""),
        ("specversion", Some(json!(1.0)), "the event's specversion must be a string"),
        ("datacontenttype", Some(json!("text/plain")), "must be \"application/json\""),
        ("id", None, "the event's id is missing"),
        ("id", Some(json!("")), "the event's id must be a string of 1 to 255"),
        ("id", Some(json!(17)), "the event's id must be a string"),
        ("source", Some(json!("//host/a")), "the event's source must be an absolute path"),
        ("source", Some(json!("/a b")), "the event's source must be an absolute path"),
        ("source", Some(json!(long)), "the event's source must be an absolute path"),
        ("type", None, "the event's type is missing"),
        ("type", Some(json!("a\u{7f}")), "the event's type must be a string of 1 to 255"),
        ("subject", Some(Value::Null), "the event's subject must be a string"),
        ("time", None, "the event's time is missing"),
        ("time", Some(json!("2026-11-21 10:00:00Z")), "the event's time must be a time in UTC"),
        ("time", Some(json!("2026-11-21T10:00:00+00:00")), "the event's time must be a time in UTC"),
        ("time", Some(json!("2026-11-21T10:00Z")), "the event's time must be a time in UTC"),
        ("time", Some(json!("2026-02-30T10:00:00Z")), "the event's time must be a time in UTC"),
        ("idempotencykey", None, "the event's idempotencykey is missing"),
        ("idempotencykey", Some(json!("chunk-3")), "the event's idempotencykey must be a UUID"),
        ("idempotencykey", Some(json!(upper)), "the event's idempotencykey must be a UUID in lower case"),
        ("idempotencykey", Some(json!(format!("\"{KEY}\""))), "the event's idempotencykey must be a UUID"),
        ("idempotencykey", Some(json!("00000000-0000-0000-0000-000000000000")), "must be a UUID"),
        ("tenant", None, "the event's tenant is missing"),
        ("tenant", Some(json!(long)), "the event's tenant must be a string of 1 to 255"),
        ("traceid", None, "the event's traceid is missing"),
        ("traceid", Some(json!("a b")), "the event's traceid must be 1 to 128 visible"),
        ("traceparent", Some(json!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331")), "version 00"),
        ("data", None, "the event's data must be an object"),
        ("data", Some(json!([1])), "the event's data must be an object"),
        (
            "data",
            Some(json!({"batch": "b", "items": 1, "source_idempotency_key": "a b"})),
            "source_idempotency_key must be 1 to 255 visible ASCII",
        ),
    ]
}

#[test]
fn what_the_schema_refuses_is_not_read_and_the_error_says_why() {
    let schema = schema();
    for (attribute, value, said) in faults() {
        let mut event = serde_json::to_value(event()).unwrap();
        match &value {
            Some(value) => event[attribute] = value.clone(),
            None => drop(event.as_object_mut().unwrap().remove(attribute)),
        }
        assert!(!schema.is_valid(&event), "the schema allows {attribute}: {value:?}");
        let error = read(&event).expect_err(attribute).to_string();
        assert!(error.contains(said), "{attribute}: {value:?}: {error}");
    }
    for text in ["", "[]", "{", "null", "{} x"] {
        assert!(matches!(Event::<Value>::read(text.as_bytes()), Err(EventError::Form(_))), "{text}");
    }
}

#[test]
fn an_event_that_could_not_be_read_is_not_made() {
    let wrong = Attributes { tenant: String::new(), ..attributes() };
    assert!(matches!(Event::new(wrong, chunk()), Err(EventError::Attribute { attribute: "tenant", .. })));
    for data in [json!([]), json!("text"), json!({"source_idempotency_key": KEY})] {
        assert!(matches!(Event::new(attributes(), data.clone()), Err(EventError::Data { .. })), "{data}");
    }
    let large = json!({"sequence": 9_007_199_254_740_993_u64});
    assert!(matches!(Event::new(attributes(), large), Err(EventError::Fingerprint(_))));
}

#[test]
fn data_of_another_form_are_refused_with_their_place() {
    let mut event = serde_json::to_value(event()).unwrap();
    event["data"]["items"] = json!("many");
    let error = read(&event).unwrap_err().to_string();
    assert!(!error.contains("many"), "{error}");
    assert!(error.contains("the event's data at /items: the value has the wrong type"), "{error}");
}

/// Checks that the fingerprint does not depend on which members of the data the handler's version
/// knows.
#[test]
fn the_fingerprint_is_of_the_data_as_they_were_sent_whatever_the_handler_knows_of_them() {
    #[derive(Deserialize)]
    struct Less {}
    let mut written = serde_json::to_value(event()).unwrap();
    let less: Event<Less> = Event::read(written.to_string().as_bytes()).unwrap();
    assert_eq!(less.fingerprint(), event().fingerprint());
    written["data"]["items"] = json!(1001);
    let other: Event<Less> = Event::read(written.to_string().as_bytes()).unwrap();
    assert_ne!(other.fingerprint(), event().fingerprint());
}

#[test]
fn what_is_announced_again_is_the_same_event_and_another_type_is_not() {
    let again = Attributes {
        id: "another".to_owned(),
        source: "/reconcile".to_owned(),
        time: "2026-11-22T10:00:00Z".parse().unwrap(),
        trace_id: "trace-2".to_owned(),
        traceparent: None,
        subject: None,
        ..attributes()
    };
    assert_eq!(Event::new(again, chunk()).unwrap().fingerprint(), event().fingerprint());
    for other in [
        Attributes { event_type: "com.example.chunk.failed".to_owned(), ..attributes() },
        Attributes { source_idempotency_key: None, ..attributes() },
    ] {
        assert_ne!(Event::new(other, chunk()).unwrap().fingerprint(), event().fingerprint());
    }
}

proptest! {
    #[test]
    fn what_can_be_made_fits_the_schema_and_is_read_as_it_was(
        id in "\\PC{0,4}|[ -~]{250,260}", source in "[ -~]{0,6}|/[a-z]{0,8}", event_type in "[a-z.]{0,9}|\\PC{1,3}", subject in prop::option::of("\\PC{0,4}"),
        second in -60_000_000_000_i64..250_000_000_000, tenant in "[ -~]{0,5}|\\PC{1,4}", trace_id in "[!-~]{0,3}|[ -~]{126,129}",
        client in any::<bool>(), text in "\\PC{0,8}", items in any::<u32>(),
    ) {
        let attributes = Attributes {
            id, source, event_type, subject, tenant, trace_id,
            time: jiff::Timestamp::from_millisecond(second * 1000 + 7).unwrap(),
            source_idempotency_key: attributes().source_idempotency_key.filter(|_| client),
            ..attributes()
        };
        if let Ok(event) = Event::new(attributes, Chunk { batch: text, items }) {
            let written = serde_json::to_value(&event).unwrap();
            let fault = schema().validate(&written).map_err(|error| error.to_string());
            prop_assert_eq!(fault, Ok(()), "{}", written);
            let read = read(&written).unwrap();
            prop_assert_eq!(read.fingerprint(), event.fingerprint());
            prop_assert_eq!(read.data(), event.data());
            prop_assert_eq!(serde_json::to_value(&read).unwrap(), written);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = Event::<Value>::read(&bytes);
    }
}
