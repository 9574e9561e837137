//! Tests that a message comes back as it was put: through an independent client, through a consume
//! and another produce, and through a redelivery. `tests/rabbitmq/equality.rs` has the cases that
//! only AMQP can carry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Fact, Gateway, On, Queue, Site};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use uuid::Uuid;

end_to_end::on_both! {
    arbitrary_messages_come_back_equal_through_every_way,
    a_message_with_every_property_is_put_and_shown,
}

const MESSAGES: usize = 100;

/// Members of a consumed message that a produce accepts for a message.
const REPEATED: [&str; 13] = [
    "bodyBase64",
    "headers",
    "correlIdBase64",
    "persistence",
    "priority",
    "replyTo",
    "messageType",
    "contentType",
    "contentEncoding",
    "type",
    "appId",
    "group",
    "timestamp",
];

/// Generates a header value as a request has it, and as an independent client reads it.
fn value() -> impl Strategy<Value = (Value, Value)> {
    let same = |value: Value| (value.clone(), value);
    let integer = |name: &'static str| move |number: i64| (json!({name: number.to_string()}), json!(number));
    // Their digits in text are exact.
    let float = |name: &'static str| {
        move |eighths: i16| {
            (json!({name: (f64::from(eighths) / 8.0).to_string()}), json!(f64::from(eighths) / 8.0))
        }
    };
    prop_oneof![
        Just(same(Value::Null)),
        any::<bool>().prop_map(move |value| same(json!(value))),
        (-9_007_199_254_740_991..9_007_199_254_740_991_i64).prop_map(move |value| same(json!(value))),
        (i64::MAX - 9..i64::MAX).prop_map(integer("int64")),
        any::<i8>().prop_map(i64::from).prop_map(integer("int8")),
        any::<i16>().prop_map(i64::from).prop_map(integer("int16")),
        any::<i32>().prop_map(i64::from).prop_map(integer("int32")),
        any::<i16>().prop_map(float("float32")),
        any::<i16>().prop_map(float("float64")),
        "\\PC{0,30}".prop_map(move |text| same(json!(text))),
        prop::collection::vec(any::<u8>(), 0..30)
            .prop_map(|bytes| (json!({"base64": STANDARD.encode(&bytes)}), json!(hex::encode(bytes)))),
    ]
}

/// Generates a header name. Some are names of value types, which the gateway must not take for
/// types, and some are names that IBM MQ reserves.
fn name() -> impl Strategy<Value = String> {
    let known =
        ["base64", "time", "table", "int64", "null", "JMSType", "MQMD", "1st", "x-trace", "a.b", "$type"];
    prop_oneof!["\\PC{1,8}", prop::sample::select(known.to_vec()).prop_map(str::to_owned)]
}

/// Generates a message as a produce names it, and its headers as an independent client reads them.
/// It has every member that both brokers carry and one of them would otherwise fill in itself.
fn message() -> impl Strategy<Value = (Map<String, Value>, Map<String, Value>)> {
    let headers = prop::collection::btree_map(name(), value(), 0..5);
    let body = prop::collection::vec(any::<u8>(), 0..60);
    let kinds = prop::sample::select(vec!["datagram", "request", "reply", "report"]);
    let group = prop::option::of(("[a-zA-Z0-9]{1,24}", 1..999_999_999, any::<bool>()));
    let always =
        ("[!-~]{24}", any::<bool>(), 1..=9, "[A-Z.]{1,48}", kinds, "[a-z]{1,9}/[a-z]{1,50}", "[a-z]{1,28}");
    let optional = (prop::option::of("\\PC{1,12}"), prop::option::of("\\PC{1,12}"));
    (headers, body, group, always, optional, 0..4_000_000_000_i64).prop_map(
        |(headers, body, group, always, (encoding, kind), seconds)| {
            let (correlation, is_persistent, priority, reply_to, message_type, content_type, app) = always;
            let timestamp = jiff::Timestamp::from_second(seconds).unwrap().to_string();
            let group =
                group.map(|(id, sequence, last)| json!({"id": id, "sequence": sequence, "last": last}));
            let names = |which: fn((Value, Value)) -> Value| -> Map<String, Value> {
                headers.iter().map(|(name, value)| (name.clone(), which(value.clone()))).collect()
            };
            let message = json!({
                "bodyBase64": STANDARD.encode(body), "headers": names(|value| value.0),
                "correlIdBase64": STANDARD.encode(correlation), "priority": priority, "replyTo": reply_to,
                "persistence": if is_persistent { "persistent" } else { "nonpersistent" },
                "messageType": message_type, "contentType": content_type, "contentEncoding": encoding,
                "type": kind, "appId": app, "group": group, "timestamp": timestamp,
            });
            let Value::Object(message) = message else { unreachable!() };
            (message, names(|value| value.1))
        },
    )
}

/// Consumes all test messages of a queue, with `ack` as the acknowledgement. Returns them in the
/// order in which they were put.
async fn take(gateway: &Gateway, site: &Site, queue: &Queue, ack: &str) -> Vec<Value> {
    let body = site.request(queue, json!({"maxMessages": MESSAGES, "ack": ack}));
    let answer = gateway.consume(Uuid::new_v4(), &body).await.expect(200).json();
    assert_eq!(answer["count"], MESSAGES, "{}", answer["warnings"]);
    let mut messages = answer["messages"].as_array().unwrap().clone();
    messages.sort_by_key(|message| message["headers"]["sequence"].as_u64().unwrap());
    messages
}

/// Returns a consumed message without the members that change when it is delivered again.
fn without_count(message: &Value) -> Value {
    let mut message = message.clone();
    for member in ["redelivered", "backoutCount", "deliveryCount"] {
        message.as_object_mut().unwrap().remove(member).unwrap();
    }
    message
}

/// Returns a consumed message as a produce accepts it, without the headers that every produce sets.
fn repeated(message: &Value) -> Value {
    let mut message: Value =
        REPEATED.into_iter().map(|member| (member.to_owned(), message[member].clone())).collect();
    let headers = message["headers"].as_object_mut().unwrap();
    for own in ["idempotencyKey", "sequence"] {
        headers.remove(own).unwrap();
    }
    message
}

async fn arbitrary_messages_come_back_equal_through_every_way(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (first, second) = (site.queue().await, site.queue().await);
    let mut runner = TestRunner::default();
    let put: Vec<_> = (0..MESSAGES).map(|_| message().new_tree(&mut runner).unwrap().current()).collect();
    let messages: Vec<_> = put.iter().map(|(message, _)| message).collect();
    let body = site.request(&first, json!({ "messages": messages }));
    assert_eq!(gateway.produce(Uuid::new_v4(), &body).await.expect(201).json()["enqueued"], MESSAGES);

    let shown = take(&gateway, &site, &first, "rollback").await;
    site.ready_becomes(&first, MESSAGES).await;
    let redelivered = take(&gateway, &site, &first, "commit").await;
    for (before, after) in shown.iter().zip(&redelivered) {
        assert_eq!(without_count(before), without_count(after));
        assert_eq!((&before["redelivered"], &after["redelivered"]), (&json!(false), &json!(true)));
    }
    for (shown, (message, _)) in shown.iter().zip(&put) {
        for (member, value) in message.iter().filter(|(member, _)| *member != "headers") {
            assert_eq!(&shown[member], value, "{member}");
        }
        for (name, value) in message["headers"].as_object().unwrap() {
            assert_eq!(&shown["headers"][name], value, "{name}");
        }
    }

    let again: Vec<Value> = shown.iter().map(repeated).collect();
    let key = Uuid::new_v4();
    let body = site.request(&second, json!({ "messages": again }));
    gateway.produce(key, &body).await.expect(201);
    let shown_again = take(&gateway, &site, &second, "rollback").await;
    for (before, after) in shown.iter().zip(&shown_again) {
        for member in REPEATED.into_iter().filter(|member| *member != "headers") {
            assert_eq!(after[member], before[member], "{member}");
        }
    }
    site.ready_becomes(&second, MESSAGES).await;
    let mut found = site.drain(&second).await;
    found.sort_by_key(end_to_end::Message::sequence);
    assert_eq!(found.len(), MESSAGES);
    for (found, (message, headers)) in found.iter().zip(&put) {
        assert_eq!(found.headers["idempotencyKey"], key.to_string());
        for (name, value) in headers {
            assert_eq!(&found.headers[name], value, "{name}");
        }
        let described = json!({
            "bodyBase64": STANDARD.encode(&found.body), "correlIdBase64": found.correlation_id,
            "persistence": if found.is_persistent { "persistent" } else { "nonpersistent" },
            "priority": found.priority, "replyTo": found.reply_to, "contentType": found.content_type,
            "contentEncoding": found.content_encoding, "type": found.kind, "appId": found.app_id,
        });
        for (member, value) in described.as_object().unwrap() {
            assert_eq!(value, &message[member], "{member}");
        }
    }
    site.delete(&first).await;
    site.delete(&second).await;
}

async fn a_message_with_every_property_is_put_and_shown(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let body = site.request(&queue, json!({
        "mqProps": {
            "replyTo": "ORDERS.REPLIES", "messageType": "request", "appId": "shop", "priority": 2,
            "correlIdBase64": site.id("of all"),
        },
        "headers": {"common": true},
        "messages": [
            {
                "bodyText": "{}", "contentType": "application/json", "contentEncoding": "identity", "type": "order",
                "priority": 4, "persistence": "nonpersistent", "expiryMs": 600_000,
                "correlIdBase64": site.id("own"), "timestamp": "2026-11-22T17:00:00Z", "messageType": "report",
                "group": {"id": {"base64": "AAH/"}, "sequence": 7, "last": true},
                "headers": {"n": {"int16": "7"}, "common": null},
            },
            {"bodyText": "plain"},
        ],
    }));
    gateway.produce(Uuid::new_v4(), &body).await.expect(201);
    let body = site.request(&queue, json!({"maxMessages": 2}));
    let answer = gateway.consume(Uuid::new_v4(), &body).await.expect(200).json();
    let [first, second] = answer["messages"].as_array().unwrap().as_slice() else { panic!("{answer}") };
    let expected = json!({
        "replyTo": "ORDERS.REPLIES", "messageType": "report", "contentType": "application/json",
        "contentEncoding": "identity", "type": "order", "appId": "shop",
        "group": {"id": {"base64": "AAH/"}, "sequence": 7, "last": true}, "timestamp": "2026-11-22T17:00:00Z",
        "putAt": "2026-11-22T17:00:00.000Z", "priority": 4, "persistence": "nonpersistent",
        "correlIdBase64": site.id("own"), "redelivered": false, "report": null, "feedback": null, "deaths": [],
    });
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(&first[member], value, "{member}");
    }
    let expiry = first["expiryMs"].as_u64().unwrap();
    assert!((1..=600_000).contains(&expiry), "{expiry}");
    assert_eq!((&first["headers"]["n"], &first["headers"]["common"]), (&json!({"int16": "7"}), &Value::Null));
    assert_eq!((&second["messageType"], &second["priority"]), (&json!("request"), &json!(2)));
    assert_eq!((&second["correlIdBase64"], &second["group"]), (&json!(site.id("of all")), &Value::Null));
    let content_type = on.has(Fact::DefaultContentType).then_some("text/plain; charset=utf-8");
    assert_eq!((&second["contentType"], &second["type"]), (&json!(content_type), &Value::Null));
    assert_eq!(second["headers"]["common"], true);
    site.delete(&queue).await;
}
