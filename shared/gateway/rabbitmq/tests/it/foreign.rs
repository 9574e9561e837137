//! Tests with messages of any form that clients other than the gateway may publish.

use std::collections::BTreeMap;

use broker::Broker as _;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use mq::{
    BrokerError, Destination, HeaderName, HeaderValue, Headers, MaxMoves, MoveCommand, Outgoing, Persistence,
    ReceivedMessage,
};
use serde_json::json;

use crate::raw::{self, CORRELATION_ID, HEADERS, MESSAGE_ID, long_string, short_string};
use crate::reach::everywhere;
use crate::support::{
    Bench, COMMIT, PLENTY, access, command, consume, explicit, rabbit, seed, soon, unwatched,
};

async fn fetched(bench: &Bench, max: i64) -> Vec<ReceivedMessage> {
    let rabbit = rabbit();
    let command = consume(COMMIT, max, 0);
    let unit = rabbit.fetch(&access(), &bench.queue, &command, PLENTY, soon()).await.unwrap();
    let messages = unit.consumed().messages.clone();
    unit.commit(soon()).await.unwrap();
    messages
}

#[tokio::test]
async fn a_message_without_properties_is_got() {
    let bench = Bench::new("bare").await;
    bench.put(&[0, 159, 146, 150], BasicProperties::default()).await;
    let messages = fetched(&bench, 1).await;
    assert_eq!(messages[0].body.0, [0, 159, 146, 150]);
    assert_eq!((&messages[0].msg_id, &messages[0].correl_id, &messages[0].format), (&None, &None, &None));
    assert_eq!((messages[0].persistence, messages[0].backout_count), (Persistence::Nonpersistent, 0));
    assert!(messages[0].headers.is_empty());
    bench.clean().await;
}

#[tokio::test]
async fn headers_of_every_type_become_json() {
    let bench = Bench::new("headers").await;
    let mut inner = FieldTable::default();
    inner.insert("n".into(), AMQPValue::LongInt(-7));
    let mut headers = FieldTable::default();
    for (name, value) in [
        ("bool", AMQPValue::Boolean(true)),
        ("i8", AMQPValue::ShortShortInt(-1)),
        ("i16", AMQPValue::ShortInt(-2)),
        ("i64", AMQPValue::LongLongInt(i64::MIN)),
        ("f64", AMQPValue::Double(1.5)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 5 })),
        ("text", AMQPValue::LongString("é".into())),
        ("binary", AMQPValue::LongString(vec![0xff].into())),
        ("bytes", AMQPValue::ByteArray(vec![1, 2].into())),
        ("time", AMQPValue::Timestamp(1_790_000_000)),
        ("far", AMQPValue::Timestamp(u64::MAX)),
        ("array", AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::Void, AMQPValue::LongInt(1)]))),
        ("table", AMQPValue::FieldTable(inner)),
    ] {
        headers.insert(name.into(), value);
    }
    let properties = BasicProperties::default()
        .with_headers(headers)
        .with_timestamp(1_790_000_000)
        .with_expiration("60000".into())
        .with_priority(7)
        .with_delivery_mode(2)
        .with_content_type("application/x-thing".into())
        .with_message_id("their id".into())
        .with_correlation_id("é".into());
    bench.put(b"x", properties).await;
    let messages = fetched(&bench, 1).await;
    let expected = json!({
        "bool": true, "i8": {"int8": "-1"}, "i16": {"int16": "-2"}, "i64": {"int64": i64::MIN.to_string()},
        "f64": {"float64": "1.5"}, "decimal": {"decimal": "0.05"}, "text": "é",
        "binary": {"textBase64": "/w=="}, "bytes": {"base64": "AQI="},
        "time": {"time": "2026-09-21T14:13:20Z"}, "far": {"time": u64::MAX.to_string()},
        "array": [null, {"int32": "1"}], "table": {"n": {"int32": "-7"}},
    });
    assert_eq!(json!(messages[0].headers), expected);
    assert_eq!(messages[0].put_at.unwrap().as_second(), 1_790_000_000);
    assert_eq!((messages[0].priority, messages[0].expiry_ms), (7, Some(60_000)));
    assert_eq!(messages[0].persistence, Persistence::Persistent);
    assert_eq!(messages[0].format.as_deref(), Some("application/x-thing"));
    assert_eq!(messages[0].msg_id.as_deref(), Some(&b"their id"[..]));
    assert_eq!(messages[0].correl_id.as_deref(), Some("é".as_bytes()));
    bench.clean().await;
}

#[tokio::test]
async fn ids_that_are_not_utf8_neither_block_the_queue_nor_get_lost() {
    let bench = Bench::new("binary-ids").await;
    bench.put_numbered(1).await;
    let mut properties = short_string(&[0x41, 0xff, 0x00, 0xfe]);
    properties.extend(short_string(&[0xc3; 255]));
    raw::put(&bench.queue, CORRELATION_ID | MESSAGE_ID, &properties, b"binary").await;
    let mut properties = long_string(&[&short_string(b"k")[..], b"S", &long_string(b"v")].concat());
    properties.extend(short_string(&[0xff]));
    raw::put(&bench.queue, HEADERS | MESSAGE_ID, &properties, b"with headers").await;
    bench.put_numbered(1).await;

    let messages = fetched(&bench, 10).await;
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[1].correl_id.as_deref(), Some(&[0x41, 0xff, 0x00, 0xfe][..]));
    assert_eq!(messages[1].msg_id.as_deref(), Some(&[0xc3; 255][..]));
    assert_eq!(messages[1].body.0, b"binary");
    assert!(messages[1].headers.is_empty());
    assert_eq!(messages[2].msg_id.as_deref(), Some(&[0xff][..]));
    assert_eq!(json!(messages[2].headers), json!({"k": "v"}));
    assert_eq!(messages[3].body.0, b"m0");
    assert_eq!(bench.ready(0).await, 0);
    bench.clean().await;
}

#[tokio::test]
async fn a_header_of_a_name_of_the_gateway_s_own_is_a_header_like_any_other() {
    let (bench, into) = (Bench::new("forged").await, Bench::new("forged-to").await);
    let names = ["exchange", "routing_key", "headers", "message_id", "user_id", "length"];
    let names = names.map(|name| format!("\0integrahub:{name}"));
    let table: Vec<u8> = names
        .iter()
        .flat_map(|name| [&short_string(name.as_bytes())[..], b"x", &long_string(b"forged")].concat())
        .collect();
    raw::put(&bench.queue, HEADERS, &long_string(&table), b"forged").await;
    bench.put_numbered(1).await;

    let to = Destination::Queue(into.queue.clone());
    let everything = MoveCommand { to, max: MaxMoves::try_from(10).unwrap(), msg_ids: None };
    let rabbit = rabbit();
    let mut moving =
        rabbit.connect_to_move(&access(), &bench.queue, &everything, &everywhere(), soon()).await.unwrap();
    let mut moved = 0;
    while moved < 2 {
        moved += moving.put(10, soon()).await.unwrap().count;
        moving.settle(soon()).await.unwrap();
    }
    assert_eq!(moving.finish(soon()).await.stayed, 0);

    let messages = fetched(&into, 10).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].exchange.as_deref(), Some(""));
    assert_eq!(messages[0].routing_key.as_deref(), Some(into.queue.as_str()));
    assert_eq!((&messages[0].msg_id, &messages[0].body.0), (&None, &b"forged".to_vec()));
    assert!(messages[0].unreadable.0.is_empty(), "{:?}", messages[0].unreadable);
    let expected = names.iter().map(|name| (name.clone(), HeaderValue::Bytes(b"forged".to_vec())));
    assert_eq!(messages[0].headers, expected.collect::<BTreeMap<_, _>>());

    for name in &names {
        let mut produced = command(explicit(&["a"]));
        let forged = (HeaderName::try_from(name.clone()).unwrap(), HeaderValue::Boolean(true));
        produced.headers = Headers::try_from(BTreeMap::from([forged])).unwrap();
        let outgoing = Outgoing::new(&produced, seed());
        let refused = rabbit.produce(&access(), &bench.queue, &outgoing, 0, &unwatched(), soon()).await;
        let error = refused.unwrap_err().error;
        assert!(
            matches!(&error, BrokerError::Unsupported { pointer: Some(at), .. } if at.starts_with("/headers/")),
            "{error:?}"
        );
    }
    bench.clean().await;
    into.clean().await;
}

#[tokio::test]
async fn headers_that_no_client_can_read_are_shown_as_they_are() {
    let bench = Bench::new("odd-headers").await;
    let name_is_binary = [&short_string(&[0xff, 0xfe])[..], b"S", &long_string(b"v")].concat();
    raw::put(&bench.queue, HEADERS, &long_string(&name_is_binary), b"name").await;
    // Nested as deeply as a frame allows.
    let mut deep = [&short_string(b"k")[..], b"V"].concat();
    for _ in 0..8_000 {
        deep = [&short_string(b"t")[..], b"F", &long_string(&deep)].concat();
    }
    raw::put(&bench.queue, HEADERS, &long_string(&deep), b"deep").await;

    let messages = fetched(&bench, 10).await;
    let bodies: Vec<_> = messages.iter().map(|message| message.body.0.as_slice()).collect();
    assert_eq!(bodies, [&b"name"[..], b"deep"]);
    for (message, table) in messages.iter().zip([name_is_binary, deep]) {
        assert!(message.headers.is_empty(), "{:?}", message.headers.keys());
        assert_eq!(message.unreadable.0.get("headers"), Some(&table));
    }
    bench.clean().await;
}

#[tokio::test]
async fn a_message_that_came_back_says_so() {
    let bench = Bench::new("came-back").await;
    bench.put_numbered(1).await;
    let rabbit = rabbit();
    for expected in [0, 1] {
        let unit =
            rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 1, 0), PLENTY, soon()).await.unwrap();
        assert_eq!(unit.consumed().messages[0].backout_count, expected);
        unit.rollback(soon()).await.unwrap();
    }
    bench.clean().await;
}
