//! Tests of moves of messages that a dead-letter exchange took from their queue.

use amqprs::{BasicProperties, FieldValue};
use end_to_end::{Access, Broker, Gateway, Queue, READONLY_KEY, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

use super::ready_becomes;

/// Declares a queue whose messages are dead-lettered to the queue `dead` when they expire.
async fn dying_to(broker: &Broker, dead: &Queue) -> Queue {
    let text = |text: &str| FieldValue::S(text.try_into().unwrap());
    let arguments = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&dead.name))];
    broker.queue_with(&arguments).await
}

/// Publishes a message that expires at once, so that it is dead-lettered.
async fn dies(broker: &Broker, queue: &Queue, body: &str) {
    let properties =
        BasicProperties::default().with_expiration("0").with_message_id(&format!("id of {body}")).finish();
    broker.publish(queue, properties, body).await;
}

/// Returns the body of a move of a queue's messages to the queues on which they died.
fn to_origin(dead: &Queue) -> Value {
    json!({"from": dead.target(), "to": "origin"})
}

fn reasons(answer: &Value) -> Vec<Value> {
    answer["messages"].as_array().unwrap().iter().map(|message| message["reason"].clone()).collect()
}

#[tokio::test]
async fn dead_letters_go_back_to_where_they_died_and_strangers_stay() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let dead = broker.queue().await;
    let (orders, payments) = (dying_to(&broker, &dead).await, dying_to(&broker, &dead).await);
    dies(&broker, &orders, "an order").await;
    ready_becomes(&broker, &dead, 1).await;
    dies(&broker, &payments, "a payment").await;
    ready_becomes(&broker, &dead, 2).await;
    broker.publish(&dead, BasicProperties::default(), "a stranger").await;
    ready_becomes(&broker, &dead, 3).await;
    let origin = to_origin(&dead);
    let mut dry = origin.clone();
    dry["dryRun"] = json!(true);
    let reader = gateway.with_key(READONLY_KEY);
    let preview = reader.post("/messages/move", &dry).await.expect(200).json();
    assert_eq!(
        (&preview["dryRun"], &preview["moved"], &preview["stayed"]),
        (&json!(true), &json!(2), &json!(1))
    );
    assert_eq!((broker.ready(&orders).await, broker.ready(&payments).await), (0, 0));
    ready_becomes(&broker, &dead, 3).await;
    let answer = gateway.move_messages(Uuid::new_v4(), &origin).await.expect(200).json();
    assert_eq!(reasons(&answer), [json!(null), json!(null), json!("NO_ORIGIN")]);
    assert_eq!(answer["messages"].as_array().unwrap()[0]["deaths"], 1);
    for (queue, body) in [(&orders, "an order"), (&payments, "a payment")] {
        let (properties, arrived) = broker.get(queue).await.unwrap();
        assert_eq!(arrived, body.as_bytes());
        assert_eq!(properties.message_id().unwrap(), &format!("id of {body}"));
        assert!(properties.headers().unwrap().get(&"x-death".try_into().unwrap()).is_some());
    }
    ready_becomes(&broker, &dead, 1).await;
    for queue in [dead, orders, payments] {
        broker.delete(&queue).await;
    }
}

/// Checks that a message moves back only to a queue that the profile allows. The profile has the
/// dead-letter queue and one of the two queues of its messages.
#[tokio::test]
async fn a_dead_letter_goes_back_only_where_the_profile_leads() {
    let (gateway, broker, access) = (Gateway::new(), Broker::connect().await, Access::open().await);
    let dead = broker.queue().await;
    let (mine, others) = (dying_to(&broker, &dead).await, dying_to(&broker, &dead).await);
    let profile = access.limited_profile(TENANT_A, &[&dead.name, &mine.name]).await;
    let mut origin = to_origin(&dead);
    origin["from"]["targetRef"] = json!(profile);
    dies(&broker, &others, "of others").await;
    ready_becomes(&broker, &dead, 1).await;
    dies(&broker, &mine, "mine").await;
    ready_becomes(&broker, &dead, 2).await;
    let answer = gateway.move_messages(Uuid::new_v4(), &origin).await.expect(200).json();
    assert_eq!(reasons(&answer), [json!("NOT_ALLOWED"), json!(null)], "{answer}");
    assert_eq!((broker.ready(&others).await, broker.ready(&mine).await), (0, 1));
    ready_becomes(&broker, &dead, 1).await;
    for queue in [dead, mine, others] {
        broker.delete(&queue).await;
    }
}

#[tokio::test]
async fn dead_lettering_leaves_a_history_that_reads_at_once() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let dead = broker.queue().await;
    let work = dying_to(&broker, &dead).await;
    gateway.produce(Uuid::new_v4(), &work.request(json!({"mqProps": {"expiryMs": 1}}))).await.expect(201);
    while broker.ready(&dead).await == 0 {}
    let answer = gateway.consume(Uuid::new_v4(), &dead.target()).await.expect(200).json();
    let message = &answer["messages"][0];
    let [death] = message["deaths"].as_array().unwrap().as_slice() else { panic!("{message}") };
    let at = death["at"].as_str().unwrap();
    let expected = json!({
        "queue": work.name, "exchange": "", "routingKeys": [work.name], "reason": "expired", "count": 1, "at": at,
        "first": true,
    });
    assert_eq!(death, &expected);
    assert_eq!(message["headers"]["x-death"][0]["time"], json!({"time": at}));
    broker.delete(&work).await;
    broker.delete(&dead).await;
}
