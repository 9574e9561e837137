//! Tests of units of work that end without a commit, although the backout fails or the queue
//! manager backs out unasked.

use std::time::Duration;

use broker::{Broker as _, ConnectionSettings};
use mq::{Ack, AckMode, Base64Bytes, BrokerError, ConsumeCommand, Selector};
use serde_json::json;
use tokio::sync::watch;

use crate::support::{
    QueueManager, bodies, consume, deadline, in_transactions_of, limits, outgoing, queue, texts,
};

const COMMIT: AckMode = AckMode::Take(Ack::Commit);

/// Checks that a connection whose MQBACK fails is left open, since MQDISC would commit its unit of
/// work.
#[tokio::test]
async fn what_cannot_be_backed_out_is_not_committed_by_the_connections_end() {
    let mut manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["a", "b", "c"]), "a").await.unwrap();
    let unit = client.fetch("DEV.QUEUE.1", &consume(3, AckMode::Take(Ack::Rollback))).await.unwrap();
    manager.fault(&json!({"verb": "MQBACK", "reason": 2102, "times": 9}));
    unit.rollback(deadline()).await.unwrap_err();
    let client = manager.client();
    manager.fault(&json!({"verb": "MQPUT", "nth": 3, "reason": 2053}));
    let failure = client.put("DEV.QUEUE.2", &texts(&["a", "b", "c"]), "b").await.unwrap_err();
    assert_eq!((failure.committed, failure.in_doubt.len()), (0, 0));
    manager.kill();
    manager.run();
    let client = manager.client();
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 5).await), ["a", "b", "c"]);
    assert_eq!(manager.depth("DEV.QUEUE.2"), 0);
}

/// Checks that a connection which stays open after a failed backout counts towards the cap, since
/// it is still a channel instance.
#[tokio::test]
async fn a_connection_that_is_left_open_keeps_its_place_under_the_cap() {
    let manager = QueueManager::start();
    let settings = limits(ConnectionSettings {
        pool_timeout: Duration::from_millis(300),
        ..ConnectionSettings::default()
    });
    let client = manager.client_with(settings, 1);
    client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
    manager.fault(&json!({"verb": "MQPUT", "reason": 2053}));
    manager.fault(&json!({"verb": "MQBACK", "reason": 2102, "times": 9}));
    client.put("DEV.QUEUE.1", &texts(&["b"]), "b").await.unwrap_err();
    let name = queue("DEV.QUEUE.1");
    let error = client.broker.depth(&client.access, &name, deadline()).await.unwrap_err();
    assert!(matches!(error, BrokerError::PoolTimeout { .. }), "{error}");
    assert_eq!((client.cap.open(), manager.connections()), (1, 1));
}

/// Checks puts and gets while the queue manager backs out the unit of work by itself, and reports
/// that only by a warning (2003).
#[tokio::test]
async fn a_unit_that_the_queue_manager_backed_out_meanwhile_is_not_reported_as_done() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.fault(&json!({"verb": "MQPUT", "nth": 2, "reason": 2003}));
    let failure = client.put("DEV.QUEUE.1", &texts(&["a", "b", "c"]), "a").await.unwrap_err();
    assert_eq!((failure.committed, manager.depth("DEV.QUEUE.1")), (0, 0), "{failure}");
    client.put("DEV.QUEUE.1", &texts(&["a", "b", "c"]), "b").await.unwrap();
    manager.fault(&json!({"verb": "MQGET", "nth": 2, "reason": 2003}));
    let fetched = client.fetch("DEV.QUEUE.1", &consume(3, COMMIT)).await;
    assert!(fetched.is_err(), "{:?}", fetched.map(|unit| unit.consumed().messages.len()));
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 5).await), ["a", "b", "c"]);
}

/// Checks that messages of an earlier attempt do not make the client take its own unanswered commit
/// for done. Both attempts' messages have the same ids, since these are derived from the request.
#[tokio::test]
async fn what_an_earlier_attempt_put_does_not_prove_that_this_ones_unit_was_committed() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["a", "b"]), "same").await.unwrap();
    let all = in_transactions_of(3, texts(&["a", "b", "c"]));
    let again = outgoing(&all, "same").after(1);
    let attempt = async || {
        let (confirmed, _) = watch::channel(0);
        let to = queue("DEV.QUEUE.1");
        client.broker.produce(&client.access, &to, &again, 0, &confirmed, deadline()).await
    };
    manager.fault(&json!({"verb": "MQCMIT", "cut": true}));
    let failure = attempt().await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::InDoubt { .. }), "{failure}");
    assert_eq!((failure.committed, failure.in_doubt.len(), manager.depth("DEV.QUEUE.1")), (0, 3, 2));
    // All of them are on the queue, from whichever attempt.
    manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": "after"}));
    assert_eq!((attempt().await.unwrap().enqueued, manager.depth("DEV.QUEUE.1")), (3, 5));
}

#[tokio::test]
async fn an_id_that_is_every_messages_selects_nothing() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
    for id in [vec![], vec![0, 0], vec![0; 24]] {
        let id = Some(Base64Bytes(id));
        let by_message = Selector { msg_id_base64: id.clone(), ..Selector::default() };
        let by_correlation = Selector { correl_id_base64: id, ..Selector::default() };
        for selector in [by_message, by_correlation] {
            let command = ConsumeCommand { selector, ..consume(9, COMMIT) };
            let error = client.fetch("DEV.QUEUE.1", &command).await.map(|_| ()).unwrap_err();
            assert!(matches!(error, BrokerError::Unsupported { .. }), "{error}");
        }
    }
    assert_eq!(manager.depth("DEV.QUEUE.1"), 1);
}
