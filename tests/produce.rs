//! Messages put through the API are on the queue as they were asked for.

use amqprs::FieldValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Broker, Gateway};
use serde_json::json;
use uuid::Uuid;

fn header(properties: &amqprs::BasicProperties, name: &str) -> Option<FieldValue> {
    properties.headers()?.get(&name.try_into().unwrap()).cloned()
}

fn text(value: &str) -> Option<FieldValue> {
    Some(FieldValue::S(value.try_into().unwrap()))
}

#[tokio::test]
async fn every_message_of_a_batch_is_on_the_queue_in_order_and_complete() {
    let (gateway, broker, key) = (Gateway::new(), Broker::connect().await, Uuid::new_v4());
    let queue = broker.queue().await;
    let body = queue.request(json!({
        "batch": {"count": 250, "messageSizeBytes": 2048, "transaction": {"enabled": true, "txSize": 100}},
        "mqProps": {"persistence": "persistent", "expiryMs": 600_000, "correlIdMode": "echoMsgId"},
        "headers": {"k1": "v1", "Straße": "ü"}
    }));
    let answer = gateway.produce(key, &body).await.expect(201).json();
    assert_eq!(answer["target"], format!("/:{}", queue.name));
    assert_eq!((&answer["enqueued"], &answer["bytes"]), (&json!(250), &json!(250 * 2048)));
    assert_eq!((&answer["transactions"], &answer["atomic"]), (&json!(3), &json!(false)));
    assert_eq!((&answer["resumedFrom"], &answer["possibleDuplicates"]), (&json!(0), &json!(0)));
    assert!(answer["latencyMs"]["p99"].as_f64().unwrap() > 0.0);

    let messages = broker.drain(&queue).await;
    assert_eq!(messages.len(), 250);
    for (sequence, (properties, body)) in (0_i64..).zip(&messages) {
        assert_eq!(body.len(), 2048);
        assert_eq!(header(properties, "sequence"), Some(FieldValue::l(sequence)));
        assert_eq!(header(properties, "idempotencyKey"), text(&key.to_string()));
        assert_eq!((header(properties, "k1"), header(properties, "Straße")), (text("v1"), text("ü")));
        assert_eq!(properties.delivery_mode(), Some(2));
        assert_eq!(properties.expiration().map(String::as_str), Some("600000"));
        assert_eq!(properties.correlation_id(), properties.message_id());
        let id = properties.message_id().unwrap();
        assert!(
            id.len() == 48 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)),
            "{id}"
        );
    }
    let mut bodies: Vec<_> = messages.iter().map(|(_, body)| body.clone()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 250, "every random body is another");
    let wire_id = |index: usize| STANDARD.encode(messages[index].0.message_id().unwrap());
    assert_eq!(
        (&answer["firstMsgIdBase64"], &answer["lastMsgIdBase64"]),
        (&json!(wire_id(0)), &json!(wire_id(249)))
    );
    broker.delete(&queue).await;
}

#[tokio::test]
async fn templates_are_rendered_for_each_message() {
    let (gateway, broker, key) = (Gateway::new(), Broker::connect().await, Uuid::new_v4());
    let queue = broker.queue().await;
    let template =
        "{\"n\":{{seq}},\"id\":\"{{uuid}}\",\"at\":\"{{now}}\",\"key\":\"{{key}}\",\"r\":\"{{random(12)}}\"}";
    let body =
        queue.request(json!({"batch": {"count": 3}, "payload": {"mode": "template", "template": template}}));
    gateway.produce(key, &body).await.expect(201);
    let messages = broker.drain(&queue).await;
    let rendered: Vec<serde_json::Value> =
        messages.iter().map(|(_, body)| serde_json::from_slice(body).unwrap()).collect();
    for (n, message) in rendered.iter().enumerate() {
        assert_eq!((&message["n"], &message["key"]), (&json!(n), &json!(key.to_string())));
        assert!(Uuid::try_parse(message["id"].as_str().unwrap()).is_ok());
        assert_eq!(message["r"].as_str().unwrap().len(), 12);
        assert_eq!(message["at"], rendered[0]["at"]);
    }
    assert_ne!(rendered[0]["id"], rendered[1]["id"]);
    assert_ne!(rendered[0]["r"], rendered[1]["r"]);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn explicit_messages_keep_their_own_bodies_headers_and_correlation_ids() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let body = queue.request(json!({
        "messages": [
            {"bodyText": "olá\u{0}\n", "headers": {"k": "own"}, "correlIdBase64": STANDARD.encode("order-1")},
            {"bodyBase64": STANDARD.encode([0xff, 0x00, 0x80])}
        ],
        "headers": {"k": "common"},
        "mqProps": {"persistence": "nonpersistent", "priority": 4, "correlIdMode": "fixed", "fixedCorrelIdBase64": STANDARD.encode("batch")}
    }));
    let answer = gateway.produce(Uuid::new_v4(), &body).await.expect(201).json();
    assert_eq!((&answer["enqueued"], &answer["transactions"]), (&json!(2), &json!(0)));
    assert!(answer["warnings"][0].as_str().unwrap().contains("x-max-priority"), "{answer}");
    let messages = broker.drain(&queue).await;
    let [(first, first_body), (second, second_body)] = messages.as_slice() else { panic!("two messages") };
    assert_eq!(
        (first_body.as_slice(), second_body.as_slice()),
        ("olá\u{0}\n".as_bytes(), &[0xff, 0x00, 0x80][..])
    );
    assert_eq!((header(first, "k"), header(second, "k")), (text("own"), text("common")));
    assert_eq!(first.correlation_id().map(String::as_str), Some("order-1"));
    assert_eq!(second.correlation_id().map(String::as_str), Some("batch"));
    assert_eq!((first.delivery_mode(), first.priority(), first.expiration()), (Some(1), Some(4), None));
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_resend_after_a_failure_is_the_same_message() {
    let (gateway, broker, key) = (Gateway::new(), Broker::connect().await, Uuid::new_v4());
    let queue = broker.queue().await;
    // Slow enough for a checkpoint, which notes the place: a retry continues nowhere else.
    let body = queue.request(json!({"batch": {"count": 5, "messageSizeBytes": 64, "rateLimitPerSec": 3}}));
    gateway.produce(key, &body).await.expect(201);
    let first = broker.drain(&queue).await;

    let records = end_to_end::Records::open().await;
    let number = |n: i64| aws_sdk_dynamodb::types::AttributeValue::N(n.to_string());
    let status = aws_sdk_dynamodb::types::AttributeValue::S("FAILED".to_owned());
    records
        .set("PRODUCE", key, &[("status", status), ("checkpoint", number(2)), ("inDoubt", number(1))])
        .await;

    let answer = gateway.produce(key, &body).await.expect(201).json();
    assert_eq!((&answer["enqueued"], &answer["resumedFrom"]), (&json!(5), &json!(2)));
    assert_eq!(answer["possibleDuplicates"], 1);
    let second = broker.drain(&queue).await;
    let ids_and_bodies = |messages: &[(amqprs::BasicProperties, Vec<u8>)]| -> Vec<_> {
        messages.iter().map(|(properties, body)| (properties.message_id().cloned(), body.clone())).collect()
    };
    assert_eq!(ids_and_bodies(&second), ids_and_bodies(&first[2..]));
    broker.delete(&queue).await;
}

#[tokio::test]
async fn what_rabbitmq_cannot_do_is_refused_before_anything_is_put() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    for members in [
        json!({"batch": {"transaction": {"enabled": true, "atomic": true}}}),
        json!({"mqProps": {"correlIdMode": "fixed", "fixedCorrelIdBase64": STANDARD.encode([0xff, 0xfe])}}),
    ] {
        let answer = gateway.produce(Uuid::new_v4(), &queue.request(members)).await;
        answer.expect_problem(422, "UNSUPPORTED_BY_BROKER");
    }
    assert_eq!(broker.drain(&queue).await.len(), 0);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_full_queue_is_told_apart_and_keeps_what_it_took() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let limits = [
        ("x-max-length", FieldValue::I(10)),
        ("x-overflow", FieldValue::S("reject-publish".try_into().unwrap())),
    ];
    let queue = broker.queue_with(&limits).await;
    let answer = gateway.produce(Uuid::new_v4(), &queue.request(json!({"batch": {"count": 25}}))).await;
    let problem = answer.expect(502).json();
    assert!(["QUEUE_FULL", "BROKER_REJECTED"].contains(&problem["reason"].as_str().unwrap()), "{problem}");
    assert_eq!(problem["broker"]["product"], "RabbitMQ");
    assert_eq!(gateway.depth(&queue.name).await, 10);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn the_pace_is_kept() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let body = queue.request(json!({"batch": {"count": 21, "rateLimitPerSec": 20}}));
    let answer = gateway.produce(Uuid::new_v4(), &body).await.expect(201).json();
    assert!(answer["durationMs"].as_u64().unwrap() >= 950, "{answer}");
    broker.delete(&queue).await;
}
