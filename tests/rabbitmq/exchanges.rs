//! Tests of messages that are published to an exchange through the API, and of requests for an
//! exchange that are refused.

use end_to_end::{Broker, Gateway};
use serde_json::{Value, json};
use uuid::Uuid;

/// Declares a queue, and binds it to the stack's topic exchange. Returns the queue and a routing
/// key that only this test uses.
async fn bound(broker: &Broker) -> (end_to_end::Queue, String) {
    let (queue, key) = (broker.queue().await, format!("test.{}", Uuid::new_v4()));
    broker.bind(&queue, "amq.topic", &format!("{key}.#")).await;
    (queue, key)
}

#[expect(clippy::needless_pass_by_value, reason = "the tests write what is sent where it is used")]
fn to(exchange: &str, routing_key: &str, members: Value) -> Value {
    let target = json!({"exchange": exchange, "routingKey": routing_key});
    let mut body = json!({"targetRef": "local-rabbit", "target": target});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn messages_are_routed_by_their_keys_and_retried_as_to_a_queue() {
    let (gateway, broker, key) = (Gateway::new(), Broker::connect().await, Uuid::new_v4());
    let (queue, route) = bound(&broker).await;
    let own = format!("{route}.own");
    let messages = json!({"messages": [{"bodyText": "a"}, {"bodyText": "b", "routingKey": own}]});
    let body = to("amq.topic", &format!("{route}.{{{{seq}}}}"), messages);
    let first = gateway.produce(key, &body).await.expect(201);
    assert_eq!(first.json()["target"], format!("/:amq.topic/{route}.{{{{seq}}}}"));
    assert_eq!(gateway.produce(key, &body).await.expect(201).bytes, first.bytes);

    let answer =
        gateway.consume(Uuid::new_v4(), &queue.request(json!({"maxMessages": 9}))).await.expect(200).json();
    let messages = answer["messages"].as_array().unwrap();
    let places: Vec<_> =
        messages.iter().map(|message| (&message["exchange"], &message["routingKey"])).collect();
    let topic = json!("amq.topic");
    assert_eq!(places, [(&topic, &json!(format!("{route}.0"))), (&topic, &json!(own))]);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn what_no_queue_gets_is_told() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (queue, route) = bound(&broker).await;
    let nowhere = format!("nowhere.{}", Uuid::new_v4());
    let messages = json!({"messages": [{"bodyText": "a"}, {"bodyText": "b", "routingKey": nowhere}]});
    let body = to("amq.topic", &format!("{route}.x"), messages);
    let problem = gateway.produce(Uuid::new_v4(), &body).await.expect_problem(404, "QUEUE_NOT_FOUND").json();
    assert_eq!(problem["enqueued"], 1);
    assert_eq!(broker.ready(&queue).await, 1);
    let missing = to(&format!("no.{}", Uuid::new_v4()), "k", json!({}));
    gateway.produce(Uuid::new_v4(), &missing).await.expect_problem(404, "EXCHANGE_NOT_FOUND");
    broker.delete(&queue).await;
}

#[tokio::test]
async fn what_does_not_go_together_is_named() {
    let gateway = Gateway::new();
    let own_key = json!({"targetRef": "local-rabbit", "messages": [{"bodyText": "a"}, {"bodyText": "b", "routingKey": "k"}]});
    let both = json!({"targetRef": "local-rabbit", "target": {"queue": "Q", "exchange": "e"}});
    let key_alone = json!({"targetRef": "local-rabbit", "target": {"routingKey": "k"}});
    for (body, pointer) in
        [(own_key, "/messages/1/routingKey"), (both, "/target/exchange"), (key_alone, "/target/routingKey")]
    {
        let problem =
            gateway.produce(Uuid::new_v4(), &body).await.expect_problem(400, "SCHEMA_VIOLATION").json();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let body = to("amq.topic", "k", json!({}));
    let problem = gateway.consume(Uuid::new_v4(), &body).await.expect_problem(400, "SCHEMA_VIOLATION").json();
    assert_eq!(problem["errors"][0]["pointer"], "/target/queue");
    gateway.post("/queue/depth", &body).await.expect_problem(400, "SCHEMA_VIOLATION");
}
