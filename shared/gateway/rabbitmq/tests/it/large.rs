//! Tests of a first message that alone exceeds a response. A fetch returns it by itself, if its
//! caller accepts bodies of that size.

use broker::{Broker as _, UnitOfWork};
use lapin::BasicProperties;
use lapin::options::QueueDeclareOptions;
use lapin::types::AMQPValue;
use mq::{Ack, AckMode, BrokerError, ConsumeCommand};
use rabbitmq::{RabbitMq, Settings};

use crate::support::{Bench, COMMIT, access, consume, soon};

const MEBIBYTE: usize = 1024 * 1024;
/// Maximum size in bytes of a response in these tests, except for one that holds a single large
/// message.
const ANSWER: usize = 10_000;
const LARGEST: usize = 12 * MEBIBYTE;

/// Returns a client under test whose fetches hold at most 8 MiB, which a large message exceeds.
fn rabbit() -> RabbitMq {
    RabbitMq::with_settings(Settings { most_held: 8 * MEBIBYTE, ..Settings::default() })
}

async fn fetch(
    rabbit: &RabbitMq,
    bench: &Bench,
    command: &ConsumeCommand,
) -> Result<Box<dyn UnitOfWork>, BrokerError> {
    rabbit.fetch_large(&access(), &bench.queue, command, ANSWER, LARGEST, soon()).await
}

fn sizes(unit: &dyn UnitOfWork) -> Vec<usize> {
    unit.consumed().messages.iter().map(|message| message.body.0.len()).collect()
}

async fn with_a_large_one(kind: &str) -> Bench {
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let arguments = [("x-queue-type", AMQPValue::LongString(kind.into()))];
    let bench = Bench::with(&format!("alone-{kind}"), options, &arguments).await;
    for size in [1, 2, 100_000, LARGEST, 3] {
        bench.put(&vec![b'x'; size], BasicProperties::default()).await;
    }
    bench
}

#[tokio::test]
async fn a_large_message_comes_alone_and_neither_with_those_before_it_nor_with_those_behind_it() {
    let (bench, rabbit, mut left) = (with_a_large_one("classic").await, rabbit(), 5);
    for expected in [vec![1, 2], vec![100_000], vec![LARGEST], vec![3]] {
        let unit = fetch(&rabbit, &bench, &consume(COMMIT, 10, 5)).await.unwrap();
        assert_eq!(sizes(&*unit), expected);
        left -= u32::try_from(expected.len()).unwrap();
        unit.commit(soon()).await.unwrap();
        assert_eq!(bench.ready(left).await, left);
    }
    bench.clean().await;
}

/// Checks that each message of a quorum queue comes once, and large ones alone. Their order is not
/// checked: from RabbitMQ 4.0 on, messages that a closed connection had taken by `basic.get` return
/// behind the others.
#[tokio::test]
async fn a_large_message_comes_alone_from_a_quorum_queue_and_each_other_one_once() {
    let (bench, rabbit, mut came) = (with_a_large_one("quorum").await, rabbit(), Vec::new());
    while came.len() < 5 {
        let unit = fetch(&rabbit, &bench, &consume(COMMIT, 10, 5)).await.unwrap();
        let sizes = sizes(&*unit);
        let is_too_much = |size: &usize| *size >= 100_000;
        assert!(sizes.len() == 1 || !sizes.iter().any(is_too_much), "{sizes:?} after {came:?}");
        assert!(!sizes.is_empty(), "nothing after {came:?}");
        came.extend(sizes);
        unit.commit(soon()).await.unwrap();
        let left = u32::try_from(5 - came.len()).unwrap();
        assert_eq!(bench.ready(left).await, left);
    }
    came.sort_unstable();
    assert_eq!(came, [1, 2, 3, 100_000, LARGEST]);
    bench.clean().await;
}

#[tokio::test]
async fn a_large_message_that_is_not_kept_goes_back() {
    let (bench, rabbit) = (Bench::new("large-back").await, rabbit());
    bench.put(&vec![b'x'; LARGEST], BasicProperties::default()).await;
    let looked = fetch(&rabbit, &bench, &consume(AckMode::Take(Ack::Rollback), 10, 0)).await.unwrap();
    assert_eq!(sizes(&*looked), [LARGEST]);
    looked.rollback(soon()).await.unwrap();
    assert_eq!(bench.ready(1).await, 1);
    let dropped = fetch(&rabbit, &bench, &consume(COMMIT, 1, 5)).await.unwrap();
    drop(dropped);
    assert_eq!(bench.ready(1).await, 1);
    bench.clean().await;
}

#[tokio::test]
async fn what_is_waited_for_may_be_large() {
    let (bench, rabbit) = (Bench::new("large-wait").await, rabbit());
    let command = consume(COMMIT, 10, 10);
    let put = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        bench.put(&vec![b'x'; LARGEST], BasicProperties::default()).await;
    };
    let (unit, ()) = tokio::join!(fetch(&rabbit, &bench, &command), put);
    let unit = unit.unwrap();
    assert_eq!(sizes(&*unit), [LARGEST]);
    unit.commit(soon()).await.unwrap();
    assert_eq!(bench.ready(0).await, 0);
    bench.clean().await;
}

#[tokio::test]
async fn a_message_beyond_every_bound_stays_and_the_bound_is_named() {
    let (bench, rabbit) = (Bench::new("too-large-to-store").await, rabbit());
    for size in [LARGEST + 1, 2 * LARGEST] {
        bench.put(&vec![b'x'; size], BasicProperties::default()).await;
        for mode in [COMMIT, AckMode::Take(Ack::Rollback)] {
            let error = fetch(&rabbit, &bench, &consume(mode, 10, 5)).await.err().unwrap();
            assert!(matches!(error, BrokerError::MessageTooLarge { .. }), "{error:?}");
            assert!(error.to_string().contains(&format!("which are {LARGEST} bytes")), "{error}");
            assert_eq!(bench.ready(1).await, 1, "it stays");
        }
        let _ = bench.channel.queue_purge(bench.queue.as_str().into(), Default::default()).await.unwrap();
    }
    bench.clean().await;
}
