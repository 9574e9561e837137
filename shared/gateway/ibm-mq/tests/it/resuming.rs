//! Tests of a produce that resumes after an earlier attempt ended without reporting its progress.

use std::time::Duration;

use mq::{Ack, AckMode, ProduceCommand, ProduceReport};

use broker::{Broker as _, Deadline, EarlierAttempts};
use serde_json::json;
use tokio::sync::watch;

use crate::support::{Client, QueueManager, deadline, generated, in_transactions_of, outgoing, queue};

const QUEUE: &str = "DEV.QUEUE.1";
/// Range to search after an earlier attempt that reported nothing and put only to the same queue.
/// Any number of its messages may be there.
const ANY: EarlierAttempts = EarlierAttempts { from: 0, most: u64::MAX, is_here: true };
/// Range to search after an earlier attempt that reported nothing and may have put to another
/// queue.
const ANYWHERE: EarlierAttempts = EarlierAttempts { is_here: false, ..ANY };

/// Runs the second attempt of a produce. Returns the number of messages that its search counts as
/// already put, and the report of putting the rest.
async fn resume(
    client: &Client,
    command: &ProduceCommand,
    unconfirmed: EarlierAttempts,
) -> (u64, ProduceReport) {
    let outgoing = outgoing(command, "key").after(1);
    let to = queue(QUEUE);
    let mut ready = client.broker.connect_to_put(&client.access, &to, &outgoing, deadline()).await.unwrap();
    let found = ready.find(unconfirmed, deadline()).await;
    let (confirmed, _) = watch::channel(found);
    (found, ready.put(found, &confirmed, deadline()).await.unwrap())
}

#[tokio::test]
async fn what_an_earlier_attempt_committed_is_not_put_again() {
    let manager = QueueManager::start();
    let client = manager.client();
    let command = in_transactions_of(10, generated(300));
    manager.fault(&json!({"verb": "MQCMIT", "nth": 13, "cut": true, "when": "before"}));
    client.put(QUEUE, &command, "key").await.unwrap_err();
    assert_eq!(manager.depth(QUEUE), 120);
    for (from, most, expected) in [(0, 5, 5), (0, 0, 0), (100, 20, 120), (50, u64::MAX, 120)] {
        let outgoing = outgoing(&command, "key").after(1);
        let to = queue(QUEUE);
        let mut ready =
            client.broker.connect_to_put(&client.access, &to, &outgoing, deadline()).await.unwrap();
        let unconfirmed = EarlierAttempts { from, most, is_here: true };
        assert_eq!(ready.find(unconfirmed, deadline()).await, expected, "{unconfirmed:?}");
    }
    let (found, report) = resume(&client, &command, ANY).await;
    assert_eq!((found, report.enqueued, manager.depth(QUEUE)), (120, 180, 300));
    // Nothing is left to put.
    let (found, report) = resume(&client, &command, ANYWHERE).await;
    assert_eq!((found, report.enqueued, manager.depth(QUEUE)), (300, 0, 300));
}

#[tokio::test]
async fn a_message_that_is_there_stands_for_those_before_it_that_others_took() {
    let manager = QueueManager::start();
    let client = manager.client();
    let command = generated(50);
    client.put(QUEUE, &command, "key").await.unwrap();
    client.take(QUEUE, 40).await;
    // Nothing is certain if the messages may have come from another queue.
    let to = queue(QUEUE);
    let outgoing = outgoing(&command, "key").after(1);
    let mut ready = client.broker.connect_to_put(&client.access, &to, &outgoing, deadline()).await.unwrap();
    assert_eq!(ready.find(ANYWHERE, deadline()).await, 0);
    drop(ready);
    let (found, report) = resume(&client, &command, ANY).await;
    assert_eq!((found, report.enqueued, manager.depth(QUEUE)), (50, 0, 10));
}

#[tokio::test]
async fn what_is_not_there_or_not_committed_proves_nothing() {
    let manager = QueueManager::start();
    let client = manager.client();
    let command = generated(5);
    client.put(QUEUE, &command, "key").await.unwrap();
    client.take(QUEUE, 5).await;
    let (found, report) = resume(&client, &command, ANY).await;
    assert_eq!((found, report.enqueued), (0, 5));
    // A consumer has them in hand.
    let unit = client.fetch(QUEUE, &crate::support::consume(5, AckMode::Take(Ack::Commit))).await.unwrap();
    let (found, _) = resume(&client, &command, ANY).await;
    assert_eq!(found, 0);
    unit.commit(deadline()).await.unwrap();
}

/// Checks that a produce puts all messages if its search for those of an earlier attempt fails or
/// runs out of time.
#[tokio::test]
async fn without_a_look_everything_is_put() {
    let manager = QueueManager::start();
    let client = manager.client();
    let command = generated(5);
    client.put(QUEUE, &command, "key").await.unwrap();
    // The user may not browse.
    manager.fault(&json!({"verb": "MQOPEN", "nth": 2, "reason": 2035}));
    let (found, report) = resume(&client, &command, ANY).await;
    assert_eq!((found, report.enqueued, manager.depth(QUEUE)), (0, 5, 10));
    // No time is left for the search.
    let outgoing = outgoing(&command, "key").after(1);
    let to = queue(QUEUE);
    let mut ready = client.broker.connect_to_put(&client.access, &to, &outgoing, deadline()).await.unwrap();
    manager.fault(&json!({"verb": "MQGET", "hang": true}));
    assert_eq!(ready.find(ANY, Deadline::after(Duration::from_millis(300))).await, 0);
}
