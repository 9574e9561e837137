//! Tests of queues on which the client must not start a temporary consumer: auto-delete queues,
//! queues with an exclusive consumer, and quorum queues with a single active consumer.

use std::time::{Duration, Instant};

use broker::Broker as _;
use lapin::options::{BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use mq::{BrokerError, ReceivedMessage};

use crate::support::{Bench, COMMIT, PLENTY, access, consume, is_at_least, rabbit, soon};

fn bodies(messages: &[ReceivedMessage]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8_lossy(&message.body.0).into_owned()).collect()
}

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("m{number}")).collect()
}

#[tokio::test]
async fn an_auto_delete_queue_survives_being_read() {
    for durable in [true, false] {
        // From 4.3 on, such queues cannot be declared.
        if !durable && is_at_least(4, 3).await {
            continue;
        }
        let options = QueueDeclareOptions { durable, auto_delete: true, ..Default::default() };
        let bench = Bench::with("auto-delete", options, &[("x-max-length", AMQPValue::LongInt(1_000))]).await;
        bench.put_numbered(80).await;
        let rabbit = rabbit();
        let command = consume(COMMIT, 50, 0);
        for _ in 0..2 {
            let unit = rabbit.fetch(&access(), &bench.queue, &command, PLENTY, soon()).await.unwrap();
            assert_eq!(bodies(&unit.consumed().messages), numbered(0..50));
            unit.rollback(soon()).await.unwrap();
            assert_eq!(bench.ready(80).await, 80);
        }
        let unit = rabbit.fetch(&access(), &bench.queue, &command, PLENTY, soon()).await.unwrap();
        assert_eq!(bodies(&unit.consumed().messages), numbered(0..50));
        unit.commit(soon()).await.unwrap();
        assert_eq!(bench.bodies().await, numbered(50..80));

        // Also while a fetch waits on the queue.
        let unit =
            rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 5, 1), PLENTY, soon()).await.unwrap();
        assert!(unit.consumed().messages.is_empty());
        unit.commit(soon()).await.unwrap();
        let (access, command) = (access(), consume(COMMIT, 5, 10));
        let fetch = rabbit.fetch(&access, &bench.queue, &command, PLENTY, soon());
        let put = async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            bench.put_numbered(2).await;
        };
        let started = Instant::now();
        let (unit, ()) = tokio::join!(fetch, put);
        let unit = unit.unwrap();
        assert!(started.elapsed() < Duration::from_secs(3));
        assert!(bodies(&unit.consumed().messages).starts_with(&numbered(0..1)));
        unit.commit(soon()).await.unwrap();
        bench.clean().await;
    }
}

#[tokio::test]
async fn beside_an_exclusive_consumer_messages_are_got_one_by_one() {
    let bench = Bench::new("exclusive-consumer").await;
    let other = bench.connection.create_channel().await.unwrap();
    other.basic_qos(1, BasicQosOptions::default()).await.unwrap();
    let options = BasicConsumeOptions { exclusive: true, ..Default::default() };
    let consumer =
        other.basic_consume(bench.queue.as_str().into(), "sole".into(), options, FieldTable::default());
    let _consumer = consumer.await.unwrap();
    bench.put_numbered(61).await;
    let rabbit = rabbit();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 100, 0), PLENTY, soon()).await.unwrap();
    // The exclusive consumer holds the first message.
    assert_eq!(bodies(&unit.consumed().messages), numbered(1..61));
    unit.commit(soon()).await.unwrap();

    let (access, command) = (access(), consume(COMMIT, 5, 10));
    let fetch = rabbit.fetch(&access, &bench.queue, &command, PLENTY, soon());
    let put = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        bench.put_numbered(1).await;
    };
    let (unit, ()) = tokio::join!(fetch, put);
    let unit = unit.unwrap();
    assert_eq!(bodies(&unit.consumed().messages), ["m0"]);
    unit.commit(soon()).await.unwrap();
    assert_eq!(bench.ready(0).await, 0);
    // A refused consumer costs a channel, but not the connection.
    assert_eq!(rabbit.pools().iter().map(|pool| (pool.open, pool.in_use)).collect::<Vec<_>>(), [(1, 0)]);
    bench.clean().await;
}

#[tokio::test]
async fn a_quorum_queue_with_one_active_consumer_is_refused_and_says_why() {
    let arguments = [
        ("x-queue-type", AMQPValue::LongString("quorum".into())),
        ("x-single-active-consumer", AMQPValue::Boolean(true)),
    ];
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let bench = Bench::with("single-quorum", options, &arguments).await;
    bench.put_numbered(3).await;
    let rabbit = rabbit();
    let error =
        rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 1, 0), PLENTY, soon()).await.err().unwrap();
    let BrokerError::Rejected { detail, reply: Some(reply), .. } = &error else { panic!("{error:?}") };
    assert_eq!(reply.code, 405);
    assert!(detail.contains("single active consumer"), "{detail}");
    assert_eq!(bench.ready(3).await, 3);
    bench.clean().await;
}
