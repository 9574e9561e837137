//! Tests of a load test's producer and consumer on IBM MQ.

use std::time::Duration;

use broker::load::{Foreign, GetEnd, GetError, Outcome, PutEnd};
use broker::{Broker as _, Deadline};
use mq::BrokerError;
use serde_json::json;

use crate::load_steps::{self, gets, outcomes, put, puts, take};
use crate::support::{Client, QueueManager, code, deadline, queue, texts};

/// Declares an IBM MQ test for each named function of `load_steps`, which all brokers share.
macro_rules! in_common {
    ($module:ident: $($step:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $step() {
            let manager = QueueManager::start();
            let client = manager.client();
            load_steps::$module::$step(&client.broker, &client.access, &queue("DEV.QUEUE.1")).await;
        })*
    };
}

in_common! { producing:
    the_end_of_a_producer_completes_its_last_transaction,
    confirmations_are_noted_while_the_worker_waits,
    no_more_messages_are_unconfirmed_than_allowed,
}

in_common! { consuming:
    every_message_is_confirmed_and_comes_once_and_in_order,
    a_message_of_another_test_ends_the_consumer_and_stays,
    a_message_of_another_test_is_taken_if_that_is_wanted,
    nothing_is_taken_before_it_is_asked_for_and_nothing_is_lost_at_the_end,
    a_consumer_that_is_dropped_puts_back_what_it_has_in_hand,
    a_wait_may_be_cancelled_at_any_time,
    a_consumer_of_no_queue_is_refused,
}

/// Puts `count` messages on a queue, `transaction` in each unit of work, until all are put or a put
/// fails, and ends the producer. Returns what the producer reported at its end.
async fn put_on(client: &Client, to: &str, transaction: usize, count: u64) -> PutEnd {
    load_steps::put_all(&client.broker, &client.access, &queue(to), &puts(100, transaction), 0..count).await
}

/// Takes `count` messages from a queue in one unit of work, and ends the consumer. Returns the
/// consumer's report of its end.
async fn take_from(client: &Client, from: &str, count: usize) -> GetEnd {
    let (from, options) = (queue(from), gets(10, 100, Foreign::Leave));
    let consumer = client.broker.connect_load_consumer(&client.access, &from, &options, deadline()).await;
    let mut consumer = consumer.unwrap();
    take(&mut *consumer, count).await;
    consumer.finish(deadline()).await
}

fn is_in_doubt(error: Option<&BrokerError>) -> bool {
    matches!(error, Some(BrokerError::InDoubt { .. }))
}

#[tokio::test]
async fn a_full_queue_refuses_messages_and_the_producer_goes_on() {
    let manager = QueueManager::start();
    let client = manager.client();
    for transaction in [1, 4] {
        let end = put_on(&client, "DEV.SMALL", transaction, 5).await;
        let expected = |number: u64| if number < 3 { Outcome::Confirmed } else { Outcome::Refused };
        let mut outcomes = outcomes(&end.confirmations);
        outcomes.sort_by_key(|(number, _)| *number);
        assert_eq!(outcomes, (0..5).map(|n| (n, expected(n))).collect::<Vec<_>>(), "{transaction}");
        assert_eq!(end.error.as_ref().and_then(code), Some(2053));
        assert_eq!((manager.drain("DEV.SMALL").len(), client.cap.open()), (3, 1));
    }
}

#[tokio::test]
async fn any_other_refusal_ends_the_producer() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.fault(&json!({"verb": "MQPUT", "nth": 3, "reason": 2051}));
    let end = put_on(&client, "DEV.QUEUE.1", 1, 5).await;
    let outcomes = outcomes(&end.confirmations);
    assert_eq!(outcomes[..3], [(0, Outcome::Confirmed), (1, Outcome::Confirmed), (2, Outcome::Refused)]);
    assert!(outcomes[3..].iter().all(|(_, outcome)| *outcome == Outcome::NotPut), "{outcomes:?}");
    assert_eq!((end.error.as_ref().and_then(code), manager.depth("DEV.QUEUE.1")), (Some(2051), 2));
    // In a transaction, the messages before it are backed out.
    manager.fault(&json!({"verb": "MQPUT", "nth": 3, "reason": 2051}));
    let end = put_on(&client, "DEV.QUEUE.2", 10, 5).await;
    assert!(end.confirmations.iter().all(|answer| answer.outcome != Outcome::Confirmed), "{end:?}");
    assert_eq!((manager.depth("DEV.QUEUE.2"), client.cap.open()), (0, 1));
}

#[tokio::test]
async fn a_put_without_an_answer_is_in_doubt_and_those_after_it_are_not_put() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.fault(&json!({"verb": "MQPUT", "nth": 2, "cut": true, "when": "after"}));
    let end = put_on(&client, "DEV.QUEUE.1", 1, 5).await;
    let outcomes = outcomes(&end.confirmations);
    assert_eq!(outcomes[..2], [(0, Outcome::Confirmed), (1, Outcome::InDoubt)]);
    assert!(outcomes[2..].iter().all(|(_, outcome)| *outcome == Outcome::NotPut), "{outcomes:?}");
    assert!(is_in_doubt(end.error.as_ref()), "{:?}", end.error);
    assert_eq!(manager.depth("DEV.QUEUE.1"), 2);
}

#[tokio::test]
async fn a_transaction_is_in_doubt_as_a_whole_unless_it_was_backed_out() {
    let manager = QueueManager::start();
    let client = manager.client();
    for (to, fault, outcome, depth) in [
        ("DEV.QUEUE.1", json!({"verb": "MQCMIT", "nth": 2, "cut": true}), Outcome::InDoubt, 3),
        (
            "DEV.QUEUE.2",
            json!({"verb": "MQCMIT", "nth": 2, "cut": true, "when": "after"}),
            Outcome::InDoubt,
            6,
        ),
        ("DEV.QUEUE.3", json!({"verb": "MQCMIT", "nth": 2, "reason": 2003}), Outcome::NotPut, 3),
    ] {
        manager.fault(&fault);
        let end = put_on(&client, to, 3, 6).await;
        let confirmed = (0..3).map(|number| (number, Outcome::Confirmed));
        let expected: Vec<_> = confirmed.chain((3..6).map(|number| (number, outcome))).collect();
        assert_eq!(outcomes(&end.confirmations), expected, "{to}");
        assert_eq!(is_in_doubt(end.error.as_ref()), outcome == Outcome::InDoubt, "{:?}", end.error);
        assert_eq!(manager.depth(to), depth, "{to}");
    }
}

#[tokio::test]
async fn a_call_that_hangs_leaves_its_message_in_doubt_and_nobody_waits_for_it() {
    let manager = QueueManager::start();
    let client = manager.client();
    let (to, options) = (queue("DEV.QUEUE.1"), puts(2, 1));
    let producer = client.broker.connect_load_producer(&client.access, &to, &options, deadline()).await;
    let mut producer = producer.unwrap();
    manager.fault(&json!({"verb": "MQPUT", "hang": true}));
    put(&mut *producer, &options, 0..2).await.unwrap();
    let late = Deadline::after(Duration::from_millis(200));
    let error = producer.put(options.outgoing.with_body(2, Vec::new()), 0, late).await.unwrap_err();
    assert!(matches!(error, BrokerError::Timeout { .. }), "{error}");
    let end = producer.finish(Deadline::after(Duration::from_millis(500))).await;
    assert_eq!(outcomes(&end.confirmations), [(0, Outcome::InDoubt), (1, Outcome::InDoubt)]);
    assert!(is_in_doubt(end.error.as_ref()), "{:?}", end.error);
}

#[tokio::test]
async fn a_producer_that_cannot_work_is_refused() {
    let manager =
        QueueManager::start_with(|text| text.replace("max_uncommitted = 10000", "max_uncommitted = 5"));
    let client = manager.client();
    let refused = async |to: &str, transaction| {
        let (to, options) = (queue(to), puts(10, transaction));
        let refused = client.broker.connect_load_producer(&client.access, &to, &options, deadline()).await;
        refused.map(drop).unwrap_err()
    };
    let error = refused("DEV.NOT.THERE", 1).await;
    assert!(matches!(error, BrokerError::QueueNotFound { .. }), "{error:?}");
    let error = refused("DEV.QUEUE.1", 6).await;
    assert!(error.to_string().contains("MAXUMSGS"), "{error}");
    assert_eq!(client.cap.open(), 1);
    // A unit of work of a consumer has as many messages as it may.
    put_on(&client, "DEV.QUEUE.1", 1, 12).await;
    let end = take_from(&client, "DEV.QUEUE.1", 12).await;
    assert!(end.unsettled.is_empty() && end.error.is_none(), "{end:?}");
    assert_eq!(manager.depth("DEV.QUEUE.1"), 0);
}

#[tokio::test]
async fn messages_before_one_that_has_to_stay_go_back_with_it() {
    let manager = QueueManager::start();
    let client = manager.client();
    put_on(&client, "DEV.QUEUE.1", 1, 3).await;
    client.put("DEV.QUEUE.1", &texts(&["of a produce"]), "a").await.unwrap();
    let (from, options) = (queue("DEV.QUEUE.1"), gets(10, 100, Foreign::Leave));
    let consumer = client.broker.connect_load_consumer(&client.access, &from, &options, deadline()).await;
    let mut consumer = consumer.unwrap();
    take(&mut *consumer, 3).await;
    let error = consumer.next(deadline()).await.unwrap_err();
    assert!(matches!(error, GetError::Foreign(_)), "{error:?}");
    let end = consumer.finish(deadline()).await;
    assert_eq!(end.unsettled, [0, 1, 2]);
    assert!(matches!(end.error, Some(GetError::Foreign(_))), "{end:?}");
    assert_eq!((manager.ready("DEV.QUEUE.1"), client.cap.open()), (4, 1));
}

#[tokio::test]
async fn messages_whose_commit_was_not_confirmed_are_unsettled() {
    let manager = QueueManager::start();
    let client = manager.client();
    for (fault, left) in [
        (json!({"verb": "MQCMIT", "cut": true}), 3),
        (json!({"verb": "MQCMIT", "cut": true, "when": "after"}), 0),
        (json!({"verb": "MQCMIT", "reason": 2003}), 3),
    ] {
        put_on(&client, "DEV.QUEUE.1", 1, 3).await;
        manager.fault(&fault);
        let end = take_from(&client, "DEV.QUEUE.1", 3).await;
        assert_eq!(end.unsettled, [0, 1, 2], "{fault}");
        let is_in_doubt = matches!(end.error, Some(GetError::Broker(BrokerError::InDoubt { .. })));
        assert!(end.error.is_some() && is_in_doubt == fault.get("reason").is_none(), "{end:?}");
        client.has_open(usize::from(fault.get("reason").is_some())).await;
        assert_eq!(manager.drain("DEV.QUEUE.1").len(), left, "{fault}");
    }
}
