//! Tests of the memory limit of a fetch. Whatever is on a queue, a fetch holds a limited number of
//! bytes in memory, and the messages that fit can be taken.

use broker::Broker as _;
use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldArray, FieldTable};
use mq::{AckMode, BrokerError};
use rabbitmq::{RabbitMq, Settings};

use crate::support::{Bench, COMMIT, NONE, PLENTY, access, consume, is_at_least, soon};
use crate::taking::fill;

const MEBIBYTE: usize = 1024 * 1024;

/// Returns a client under test whose fetches hold at most 8 MiB, which the test messages exceed.
fn rabbit() -> RabbitMq {
    RabbitMq::with_settings(Settings { most_held: 8 * MEBIBYTE, ..Settings::default() })
}

/// Returns this process's resident memory in bytes: the current value, and the maximum since the
/// last [`forget_the_peak`].
fn memory() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
    };
    (kib("VmRSS:") * 1024, kib("VmHWM:") * 1024)
}

fn forget_the_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Consumes up to 1,000 messages with the acknowledgement mode `mode`, and commits. Returns the
/// sizes of their bodies, and the number of bytes by which this process's resident memory grew
/// meanwhile.
async fn take(rabbit: &RabbitMq, bench: &Bench, mode: AckMode) -> (Result<Vec<usize>, BrokerError>, usize) {
    forget_the_peak();
    let (before, _) = memory();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(mode, 1_000, 0), PLENTY, soon()).await;
    let sizes = match unit {
        Ok(unit) => {
            let sizes = unit.consumed().messages.iter().map(|message| message.body.0.len()).collect();
            unit.commit(soon()).await.unwrap();
            Ok(sizes)
        }
        Err(error) => Err(error),
    };
    (sizes, memory().1.saturating_sub(before))
}

#[tokio::test]
async fn small_messages_before_large_ones_are_taken_and_the_large_ones_are_not_held() {
    let bench = Bench::new("small-then-large").await;
    for _ in 0..3 {
        bench.put(b"small", BasicProperties::default()).await;
    }
    let large = vec![b'x'; 12 * MEBIBYTE];
    for _ in 0..14 {
        bench.put(&large, BasicProperties::default()).await;
    }
    let rabbit = rabbit();
    // Buffers are allocated on first use.
    rabbit.depth(&access(), &bench.queue, soon()).await.unwrap();
    let (sizes, grown) = take(&rabbit, &bench, COMMIT).await;
    assert_eq!(sizes.unwrap(), vec![5; 3]);
    assert!(grown < 40 * MEBIBYTE, "{grown} bytes for 168 MiB on the queue");
    for mode in [COMMIT, NONE, COMMIT] {
        let (refused, grown) = take(&rabbit, &bench, mode).await;
        assert!(matches!(refused, Err(BrokerError::MessageTooLarge { .. })), "{refused:?}");
        assert!(grown < 40 * MEBIBYTE, "{grown} bytes for 168 MiB on the queue");
    }
    assert_eq!(bench.ready(14).await, 14, "they stay");
    bench.clean().await;
}

#[tokio::test]
async fn what_fits_is_taken_from_the_head_however_much_lies_behind() {
    let bench = Bench::new("head").await;
    for size in [1, 2, 3] {
        bench.put(&vec![b'x'; size], BasicProperties::default()).await;
    }
    bench.put(&vec![b'x'; 12 * MEBIBYTE], BasicProperties::default()).await;
    fill(&bench, (0..60).map(|_| vec![b'x'; 100])).await;
    let rabbit = rabbit();
    for _ in 0..5 {
        let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 1_000, 0), PLENTY, soon()).await;
        let unit = unit.unwrap();
        let sizes: Vec<_> = unit.consumed().messages.iter().map(|message| message.body.0.len()).collect();
        assert_eq!((sizes, unit.consumed().truncated), (vec![1, 2, 3], true));
        unit.rollback(soon()).await.unwrap();
        bench.ready(64).await;
    }
    bench.clean().await;
}

#[tokio::test]
async fn a_message_too_large_for_any_answer_is_never_held() {
    // From 4.0 on, a broker accepts no message of more than 16 MiB unless it is configured to.
    if is_at_least(4, 0).await {
        return;
    }
    for kind in ["classic", "quorum"] {
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        let arguments = [("x-queue-type", AMQPValue::LongString(kind.into()))];
        let bench = Bench::with(&format!("too-large-{kind}"), options, &arguments).await;
        bench.put(&vec![b'x'; 90 * MEBIBYTE], BasicProperties::default()).await;
        let rabbit = rabbit();
        rabbit.depth(&access(), &bench.queue, soon()).await.unwrap();
        for _ in 0..2 {
            let (refused, grown) = take(&rabbit, &bench, COMMIT).await;
            assert!(matches!(refused, Err(BrokerError::MessageTooLarge { .. })), "{refused:?}");
            assert!(grown < 40 * MEBIBYTE, "{grown} bytes for 90 MiB on the queue");
            assert_eq!(bench.ready(1).await, 1, "it stays");
        }
        bench.clean().await;
    }
}

#[tokio::test]
async fn what_is_waited_for_may_be_too_large() {
    let (bench, rabbit) = (Bench::new("wait-large").await, rabbit());
    let (access, command) = (access(), consume(COMMIT, 10, 10));
    let fetch = rabbit.fetch(&access, &bench.queue, &command, PLENTY, soon());
    let put = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        bench.put(&vec![b'x'; 12 * MEBIBYTE], BasicProperties::default()).await;
    };
    let (refused, ()) = tokio::join!(fetch, put);
    assert!(matches!(refused.err(), Some(BrokerError::MessageTooLarge { .. })));
    assert_eq!(bench.ready(1).await, 1, "it stays");
    bench.clean().await;
}

#[tokio::test]
async fn headers_that_grow_when_they_are_parsed_count_with_what_they_become() {
    let bench = Bench::new("voids").await;
    let voids = FieldArray::from(vec![AMQPValue::Void; 100_000]);
    let mut headers = FieldTable::default();
    headers.insert("voids".into(), AMQPValue::FieldArray(voids));
    let properties = BasicProperties::default().with_headers(headers);
    bench.put(b"plain", BasicProperties::default()).await;
    for _ in 0..12 {
        bench.put(b"grows", properties.clone()).await;
    }
    // Each message weighs 16 MB.
    let rabbit = RabbitMq::with_settings(Settings { most_held: 40 * MEBIBYTE, ..Settings::default() });
    let (sizes, grown) = take(&rabbit, &bench, COMMIT).await;
    let taken = u32::try_from(sizes.unwrap().len()).unwrap();
    assert!((1..=3).contains(&taken), "one plain message and at most two that grow: {taken}");
    assert!(grown < 64 * MEBIBYTE, "{grown} bytes");
    assert_eq!(bench.ready(13 - taken).await, 13 - taken);
    bench.clean().await;
}

#[tokio::test]
async fn messages_of_even_sizes_come_as_fast_as_before() {
    // Round trips dominate the cost: each consumer takes two, and asks for eight times the messages
    // in hand.
    let bench = Bench::new("even").await;
    fill(&bench, (0..3_000).map(|_| vec![b'x'; 100])).await;
    let proxy = crate::proxy::Proxy::start().await;
    let rabbit = RabbitMq::with_settings(Settings::default());
    let unit = rabbit.fetch(&proxy.access(), &bench.queue, &consume(COMMIT, 3_000, 0), PLENTY, soon()).await;
    let unit = unit.unwrap();
    assert_eq!(unit.consumed().messages.len(), 3_000);
    assert!(!unit.consumed().truncated && unit.consumed().warnings.is_empty());
    unit.commit(soon()).await.unwrap();
    assert_eq!(proxy.accepted(), 1, "on one connection");
    bench.clean().await;
}

/// Checks that a message counts by its real size if a publisher uses header names which the client
/// reserves for its records about a delivery. These records are kept outside the headers.
#[tokio::test]
async fn no_header_makes_a_message_look_too_large() {
    let (bench, rabbit) = (Bench::new("forged").await, rabbit());
    let mut headers = FieldTable::default();
    for name in ["\0integrahub:hollow", "\0integrahub:withheld"] {
        headers.insert(name.into(), AMQPValue::Boolean(true));
    }
    let properties = BasicProperties::default().with_headers(headers);
    let (name, options) = (bench.queue.as_str().into(), BasicPublishOptions::default());
    let publish = bench.channel.basic_publish("".into(), name, options, b"", properties).await.unwrap();
    assert!(publish.await.unwrap().is_ack());
    let (sizes, _) = take(&rabbit, &bench, COMMIT).await;
    assert_eq!(sizes.unwrap(), vec![0]);
    bench.clean().await;
}
