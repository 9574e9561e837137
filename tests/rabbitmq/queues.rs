//! Tests of the gateway with several types of RabbitMQ queues, and with queues that have limits.

use amqprs::{BasicProperties, FieldValue};
use end_to_end::{Broker, Gateway, Queue};
use serde_json::{Value, json};
use test_support::rabbitmq::RabbitMq;
use test_support::root::Root;
use uuid::Uuid;

use super::ready_becomes;
use crate::body_refs::{bytes, stored, uploaded};

/// Checks that a quorum queue is browsed only on versions of RabbitMQ where that cannot drop
/// messages by the delivery limit. `docs/rabbitmq-queues.md` has the versions.
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
    for n in 0..3 {
        broker.publish(&quorum, BasicProperties::default(), format!("message {n}")).await;
    }
    ready_becomes(&broker, &quorum, 3).await;
    for time in 0..4 {
        for ack in [None, Some("rollback")] {
            ready_becomes(&broker, &quorum, 3).await;
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
    ready_becomes(&broker, &quorum, 3).await;
    broker.delete(&quorum).await;
}

#[tokio::test]
async fn a_body_of_many_megabytes_is_stored_from_every_kind_of_queue() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let body = bytes(24 * 1024 * 1024);
    for kind in ["classic", "quorum"] {
        let queue = broker.queue_with(&[("x-queue-type", FieldValue::S(kind.try_into().unwrap()))]).await;
        broker.publish(&queue, BasicProperties::default(), body.clone()).await;
        ready_becomes(&broker, &queue, 1).await;
        let one = queue.request(json!({"waitSeconds": 5, "large": "store"}));
        let (message, got) = stored(&gateway, &one).await;
        assert!(got == body, "{kind}: {} bytes came", got.len());
        assert_eq!((&message["bodySize"], &message["redelivered"]), (&json!(body.len()), &json!(false)));
        ready_becomes(&broker, &queue, 0).await;
        broker.delete(&queue).await;
    }
}

/// Checks that a body above the broker's size limit is refused, and that the response names the
/// limit. The test sets 16 MiB, the default from RabbitMQ 4.0 on.
#[tokio::test]
async fn a_body_over_the_broker_s_limit_is_refused_and_the_limit_is_named() {
    let server = RabbitMq::start(Root::of_rabbitmq(), "limits@localhost", |_| {
        ("max_message_size = 16777216\ndisk_free_limit.absolute = 50MB\n".to_owned(), [])
    })
    .await;
    let port = server.node.port;
    let (gateway, broker) = (Gateway::new(), Broker::at(("127.0.0.1", port), "guest", "guest").await);
    let (queue, body) = (broker.queue().await, bytes(24 * 1024 * 1024));
    let large = json!({"bodyRef": uploaded(&gateway, &body).await});
    let small = json!({"bodyText": "small"});
    let target = json!({"broker": "rabbitmq", "connName": format!("127.0.0.1:{port}"), "queue": queue.name});
    let refused = async |key, messages: Value| {
        let produce = json!({"target": target, "messages": messages});
        let problem = gateway.produce(key, &produce).await.expect_problem(422, "MESSAGE_TOO_LARGE").json();
        assert!(problem["detail"].as_str().unwrap().contains("its limit is 16777216 bytes"), "{problem}");
        problem
    };
    let alone = refused(Uuid::new_v4(), json!([large])).await;
    assert_eq!(broker.ready(&queue).await, 0, "{alone}");
    // Among others it is not known which of them were stored. A retry comes upon it alone.
    let (key, messages) = (Uuid::new_v4(), json!([small, small, large, small]));
    let among = json!({"target": target, "messages": messages});
    let doubtful = gateway.produce(key, &among).await.expect_problem(502, "OUTCOME_IN_DOUBT").json();
    assert!(doubtful["detail"].as_str().unwrap().contains("its limit is 16777216 bytes"), "{doubtful}");
    for _ in 0..5 {
        if gateway.produce(key, &among).await.status == 422 {
            break;
        }
    }
    let at_last = refused(key, messages).await;
    let there = broker.drain(&queue).await;
    assert!(there.len() >= 2 && there.iter().all(|(_, body)| body == b"small"), "{at_last}");
}

#[tokio::test]
async fn a_problem_shows_the_brokers_reply() {
    let gateway = Gateway::new();
    let missing = Queue { name: format!("test.{}", Uuid::new_v4()) }.target();
    let replies = [
        ("/messages/produce", json!({"product": "RabbitMQ", "code": 312, "name": "NO_ROUTE"})),
        ("/messages/consume", json!({"product": "RabbitMQ", "code": 404, "name": "NOT_FOUND"})),
    ];
    for (path, reply) in replies {
        let answer = gateway.post_once(path, Uuid::new_v4(), &missing).await;
        assert_eq!(answer.expect_problem(404, "QUEUE_NOT_FOUND").json()["broker"], reply, "{path}");
    }
}
