//! Tests of MQCMIT calls whose answer is lost, so that the commit is in doubt.

use std::time::Duration;

use mq::{Ack, AckMode, BrokerError};

use broker::Deadline;
use serde_json::json;

use crate::support::{Client, QueueManager, bodies, consume, deadline, generated, in_transactions_of, texts};

const COMMIT: AckMode = AckMode::Take(Ack::Commit);

async fn commit_taken(client: &Client) -> Result<(), BrokerError> {
    let unit = client.fetch("DEV.QUEUE.1", &consume(5, COMMIT)).await.unwrap();
    assert_eq!(unit.consumed().messages.len(), 3);
    unit.commit(deadline()).await
}

#[tokio::test]
async fn a_put_whose_commit_happened_and_was_not_answered_is_found() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": "after"}));
    let report = client.put("DEV.QUEUE.1", &generated(3), "a").await.unwrap();
    assert_eq!((report.enqueued, manager.depth("DEV.QUEUE.1")), (3, 3));
    // With transactions, the later ones are not put.
    manager.fault(&json!({"verb": "MQCMIT", "nth": 2, "cut": true, "when": "after"}));
    let failure = client.put("DEV.QUEUE.2", &in_transactions_of(2, generated(6)), "b").await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::Unreachable { .. }), "{failure}");
    assert_eq!((failure.committed, failure.in_doubt.len(), manager.depth("DEV.QUEUE.2")), (4, 0, 4));
}

#[tokio::test]
async fn a_put_whose_commit_may_have_happened_stays_in_doubt() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.fault(&json!({"verb": "MQCMIT", "nth": 2, "cut": true}));
    let failure = client.put("DEV.QUEUE.1", &in_transactions_of(2, generated(6)), "a").await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::InDoubt { .. }), "{failure}");
    assert_eq!((failure.committed, failure.in_doubt.len(), manager.depth("DEV.QUEUE.1")), (2, 2, 2));
}

#[tokio::test]
async fn a_put_that_the_queue_manager_backed_out_did_not_happen() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.fault(&json!({"verb": "MQCMIT", "reason": 2003}));
    let failure = client.put("DEV.QUEUE.1", &generated(3), "a").await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::Rejected { .. }), "{failure}");
    assert_eq!((failure.committed, failure.in_doubt.len(), manager.depth("DEV.QUEUE.1")), (0, 0, 0));
}

/// Checks that only a commit which has begun is in doubt after a time-out. The last messages and
/// the commit go to the connection's thread in one request, and the commit must not begin once the
/// caller got its error.
#[tokio::test]
async fn only_a_commit_that_has_begun_is_in_doubt_if_there_is_no_answer() {
    let manager = QueueManager::start();
    let client = manager.client();
    let soon = || Deadline::after(Duration::from_secs(2));
    manager.fault(&json!({"verb": "MQPUT", "nth": 3, "hang": true}));
    let failure = client.put_until("DEV.QUEUE.1", &generated(3), "a", soon()).await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::Timeout { .. }), "{failure}");
    assert_eq!((failure.committed, failure.in_doubt.len()), (0, 0));
    manager.fault(&json!({"verb": "MQCMIT", "hang": true}));
    let failure = client.put_until("DEV.QUEUE.1", &generated(3), "b", soon()).await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::InDoubt { .. }), "{failure}");
    assert_eq!((failure.committed, failure.in_doubt.len()), (0, 3));
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_commit_leaves_nothing() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.fault(&json!({"verb": "MQPUT", "nth": 2, "cut": true}));
    let failure = client.put("DEV.QUEUE.1", &generated(3), "a").await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::Unreachable { .. }), "{failure}");
    assert_eq!((failure.committed, failure.in_doubt.len(), manager.depth("DEV.QUEUE.1")), (0, 0, 0));
}

#[tokio::test]
async fn messages_that_are_back_were_not_taken() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["a", "b", "c"]), "a").await.unwrap();
    manager.fault(&json!({"verb": "MQCMIT", "cut": true}));
    let error = commit_taken(&client).await.unwrap_err();
    assert!(matches!(error, BrokerError::Unreachable { .. }), "{error}");
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 5).await), ["a", "b", "c"]);
}

#[tokio::test]
async fn messages_that_are_not_back_may_have_been_taken() {
    let manager = QueueManager::start();
    let client = manager.client();
    for (key, fault) in [
        ("a", json!({"verb": "MQCMIT", "cut": true, "when": "after"})),
        ("b", json!({"verb": "MQCMIT", "reason": 2549, "when": "after"})),
    ] {
        client.put("DEV.QUEUE.1", &texts(&["a", "b", "c"]), key).await.unwrap();
        manager.fault(&fault);
        let error = commit_taken(&client).await.unwrap_err();
        assert!(matches!(error, BrokerError::InDoubt { .. }), "{error}");
        assert_eq!(manager.depth("DEV.QUEUE.1"), 0);
    }
}

/// Checks that copies with the same ids, which another client put, do not make an unanswered commit
/// of gets look backed out.
#[tokio::test]
async fn a_copy_that_was_put_again_is_not_taken_for_the_message_itself() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["a", "b", "c"]), "same").await.unwrap();
    let unit = client.fetch("DEV.QUEUE.1", &consume(3, COMMIT)).await.unwrap();
    let other = manager.client();
    other.put("DEV.QUEUE.1", &texts(&["a", "b", "c"]), "same").await.unwrap();
    manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": "after"}));
    let error = unit.commit(deadline()).await.unwrap_err();
    assert!(matches!(error, BrokerError::InDoubt { .. }), "{error}");
    assert_eq!(manager.depth("DEV.QUEUE.1"), 3);
}

/// Checks that an unanswered commit of gets stays in doubt if only a copy of one message is back on
/// the queue. A retried produce that sets the messages' time puts copies with the same put time,
/// and these can be backed out too.
#[tokio::test]
async fn a_copy_that_came_back_does_not_prove_that_the_rest_did() {
    let manager = QueueManager::start();
    let (client, other) = (manager.client(), manager.client());
    let dated = |bodies: &[&str]| {
        let mut command = texts(bodies);
        command.props.properties.timestamp = Some("2026-01-02T03:04:05.67Z".parse().unwrap());
        command
    };
    client.put("DEV.QUEUE.1", &dated(&["a", "b"]), "same").await.unwrap();
    let unit = client.fetch("DEV.QUEUE.1", &consume(2, COMMIT)).await.unwrap();
    other.put("DEV.QUEUE.1", &dated(&["a"]), "same").await.unwrap();
    let shown = other.fetch("DEV.QUEUE.1", &consume(1, COMMIT)).await.unwrap();
    shown.rollback(deadline()).await.unwrap();
    manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": "after"}));
    let error = unit.commit(deadline()).await.unwrap_err();
    assert!(matches!(error, BrokerError::InDoubt { .. }), "{error}");
    assert_eq!(manager.drain("DEV.QUEUE.1"), ["a"]);
}

#[tokio::test]
async fn a_get_that_the_queue_manager_backed_out_did_not_happen() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["a", "b", "c"]), "a").await.unwrap();
    manager.fault(&json!({"verb": "MQCMIT", "reason": 2003}));
    let error = commit_taken(&client).await.unwrap_err();
    assert!(matches!(error, BrokerError::Rejected { .. }), "{error}");
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 5).await), ["a", "b", "c"]);
}

#[tokio::test]
async fn what_was_not_committed_when_the_queue_manager_died_is_there_again() {
    let mut manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["a", "b", "c"]), "a").await.unwrap();
    let unit = client.fetch("DEV.QUEUE.1", &consume(3, COMMIT)).await.unwrap();
    manager.kill();
    manager.run();
    let error = unit.commit(deadline()).await.unwrap_err();
    assert!(matches!(error, BrokerError::InDoubt { .. } | BrokerError::Unreachable { .. }), "{error}");
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 5).await), ["a", "b", "c"]);
}
