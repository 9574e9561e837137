//! Tests of fetching messages that other clients published: the messages stay or are removed, as
//! the request asks.

use std::time::{Duration, Instant};

use broker::Broker as _;
use lapin::BasicProperties;
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::AMQPValue;
use mq::{AckMode, Base64Bytes, BrokerError, MessageBody, Selector};

use crate::support::{Bench, COMMIT, NONE, PLENTY, ROLLBACK, access, consume, is_at_least, rabbit, soon};

fn bodies(messages: &[mq::ReceivedMessage]) -> Vec<String> {
    let text = |body: &MessageBody| String::from_utf8(body.0.clone()).unwrap();
    messages.iter().map(|message| text(&message.body)).collect()
}

#[tokio::test]
async fn commit_removes_what_was_got_and_nothing_else() {
    let bench = Bench::new("commit").await;
    bench.put_numbered(5).await;
    let rabbit = rabbit();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 3, 0), PLENTY, soon()).await.unwrap();
    assert_eq!(bodies(&unit.consumed().messages), ["m0", "m1", "m2"]);
    assert!(!unit.consumed().truncated);
    assert_eq!(bench.ready(2).await, 2);
    unit.commit(soon()).await.unwrap();
    assert_eq!(bench.bodies().await, ["m3", "m4"]);
    bench.clean().await;
}

#[tokio::test]
async fn rollback_leaves_everything_in_order() {
    let bench = Bench::new("rollback").await;
    bench.put_numbered(4).await;
    let rabbit = rabbit();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(ROLLBACK, 3, 0), PLENTY, soon()).await.unwrap();
    assert_eq!(unit.consumed().messages.len(), 3);
    unit.rollback(soon()).await.unwrap();
    assert_eq!(bench.ready(4).await, 4);
    assert_eq!(bench.bodies().await, ["m0", "m1", "m2", "m3"]);
    bench.clean().await;
}

#[tokio::test]
async fn a_unit_of_work_that_is_dropped_puts_its_messages_back() {
    let bench = Bench::new("dropped").await;
    bench.put_numbered(3).await;
    let rabbit = rabbit();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 2, 0), PLENTY, soon()).await.unwrap();
    drop(unit);
    assert_eq!(bench.ready(3).await, 3);
    assert_eq!(rabbit.pools(), vec![]);
    bench.clean().await;
}

#[tokio::test]
async fn none_removes_at_once() {
    let bench = Bench::new("none").await;
    bench.put_numbered(3).await;
    let rabbit = rabbit();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(NONE, 2, 0), PLENTY, soon()).await.unwrap();
    assert_eq!(bodies(&unit.consumed().messages), ["m0", "m1"]);
    assert!(!unit.consumed().warnings.is_empty());
    drop(unit);
    assert_eq!(bench.bodies().await, ["m2"]);
    bench.clean().await;
}

#[tokio::test]
async fn browse_shows_and_leaves() {
    let bench = Bench::new("browse").await;
    bench.put_numbered(3).await;
    let rabbit = rabbit();
    for _ in 0..3 {
        let command = consume(AckMode::Browse, 10, 0);
        let unit = rabbit.fetch(&access(), &bench.queue, &command, PLENTY, soon()).await.unwrap();
        assert_eq!(bodies(&unit.consumed().messages), ["m0", "m1", "m2"]);
        assert!(unit.consumed().warnings.iter().any(|warning| warning.contains("redelivered")));
    }
    assert_eq!(bench.bodies().await, ["m0", "m1", "m2"]);
    bench.clean().await;
}

#[tokio::test]
async fn an_answer_that_is_full_leaves_the_rest() {
    let bench = Bench::new("truncated").await;
    for size in [100, 100, 3_000, 50] {
        bench.put(&vec![b'x'; size], BasicProperties::default()).await;
    }
    let rabbit = rabbit();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 10, 0), 2_000, soon()).await.unwrap();
    assert_eq!(unit.consumed().messages.len(), 2);
    assert!(unit.consumed().truncated);
    assert!(unit.consumed().messages.iter().map(mq::ReceivedMessage::carried_size).sum::<usize>() <= 2_000);
    unit.commit(soon()).await.unwrap();

    let error =
        rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 10, 0), 2_000, soon()).await.err().unwrap();
    assert!(matches!(error, BrokerError::MessageTooLarge { .. }), "{error:?}");
    assert_eq!(bench.ready(2).await, 2);
    let error =
        rabbit.fetch(&access(), &bench.queue, &consume(NONE, 10, 0), 2_000, soon()).await.err().unwrap();
    assert!(matches!(error, BrokerError::MessageTooLarge { .. }), "{error:?}");
    assert_eq!(bench.ready(2).await, 2);
    assert_eq!(bench.get().await.unwrap().data.len(), 3_000);
    bench.clean().await;
}

#[tokio::test]
async fn an_empty_queue_is_waited_for() {
    let bench = Bench::new("wait").await;
    let rabbit = rabbit();
    let started = Instant::now();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 5, 1), PLENTY, soon()).await.unwrap();
    assert!(unit.consumed().messages.is_empty());
    assert_eq!(unit.consumed().wait_seconds_applied, 1);
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(3), "{took:?}");
    unit.commit(soon()).await.unwrap();

    let (access, command) = (access(), consume(COMMIT, 5, 10));
    let fetch = rabbit.fetch(&access, &bench.queue, &command, PLENTY, soon());
    let put = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        bench.put_numbered(1).await;
    };
    let started = Instant::now();
    let (unit, ()) = tokio::join!(fetch, put);
    let unit = unit.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(bodies(&unit.consumed().messages), ["m0"]);
    unit.commit(soon()).await.unwrap();
    assert_eq!(bench.ready(0).await, 0);
    bench.clean().await;
}

#[tokio::test]
async fn a_wait_ends_in_time_for_the_deadline() {
    let bench = Bench::new("budget").await;
    let started = Instant::now();
    let deadline = broker::Deadline::after(Duration::from_secs(3));
    let unit =
        rabbit().fetch(&access(), &bench.queue, &consume(COMMIT, 1, 60), PLENTY, deadline).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3));
    assert!(unit.consumed().wait_seconds_applied <= 2);
    assert!(!unit.consumed().warnings.is_empty());
    bench.clean().await;
}

#[tokio::test]
async fn a_queue_that_does_not_exist_is_named() {
    let bench = Bench::absent("nowhere").await;
    let rabbit = rabbit();
    let is_not_found = |error: &BrokerError| matches!(error, BrokerError::QueueNotFound { queue, .. } if *queue == bench.queue);
    for mode in [COMMIT, ROLLBACK, NONE, AckMode::Browse] {
        let error =
            rabbit.fetch(&access(), &bench.queue, &consume(mode, 1, 1), PLENTY, soon()).await.err().unwrap();
        assert!(is_not_found(&error), "{error:?}");
    }
    let error = rabbit.depth(&access(), &bench.queue, soon()).await.unwrap_err();
    assert!(is_not_found(&error), "{error:?}");
    // A channel that the broker closes does not cost the connection.
    assert_eq!(rabbit.pools().iter().map(|pool| (pool.open, pool.in_use)).collect::<Vec<_>>(), [(1, 0)]);
}

#[tokio::test]
async fn a_queue_that_goes_away_ends_the_wait() {
    let bench = Bench::new("gone").await;
    let rabbit = rabbit();
    let (access, command) = (access(), consume(COMMIT, 1, 10));
    let fetch = rabbit.fetch(&access, &bench.queue, &command, PLENTY, soon());
    let delete = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let name = bench.queue.as_str().into();
        bench.channel.queue_delete(name, QueueDeleteOptions::default()).await.unwrap();
    };
    let started = Instant::now();
    let (result, ()) = tokio::join!(fetch, delete);
    let error = result.err().unwrap();
    assert!(matches!(&error, BrokerError::QueueNotFound { queue, .. } if *queue == bench.queue), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn selectors_and_conversions_are_refused_at_their_members() {
    let bench = Bench::new("selector").await;
    let mut selected = consume(COMMIT, 1, 0);
    selected.selector = Selector { msg_id_base64: Some(Base64Bytes(vec![1])), ..Selector::default() };
    let mut converted = consume(COMMIT, 1, 0);
    converted.convert = true;
    for (command, at) in [(selected, "/selector"), (converted, "/convert")] {
        let error = rabbit().fetch(&access(), &bench.queue, &command, PLENTY, soon()).await.err().unwrap();
        assert!(
            matches!(&error, BrokerError::Unsupported { pointer: Some(pointer), .. } if pointer == at),
            "{error:?}"
        );
    }
    bench.clean().await;
}

#[tokio::test]
async fn queues_that_drop_what_returns_are_not_browsed() {
    let rabbit = rabbit();
    // From 4.3 on messages can be returned in a way that quorum queues do not count.
    let kinds: &[&str] = if is_at_least(4, 3).await { &["stream"] } else { &["quorum", "stream"] };
    for kind in kinds.iter().copied() {
        let arguments = [
            ("x-queue-type", AMQPValue::LongString(kind.into())),
            ("x-max-length-bytes", AMQPValue::LongInt(1_000_000)),
        ];
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        let bench = Bench::with(kind, options, &arguments).await;
        bench.put_numbered(1).await;
        for mode in [AckMode::Browse, ROLLBACK] {
            let error = rabbit
                .fetch(&access(), &bench.queue, &consume(mode, 1, 0), PLENTY, soon())
                .await
                .err()
                .unwrap();
            assert!(
                matches!(&error, BrokerError::Unsupported { detail, .. } if detail.contains(kind)),
                "{error:?}"
            );
        }
        if kind == "quorum" {
            assert_eq!(bench.ready(1).await, 1);
        }
        bench.clean().await;
    }
}

#[tokio::test]
async fn a_quorum_queue_is_consumed() {
    let arguments = [("x-queue-type", AMQPValue::LongString("quorum".into()))];
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let bench = Bench::with("quorum-commit", options, &arguments).await;
    bench.put_numbered(3).await;
    let rabbit = rabbit();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 2, 0), PLENTY, soon()).await.unwrap();
    unit.commit(soon()).await.unwrap();
    assert_eq!(bench.bodies().await, ["m2"]);
    bench.clean().await;
}

#[tokio::test]
async fn a_stream_is_refused() {
    let arguments = [("x-queue-type", AMQPValue::LongString("stream".into()))];
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let bench = Bench::with("stream", options, &arguments).await;
    let error =
        rabbit().fetch(&access(), &bench.queue, &consume(COMMIT, 1, 0), PLENTY, soon()).await.err().unwrap();
    assert!(matches!(error, BrokerError::Unsupported { .. }), "{error:?}");
    bench.clean().await;
}

#[tokio::test]
async fn an_exclusive_queue_of_another_connection_is_refused() {
    let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
    let bench = Bench::with("exclusive", options, &[]).await;
    let rabbit = rabbit();
    let error = rabbit.depth(&access(), &bench.queue, soon()).await.unwrap_err();
    assert!(
        matches!(&error, BrokerError::Rejected { reply: Some(reply), .. } if reply.code == 405),
        "{error:?}"
    );
    let error =
        rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 1, 0), PLENTY, soon()).await.err().unwrap();
    assert!(
        matches!(&error, BrokerError::Rejected { reply: Some(reply), .. } if reply.code == 405),
        "{error:?}"
    );
    bench.clean().await;
}

#[tokio::test]
async fn queues_of_every_make_are_recognised_as_classic() {
    let rabbit = rabbit();
    let auto_delete = QueueDeclareOptions { auto_delete: true, durable: true, ..Default::default() };
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    let mut cases = vec![
        (auto_delete, vec![]),
        (durable, vec![("x-queue-type", AMQPValue::LongString("classic".into()))]),
        (
            durable,
            vec![
                ("x-message-ttl", AMQPValue::LongInt(600_000)),
                ("x-max-length", AMQPValue::LongLongInt(10)),
                ("x-dead-letter-exchange", AMQPValue::LongString("it's".into())),
                ("x-max-priority", AMQPValue::ShortShortUInt(5)),
                ("x-single-active-consumer", AMQPValue::Boolean(true)),
                ("x-queue-mode", AMQPValue::LongString("lazy".into())),
            ],
        ),
    ];
    // From 4.3 on, such queues cannot be declared.
    if !is_at_least(4, 3).await {
        cases.push((QueueDeclareOptions::default(), vec![]));
    }
    for (options, arguments) in cases {
        let bench = Bench::with("classic", options, &arguments).await;
        bench.put_numbered(1).await;
        let command = consume(AckMode::Browse, 1, 0);
        let unit = rabbit.fetch(&access(), &bench.queue, &command, PLENTY, soon()).await;
        assert_eq!(unit.unwrap().consumed().messages.len(), 1, "{arguments:?}");
        assert_eq!(bench.ready(1).await, 1);
        bench.clean().await;
    }
}
