//! Tests that a message of another AMQP client comes back as it was put: through a consume and
//! another produce, and through a redelivery. `tests/equality.rs` has the cases of both brokers.

use amqprs::{BasicProperties, DecimalValue, FieldTable, FieldValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Broker, Gateway, Queue};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use uuid::Uuid;

const MESSAGES: usize = 200;

/// Members of a consumed message that a produce accepts for a message.
const REPEATED: [&str; 14] = [
    "bodyBase64",
    "headers",
    "correlIdBase64",
    "persistence",
    "priority",
    "expiryMs",
    "replyTo",
    "messageType",
    "contentType",
    "contentEncoding",
    "type",
    "appId",
    "group",
    "timestamp",
];

fn short_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,12}", "[a-z]{255}", Just(String::new()), Just("\0\"\\\n".to_owned())]
}

/// Generates a header name. Some are names of value types, which the gateway must not take for
/// types.
fn name() -> impl Strategy<Value = String> {
    let types = vec!["base64", "time", "table", "int64", "textBase64", "float32"];
    prop_oneof!["\\PC{1,8}", prop::sample::select(types).prop_map(str::to_owned)]
}

fn table(entries: impl IntoIterator<Item = (String, FieldValue)>) -> FieldTable {
    let mut table = FieldTable::new();
    for (name, value) in entries {
        table.insert(name.try_into().unwrap(), value);
    }
    table
}

fn value() -> impl Strategy<Value = FieldValue> {
    use prop::num::{f32, f64};
    let leaf = prop_oneof![
        Just(FieldValue::V),
        any::<bool>().prop_map(FieldValue::t),
        any::<i8>().prop_map(FieldValue::b),
        any::<u8>().prop_map(FieldValue::B),
        any::<i16>().prop_map(FieldValue::s),
        any::<u16>().prop_map(FieldValue::u),
        any::<i32>().prop_map(FieldValue::I),
        any::<u32>().prop_map(FieldValue::i),
        any::<i64>().prop_map(FieldValue::l),
        (f32::NORMAL | f32::SUBNORMAL | f32::ZERO).prop_map(FieldValue::f),
        (f64::NORMAL | f64::SUBNORMAL | f64::ZERO).prop_map(FieldValue::d),
        (any::<u8>(), any::<i32>()).prop_map(|(scale, value)| FieldValue::D(DecimalValue::new(scale, value))),
        "\\PC{0,30}".prop_map(|text| FieldValue::S(text.try_into().unwrap())),
        prop_oneof![any::<u64>(), 0..4_000_000_000_u64].prop_map(FieldValue::T),
        prop::collection::vec(any::<u8>(), 0..30).prop_map(|bytes| FieldValue::x(bytes.try_into().unwrap())),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|values| FieldValue::A(values.try_into().unwrap())),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|entries| FieldValue::F(table(entries))),
        ]
    })
}

/// Generates the headers in which JMS clients write groups and message types.
fn of_jms() -> impl Strategy<Value = Vec<(String, FieldValue)>> {
    let id = prop_oneof![
        "\\PC{1,9}".prop_map(|text| FieldValue::S(text.try_into().unwrap())),
        prop::collection::vec(any::<u8>(), 0..30).prop_map(|bytes| FieldValue::x(bytes.try_into().unwrap())),
        any::<i32>().prop_map(FieldValue::I),
    ];
    let sequence = prop_oneof![any::<i32>().prop_map(FieldValue::I), (1..9_i64).prop_map(FieldValue::l)];
    let kind = prop::sample::select(vec![1, 2, 4, 8, 16]).prop_map(FieldValue::I);
    let parts = (
        prop::option::of(id),
        prop::option::of(sequence),
        prop::option::of(any::<bool>().prop_map(FieldValue::t)),
        prop::option::of(kind),
    );
    parts.prop_map(|(id, sequence, last, kind)| {
        let names = ["JMSXGroupID", "JMSXGroupSeq", "JMS_IBM_Last_Msg_In_Group", "JMS_IBM_MsgType"];
        let values = [id, sequence, last, kind];
        names.into_iter().zip(values).filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}

fn headers() -> impl Strategy<Value = Option<FieldTable>> {
    let entries = prop::collection::btree_map(name(), value(), 0..5);
    prop::option::weighted(
        0.9,
        (entries, of_jms()).prop_map(|(own, of_jms)| table(own.into_iter().chain(of_jms))),
    )
}

fn properties() -> impl Strategy<Value = BasicProperties> {
    let text = || prop::option::of(short_text());
    let texts = (text(), text(), text(), text(), text(), text());
    let numbers = (
        prop::option::of(1..=2_u8),
        prop::option::of(1..=9_u8),
        prop::option::of(600_000..u32::MAX),
        prop::option::of(prop_oneof![any::<u64>(), 0..4_000_000_000_u64]),
    );
    (texts, numbers, headers()).prop_map(|(texts, (mode, priority, expiry, timestamp), headers)| {
        let (content_type, encoding, reply_to, correlation, kind, app) = texts;
        let mut properties = BasicProperties::default();
        if let Some(text) = content_type {
            properties.with_content_type(&text);
        }
        if let Some(text) = encoding {
            properties.with_content_encoding(&text);
        }
        if let Some(text) = reply_to {
            properties.with_reply_to(&text);
        }
        if let Some(text) = correlation {
            properties.with_correlation_id(&text);
        }
        if let Some(text) = kind {
            properties.with_message_type(&text);
        }
        if let Some(text) = app {
            properties.with_app_id(&text);
        }
        if let Some(mode) = mode {
            properties.with_delivery_mode(mode);
        }
        if let Some(priority) = priority {
            properties.with_priority(priority);
        }
        if let Some(expiry) = expiry {
            properties.with_expiration(&expiry.to_string());
        }
        if let Some(timestamp) = timestamp {
            properties.with_timestamp(timestamp);
        }
        if let Some(headers) = headers {
            properties.with_headers(headers);
        }
        properties.finish()
    })
}

/// Returns random messages, which differ each time.
fn messages() -> Vec<(BasicProperties, Vec<u8>)> {
    let mut runner = TestRunner::default();
    let message = (properties(), prop::collection::vec(any::<u8>(), 0..60));
    (0..MESSAGES).map(|_| message.new_tree(&mut runner).unwrap().current()).collect()
}

async fn take(gateway: &Gateway, queue: &Queue, ack: &str) -> Vec<Value> {
    let body = queue.request(json!({"maxMessages": MESSAGES, "ack": ack}));
    let answer = gateway.consume(Uuid::new_v4(), &body).await.expect(200).json();
    assert_eq!(answer["count"], MESSAGES, "{}", answer["warnings"]);
    answer["messages"].as_array().unwrap().clone()
}

/// Returns a consumed message without the members that change when it is delivered again.
fn without_count(message: &Value) -> Value {
    let mut message = message.clone();
    for member in ["redelivered", "backoutCount"] {
        message.as_object_mut().unwrap().remove(member).unwrap();
    }
    message
}

/// Returns the properties that the independent client finds, without those that a produce sets on
/// every message.
fn described(properties: &BasicProperties) -> impl PartialEq + std::fmt::Debug + use<> {
    let text = |text: Option<&String>| text.cloned();
    (
        [
            text(properties.content_encoding()),
            text(properties.reply_to()),
            text(properties.correlation_id()),
            text(properties.message_type()),
            text(properties.app_id()),
            text(properties.expiration()),
        ],
        properties.priority(),
        properties.delivery_mode().unwrap_or(1),
    )
}

#[tokio::test]
async fn arbitrary_messages_come_back_equal_through_every_way() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (first, second) = (broker.queue().await, broker.queue().await);
    let put = messages();
    for (properties, body) in &put {
        broker.publish(&first, properties.clone(), body.clone()).await;
    }
    while broker.ready(&first).await < MESSAGES {}

    let shown = take(&gateway, &first, "rollback").await;
    while broker.ready(&first).await < MESSAGES {}
    let redelivered = take(&gateway, &first, "commit").await;
    for (before, after) in shown.iter().zip(&redelivered) {
        assert_eq!(without_count(before), without_count(after));
        assert_eq!((&before["redelivered"], &after["redelivered"]), (&json!(false), &json!(true)));
        assert_eq!((&after["exchange"], &after["routingKey"]), (&json!(""), &json!(first.name)));
    }

    let repeated: Vec<Value> = shown
        .iter()
        .map(|message| {
            REPEATED.into_iter().map(|member| (member.to_owned(), message[member].clone())).collect()
        })
        .collect();
    let key = Uuid::new_v4();
    let answer = gateway.produce(key, &second.request(json!({ "messages": repeated }))).await;
    assert_eq!(answer.expect(201).json()["enqueued"], MESSAGES);
    let shown_again = take(&gateway, &second, "rollback").await;
    while broker.ready(&second).await < MESSAGES {}
    let found = broker.drain(&second).await;
    assert_eq!(found.len(), MESSAGES);
    for (index, (properties, body)) in found.iter().enumerate() {
        let (original, original_body) = &put[index];
        assert_eq!(body, original_body);
        assert_eq!(described(properties), described(original));
        if original.content_type().is_some() {
            assert_eq!(properties.content_type(), original.content_type());
        }
        if original.timestamp().is_some() {
            assert_eq!(properties.timestamp(), original.timestamp());
        }
        let mut headers = original.headers().cloned().unwrap_or_else(FieldTable::new);
        let (sequence, key) = (FieldValue::l(i64::try_from(index).unwrap()), key.to_string());
        headers.insert("sequence".try_into().unwrap(), sequence);
        headers.insert("idempotencyKey".try_into().unwrap(), FieldValue::S(key.try_into().unwrap()));
        assert_eq!(properties.headers(), Some(&headers), "{}", shown[index]["headers"]);

        let (before, after) = (&shown[index], &shown_again[index]);
        for member in REPEATED {
            let is_default = before[member].is_null() && ["contentType", "timestamp"].contains(&member);
            if member != "headers" && !is_default {
                assert_eq!(after[member], before[member], "{member}");
            }
        }
    }
    broker.delete(&first).await;
    broker.delete(&second).await;
}

#[tokio::test]
async fn what_only_amqp_has_is_shown() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let mut nested = FieldTable::new();
    nested.insert("inner".try_into().unwrap(), FieldValue::t(true));
    let mut headers = FieldTable::new();
    headers.insert("text".try_into().unwrap(), FieldValue::S("ação".try_into().unwrap()));
    headers.insert("number".try_into().unwrap(), FieldValue::l(-7));
    headers.insert("table".try_into().unwrap(), FieldValue::F(nested));
    let properties = BasicProperties::default()
        .with_message_id("foreign-1")
        .with_correlation_id("c-1")
        .with_content_type("application/xml")
        .with_persistence(true)
        .with_priority(3)
        .with_expiration("600000")
        .with_timestamp(1_700_000_000)
        .with_headers(headers)
        .with_cluster_id("cluster")
        .finish();
    broker.publish(&queue, properties, vec![0xff, 0x01]).await;
    let answer = gateway.consume(Uuid::new_v4(), &queue.target()).await.expect(200).json();
    let message = &answer["messages"][0];
    let expected = json!({
        "exchange": "", "routingKey": queue.name, "userId": null, "deliveryCount": null, "ccsid": null,
        "replyToQueueManager": null, "report": null, "feedback": null, "encoding": null, "messageType": null,
    });
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(&message[member], value, "{member}");
    }
    assert_eq!(message["msgIdBase64"], STANDARD.encode("foreign-1"));
    assert_eq!(message["correlIdBase64"], STANDARD.encode("c-1"));
    assert_eq!(message["bodyBase64"], STANDARD.encode([0xff, 0x01]));
    assert!(message.get("bodyText").is_none(), "not UTF-8: {message}");
    assert_eq!(message["headers"], json!({"text": "ação", "number": -7, "table": {"inner": true}}));
    assert_eq!((&message["persistence"], &message["priority"]), (&json!("persistent"), &json!(3)));
    assert_eq!((&message["expiryMs"], &message["format"]), (&json!(600_000), &json!("application/xml")));
    assert_eq!(
        (&message["putAt"], &message["clusterId"]),
        (&json!("2023-11-14T22:13:20.000Z"), &json!("cluster"))
    );
    broker.delete(&queue).await;
}

#[tokio::test]
async fn what_would_leave_the_target_or_has_no_form_on_rabbitmq_is_refused() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (queue, other) = (broker.queue().await, broker.queue().await);
    for message in [
        json!({"headers": {"CC": [other.name]}}),
        json!({"headers": {"BCC": [other.name]}}),
        json!({"replyTo": "amq.rabbitmq.reply-to"}),
        json!({"replyToQueueManager": "QM1"}),
        json!({"report": 1}),
        json!({"feedback": 1}),
        json!({"headers": {"a": [{"float64": "NaN"}]}}),
    ] {
        let mut last = message.clone();
        last["bodyText"] = json!("a");
        let body = queue.request(json!({"messages": [{"bodyText": "first"}, last]}));
        let answer = gateway.produce(Uuid::new_v4(), &body).await;
        answer.expect_problem(422, "UNSUPPORTED_BY_BROKER");
    }
    let common = queue.request(json!({"headers": {"CC": [other.name]}}));
    gateway.produce(Uuid::new_v4(), &common).await.expect_problem(422, "UNSUPPORTED_BY_BROKER");
    assert_eq!((broker.ready(&queue).await, broker.ready(&other).await), (0, 0));
    broker.delete(&queue).await;
    broker.delete(&other).await;
}
