//! Tests of messages that a queue refused but dead-lettered nevertheless: the responses report
//! them.

use std::collections::BTreeMap;

use amqprs::FieldValue;
use end_to_end::{Broker, Gateway, Queue};
use serde_json::{Value, json};
use uuid::Uuid;

use super::ready_becomes;

/// Declares a queue that holds two messages, and refuses and dead-letters further ones.
async fn full_at_two(broker: &Broker, dead: &Queue) -> Queue {
    let text = |text: &str| FieldValue::S(text.try_into().unwrap());
    let arguments = [
        ("x-max-length", FieldValue::I(2)),
        ("x-overflow", text("reject-publish-dlx")),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(&dead.name)),
    ];
    broker.queue_with(&arguments).await
}

/// Takes all messages from these queues, and returns the number of copies by message id.
async fn copies(broker: &Broker, queues: &[&Queue]) -> BTreeMap<String, u64> {
    let mut copies = BTreeMap::new();
    for queue in queues {
        for (properties, _) in broker.drain(queue).await {
            *copies.entry(properties.message_id().unwrap().clone()).or_default() += 1;
        }
    }
    copies
}

fn twice(copies: &BTreeMap<String, u64>) -> u64 {
    u64::try_from(copies.values().filter(|copies| **copies > 1).count()).unwrap()
}

#[tokio::test]
async fn a_produce_counts_what_refusals_have_left_at_a_dead_letter_queue() {
    let (gateway, broker, key) = (Gateway::new(), Broker::connect().await, Uuid::new_v4());
    let dead = broker.queue().await;
    let full = full_at_two(&broker, &dead).await;
    let body = full.request(json!({"batch": {"count": 3, "messageSizeBytes": 10}}));
    for refusals in 1..=2 {
        let problem = gateway.produce(key, &body).await.expect_problem(502, "QUEUE_FULL").json();
        assert_eq!((&problem["enqueued"], &problem["messagesInDoubt"]), (&json!(2), &json!(1)), "{problem}");
        assert_eq!(problem["msgIdsInDoubtBase64"].as_array().unwrap().len(), 1);
        ready_becomes(&broker, &dead, refusals).await;
    }
    let mut there = copies(&broker, &[&full]).await;
    let answer = gateway.produce(key, &body).await.expect(201).json();
    for (id, more) in copies(&broker, &[&full, &dead]).await {
        *there.entry(id).or_default() += more;
    }
    assert_eq!((there.len(), twice(&there)), (3, 1), "{there:?}");
    assert_eq!(answer["possibleDuplicates"], 1, "{answer}");
    for queue in [full, dead] {
        broker.delete(&queue).await;
    }
}

#[tokio::test]
async fn a_move_counts_what_refusals_have_left_at_a_dead_letter_queue() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (from, dead) = (broker.queue().await, broker.queue().await);
    let full = full_at_two(&broker, &dead).await;
    let body = from.request(json!({"batch": {"count": 5, "messageSizeBytes": 10}}));
    gateway.produce(Uuid::new_v4(), &body).await.expect(201);
    let body = json!({"from": from.target(), "to": {"queue": full.name}});
    let answer = gateway.move_messages(Uuid::new_v4(), &body).await.expect(200).json();
    assert_eq!((&answer["moved"], &answer["stayed"]), (&json!(2), &json!(3)), "{answer}");
    let warnings = answer["warnings"].as_array().unwrap();
    let warns = |warning: &Value| warning.as_str().unwrap().contains("dead-letter exchange");
    assert!(warnings.iter().any(warns), "{answer}");
    ready_becomes(&broker, &from, 3).await;
    ready_becomes(&broker, &dead, 3).await;
    let there = copies(&broker, &[&from, &full, &dead]).await;
    assert_eq!((there.len(), twice(&there)), (5, 3), "{there:?}");
    assert_eq!(answer["possibleDuplicates"], 3, "{answer}");
    for queue in [from, full, dead] {
        broker.delete(&queue).await;
    }
}
