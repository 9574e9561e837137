//! Tests of consumes that take messages by a temporary AMQP consumer: all that were on the queue,
//! in order, and without withholding any from other clients.

use std::time::{Duration, Instant};

use broker::Broker as _;
use lapin::BasicProperties;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicQosOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use mq::{BrokerError, ReceivedMessage};

use crate::support::{Bench, COMMIT, NONE, PLENTY, access, consume, rabbit, soon};

fn numbers(messages: &[ReceivedMessage]) -> Vec<String> {
    let text = |message: &ReceivedMessage| String::from_utf8_lossy(&message.body.0).into_owned();
    messages.iter().map(text).collect()
}

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("m{number}")).collect()
}

/// Publishes messages with these bodies to the queue of `bench`, and waits for their confirms.
pub(crate) async fn fill(bench: &Bench, bodies: impl IntoIterator<Item = Vec<u8>>) {
    let mut confirms = Vec::new();
    for body in bodies {
        let (name, options) = (bench.queue.as_str().into(), BasicPublishOptions::default());
        let publish =
            bench.channel.basic_publish("".into(), name, options, &body, BasicProperties::default());
        confirms.push(publish.await.unwrap());
    }
    for confirm in confirms {
        assert!(confirm.await.unwrap().is_ack());
    }
}

async fn fill_numbered(bench: &Bench, count: usize) {
    fill(bench, numbered(0..count).into_iter().map(String::into_bytes)).await;
}

#[tokio::test]
async fn everything_that_is_there_is_taken_in_order_and_removed() {
    let bench = Bench::new("all").await;
    fill_numbered(&bench, 700).await;
    let rabbit = rabbit();
    let unit =
        rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 10_000, 5), PLENTY, soon()).await.unwrap();
    assert_eq!(numbers(&unit.consumed().messages), numbered(0..700));
    assert!(unit.consumed().messages.iter().all(|message| message.backout_count == 0));
    assert_eq!(bench.ready(0).await, 0);
    unit.commit(soon()).await.unwrap();
    assert_eq!(bench.ready(0).await, 0);
    bench.clean().await;
}

#[tokio::test]
async fn no_more_is_taken_than_was_asked_for_and_the_rest_was_never_touched() {
    let bench = Bench::new("some").await;
    fill_numbered(&bench, 300).await;
    let rabbit = rabbit();
    for mode in [COMMIT, NONE] {
        let unit =
            rabbit.fetch(&access(), &bench.queue, &consume(mode, 120, 0), PLENTY, soon()).await.unwrap();
        assert_eq!(unit.consumed().messages.len(), 120);
        assert!(!unit.consumed().truncated);
        unit.commit(soon()).await.unwrap();
    }
    assert_eq!(bench.ready(60).await, 60);
    let next = bench.channel.basic_get(bench.queue.as_str().into(), BasicGetOptions { no_ack: true }).await;
    let next = next.unwrap().unwrap().delivery;
    assert_eq!((next.data.as_slice(), next.redelivered), (b"m240".as_slice(), false));
    bench.clean().await;
}

#[tokio::test]
async fn what_a_consumer_brought_in_excess_goes_back_in_order() {
    for kind in ["classic", "quorum"] {
        let arguments = [("x-queue-type", AMQPValue::LongString(kind.into()))];
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        let bench = Bench::with(&format!("excess-{kind}"), options, &arguments).await;
        // Small messages first, so that more are estimated to fit than do.
        let sizes = (0..120).map(|number| if number < 40 { 10 } else { 1_000 + number });
        fill(&bench, sizes.clone().map(|size| vec![b'x'; size])).await;
        let rabbit = rabbit();
        let mut seen = Vec::new();
        while seen.len() < 120 {
            let command = consume(COMMIT, 10_000, 0);
            let unit = rabbit.fetch(&access(), &bench.queue, &command, 40_000, soon()).await.unwrap();
            let messages = &unit.consumed().messages;
            assert!(!messages.is_empty());
            assert!(messages.iter().map(ReceivedMessage::carried_size).sum::<usize>() <= 40_000);
            seen.extend(messages.iter().map(|message| message.body.0.len()));
            assert_eq!(unit.consumed().truncated, seen.len() < 120, "{kind}");
            unit.commit(soon()).await.unwrap();
            let left = u32::try_from(120 - seen.len()).unwrap();
            assert_eq!(bench.ready(left).await, left, "{kind}");
        }
        if kind == "quorum" {
            // Messages that return twice queue up behind those that returned once.
            seen.sort_unstable();
        }
        assert_eq!(seen, sizes.collect::<Vec<_>>(), "{kind}");
        bench.clean().await;
    }
}

#[tokio::test]
async fn messages_that_arrive_meanwhile_are_taken_or_stay() {
    let bench = Bench::new("late").await;
    fill_numbered(&bench, 50).await;
    let rabbit = rabbit();
    let (access, command) = (access(), consume(COMMIT, 10_000, 0));
    let fetch = rabbit.fetch(&access, &bench.queue, &command, PLENTY, soon());
    let put = async {
        for number in 50..250 {
            bench.put(format!("m{number}").as_bytes(), BasicProperties::default()).await;
        }
    };
    let (unit, ()) = tokio::join!(fetch, put);
    let unit = unit.unwrap();
    let taken = numbers(&unit.consumed().messages);
    assert!(taken.len() >= 50);
    assert_eq!(taken, numbered(0..taken.len()));
    unit.commit(soon()).await.unwrap();
    assert_eq!(bench.bodies().await, numbered(taken.len()..250));
    bench.clean().await;
}

#[tokio::test]
async fn two_that_take_at_once_share_what_is_there() {
    let bench = Bench::new("shared").await;
    fill_numbered(&bench, 2_000).await;
    let (one, other) = (rabbit(), rabbit());
    let (access, command) = (access(), consume(COMMIT, 1_500, 0));
    let (first, second) = tokio::join!(
        one.fetch(&access, &bench.queue, &command, PLENTY, soon()),
        other.fetch(&access, &bench.queue, &command, PLENTY, soon()),
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    let returned = numbers(&first.consumed().messages);
    let mut all = returned.clone();
    all.extend(numbers(&second.consumed().messages));
    assert_eq!(all.len(), 2_000);
    all.sort_by_key(|name| name.trim_start_matches('m').parse::<usize>().unwrap());
    assert_eq!(all, numbered(0..2_000));
    first.rollback(soon()).await.unwrap();
    second.commit(soon()).await.unwrap();
    let left = bench.bodies().await;
    assert_eq!(left, returned);
    bench.clean().await;
}

#[tokio::test]
async fn a_queue_with_one_active_consumer_is_emptied_without_one() {
    let arguments = [("x-single-active-consumer", AMQPValue::Boolean(true))];
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let bench = Bench::with("single", options, &arguments).await;
    let idle = bench.connection.create_channel().await.unwrap();
    let name = bench.queue.as_str();
    idle.basic_qos(1, BasicQosOptions::default()).await.unwrap();
    let consumer = idle.basic_consume(
        name.into(),
        "active".into(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let _consumer = consumer.await.unwrap();
    fill_numbered(&bench, 61).await;
    let started = Instant::now();
    let rabbit = rabbit();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 100, 0), PLENTY, soon()).await.unwrap();
    // The active consumer holds the first message.
    assert_eq!(numbers(&unit.consumed().messages), numbered(1..61));
    assert!(started.elapsed() < Duration::from_secs(3));
    unit.commit(soon()).await.unwrap();
    bench.clean().await;
}

#[tokio::test]
async fn a_queue_that_goes_away_while_it_is_taken_from_is_named() {
    let bench = Bench::new("deleted").await;
    fill_numbered(&bench, 3_000).await;
    let rabbit = rabbit();
    let (access, command) = (access(), consume(COMMIT, 10_000, 0));
    let fetch = rabbit.fetch(&access, &bench.queue, &command, PLENTY, soon());
    let delete = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let name = bench.queue.as_str().into();
        bench.channel.queue_delete(name, QueueDeleteOptions::default()).await.unwrap();
    };
    let started = Instant::now();
    let (result, ()) = tokio::join!(fetch, delete);
    assert!(started.elapsed() < Duration::from_secs(5));
    let is_gone = |error: &BrokerError| matches!(error, BrokerError::QueueNotFound { queue, .. } if *queue == bench.queue);
    match result {
        Err(error) => assert!(is_gone(&error), "{error:?}"),
        // The fetch was faster than the deletion; the messages in hand were deleted with the queue.
        Ok(unit) => assert_eq!(unit.consumed().messages.len(), 3_000),
    }
    let depth = rabbit.depth(&access, &bench.queue, soon()).await.unwrap_err();
    assert!(is_gone(&depth), "{depth:?}");
    assert!(rabbit.pools().iter().all(|pool| pool.in_use == 0));
}
