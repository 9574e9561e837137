//! Tests that responses distinguish what is certain from what is in doubt.

use end_to_end::{Gateway, QueueManager};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{bodies, put, take, taking, texts};

fn move_of(manager: &QueueManager) -> Value {
    json!({"from": {"target": manager.target("DEV.QUEUE.1")}, "to": {"queue": "DEV.QUEUE.2"}, "max": 10})
}

#[tokio::test]
async fn messages_that_were_not_removed_are_not_said_to_be() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    put(&gateway, &manager, "DEV.QUEUE.1", texts(&["a", "b"])).await;
    let body = manager.request("DEV.QUEUE.1", taking(json!({"ack": "none"})));
    let key = Uuid::new_v4();
    // Backed out by the queue manager, and not carried out, which a look at the queue shows.
    manager.fault(&json!({"verb": "MQCMIT", "reason": 2003}));
    gateway.consume(key, &body).await.expect_problem(502, "BROKER_REJECTED");
    manager.fault(&json!({"verb": "MQCMIT", "cut": true}));
    gateway.consume(key, &body).await.expect_problem(503, "BROKER_UNREACHABLE");
    assert_eq!(manager.depth("DEV.QUEUE.1"), 2);
    // Carried out and not answered.
    manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": "after"}));
    let got = gateway.consume(key, &body).await.expect(200).json();
    assert_eq!((bodies(&got), manager.depth("DEV.QUEUE.1")), (vec!["a", "b"], 0));
    assert!(got["warnings"].to_string().contains("or they will be delivered again"), "{got}");
    assert!(!got["warnings"].to_string().contains("removed at once"), "{got}");
}

#[tokio::test]
async fn a_move_repeated_after_a_doubt_says_what_the_first_may_have_moved() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    put(&gateway, &manager, "DEV.QUEUE.1", texts(&["a", "b", "c"])).await;
    let (key, body) = (Uuid::new_v4(), move_of(&manager));
    manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": "after"}));
    let doubt = gateway.move_messages(key, &body).await.expect_problem(502, "OUTCOME_IN_DOUBT").json();
    assert_eq!(doubt["messagesInDoubt"], 3);
    let again = gateway.move_messages(key, &body).await.expect(200).json();
    assert_eq!(
        (&again["moved"], &again["possiblyMoved"], &again["possibleDuplicates"]),
        (&json!(0), &json!(3), &json!(0)),
        "{again}"
    );
    let got = take(&gateway, &manager, "DEV.QUEUE.2", json!({})).await;
    assert_eq!((bodies(&got), manager.depth("DEV.QUEUE.1")), (vec!["a", "b", "c"], 0));
}

#[tokio::test]
async fn a_move_without_a_doubt_has_moved_what_it_says() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    put(&gateway, &manager, "DEV.QUEUE.1", texts(&["a", "b", "c"])).await;
    let (key, body) = (Uuid::new_v4(), move_of(&manager));
    manager.fault(&json!({"verb": "MQCMIT", "reason": 2003}));
    gateway.move_messages(key, &body).await.expect_problem(502, "BROKER_REJECTED");
    let again = gateway.move_messages(key, &body).await.expect(200).json();
    assert_eq!((&again["moved"], &again["possiblyMoved"]), (&json!(3), &json!(0)), "{again}");
}
