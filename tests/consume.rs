//! Messages got through the API are what an independent client put, and stay or go as the request
//! says.

use std::time::Instant;

use amqprs::{BasicProperties, FieldTable, FieldValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Broker, Gateway, Queue};
use serde_json::json;
use uuid::Uuid;

async fn put(broker: &Broker, queue: &Queue, count: usize) {
    for n in 0..count {
        broker.publish(queue, BasicProperties::default(), format!("message {n}")).await;
    }
}

/// Waits until the broker has taken what was just published.
async fn depth_becomes(gateway: &Gateway, queue: &Queue, expected: u64) {
    for _ in 0..100 {
        if gateway.depth(&queue.name).await == expected {
            return;
        }
    }
    assert_eq!(gateway.depth(&queue.name).await, expected);
}

#[tokio::test]
async fn a_commit_returns_the_messages_in_order_and_removes_them() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    put(&broker, &queue, 7).await;
    depth_becomes(&gateway, &queue, 7).await;
    let answer =
        gateway.consume(Uuid::new_v4(), &queue.request(json!({"maxMessages": 5}))).await.expect(200).json();
    assert_eq!(
        (&answer["count"], &answer["ack"], &answer["truncated"]),
        (&json!(5), &json!("commit"), &json!(false))
    );
    assert_eq!(answer["deliveryInDoubt"], false);
    for (n, message) in answer["messages"].as_array().unwrap().iter().enumerate() {
        assert_eq!(message["bodyText"], format!("message {n}"));
        assert_eq!(message["bodyBase64"], STANDARD.encode(format!("message {n}")));
    }
    assert_eq!(gateway.depth(&queue.name).await, 2);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_foreign_message_is_shown_with_everything_it_has() {
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
async fn rollback_and_browse_leave_the_messages() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    put(&broker, &queue, 3).await;
    depth_becomes(&gateway, &queue, 3).await;
    let rolled_back = queue.request(json!({"maxMessages": 2, "ack": "rollback"}));
    let answer = gateway.consume(Uuid::new_v4(), &rolled_back).await.expect(200).json();
    assert_eq!((&answer["count"], &answer["ack"]), (&json!(2), &json!("rollback")));
    let browse = queue.request(json!({"maxMessages": 10, "browseOnly": true}));
    let answer = gateway.post("/messages/consume", &browse).await.expect(200).json();
    assert_eq!(answer["count"], 3);
    assert!(!answer["warnings"].as_array().unwrap().is_empty(), "{answer}");
    depth_becomes(&gateway, &queue, 3).await;
    broker.delete(&queue).await;
}

#[tokio::test]
async fn ack_none_removes_at_once_and_says_what_that_means() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    put(&broker, &queue, 3).await;
    depth_becomes(&gateway, &queue, 3).await;
    let body = queue.request(json!({"maxMessages": 2, "ack": "none"}));
    let answer = gateway.consume(Uuid::new_v4(), &body).await.expect(200).json();
    assert_eq!(answer["count"], 2);
    assert!(!answer["warnings"].as_array().unwrap().is_empty(), "{answer}");
    assert_eq!(gateway.depth(&queue.name).await, 1);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn an_empty_queue_answers_after_the_wait_and_a_late_message_ends_it() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let waiting = queue.request(json!({"waitSeconds": 1}));
    let started = Instant::now();
    let answer = gateway.consume(Uuid::new_v4(), &waiting).await.expect(200).json();
    assert_eq!((&answer["count"], &answer["waitSecondsApplied"]), (&json!(0), &json!(1)));
    assert!(started.elapsed().as_millis() >= 1_000);

    let patient = queue.request(json!({"waitSeconds": 15}));
    let (consumer, patient_gateway) = (Uuid::new_v4(), gateway.clone());
    let waiting = tokio::spawn(async move { patient_gateway.consume(consumer, &patient).await });
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    put(&broker, &queue, 1).await;
    let answer = waiting.await.unwrap().expect(200).json();
    assert_eq!(answer["count"], 1);
    assert!(answer["durationMs"].as_u64().unwrap() < 10_000, "{answer}");
    assert_eq!(gateway.depth(&queue.name).await, 0);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn what_does_not_fit_into_the_answer_stays_on_the_queue() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    for _ in 0..6 {
        broker.publish(&queue, BasicProperties::default(), vec![0xfe; 1_000_000]).await;
    }
    depth_becomes(&gateway, &queue, 6).await;
    let answer =
        gateway.consume(Uuid::new_v4(), &queue.request(json!({"maxMessages": 6}))).await.expect(200).json();
    let count = answer["count"].as_u64().unwrap();
    assert!(answer["truncated"] == true && (1..6).contains(&count), "{count}");
    depth_becomes(&gateway, &queue, 6 - count).await;
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_message_that_can_never_fit_is_refused_and_stays() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    broker.publish(&queue, BasicProperties::default(), vec![b'x'; 6_000_000]).await;
    depth_becomes(&gateway, &queue, 1).await;
    let answer = gateway.consume(Uuid::new_v4(), &queue.target()).await;
    answer.expect_problem(422, "MESSAGE_TOO_LARGE");
    depth_becomes(&gateway, &queue, 1).await;
    broker.delete(&queue).await;
}

#[tokio::test]
async fn selectors_are_refused() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let selecting = queue.request(json!({"selector": {"correlIdBase64": "YQ=="}}));
    gateway.consume(Uuid::new_v4(), &selecting).await.expect_problem(422, "UNSUPPORTED_BY_BROKER");
    broker.delete(&queue).await;
}

/// The gateway counts with what the version counts: see `docs/rabbitmq.md`.
#[tokio::test]
async fn a_quorum_queue_is_browsed_where_that_cannot_drop_its_messages() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let test =
        gateway.post("/connections/test", &json!({"targetRef": "local-rabbit"})).await.expect(200).json();
    let version = test["broker"]["version"].as_str().unwrap();
    let release: Vec<u32> = version.split('.').take(2).map(|part| part.parse().unwrap()).collect();
    let arguments = [
        ("x-queue-type", FieldValue::S("quorum".try_into().unwrap())),
        ("x-delivery-limit", FieldValue::I(1)),
    ];
    let quorum = broker.queue_with(&arguments).await;
    put(&broker, &quorum, 3).await;
    depth_becomes(&gateway, &quorum, 3).await;
    for time in 0..4 {
        for ack in [None, Some("rollback")] {
            depth_becomes(&gateway, &quorum, 3).await;
            let response = match ack {
                None => {
                    let browse =
                        quorum.request(json!({"browseOnly": true, "maxMessages": 10, "waitSeconds": 0}));
                    gateway.post("/messages/consume", &browse).await
                }
                Some(ack) => {
                    let consume = quorum.request(json!({"ack": ack, "maxMessages": 10, "waitSeconds": 0}));
                    gateway.consume(Uuid::new_v4(), &consume).await
                }
            };
            if release < vec![4, 3] {
                response.expect_problem(422, "UNSUPPORTED_BY_BROKER");
                continue;
            }
            let answer = response.expect(200).json();
            assert_eq!(
                (&answer["count"], &answer["messages"][0]["bodyText"]),
                (&json!(3), &json!("message 0"))
            );
            assert!(answer["messages"][2]["backoutCount"].as_u64().unwrap() >= 2 * time, "{answer}");
        }
    }
    if release < vec![4, 3] {
        let other = broker.queue().await;
        let dry = json!({"from": quorum.target(), "to": {"queue": other.name}, "dryRun": true});
        gateway.post("/messages/move", &dry).await.expect_problem(422, "UNSUPPORTED_BY_BROKER");
        broker.delete(&other).await;
    }
    depth_becomes(&gateway, &quorum, 3).await;
    broker.delete(&quorum).await;
}
