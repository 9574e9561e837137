//! Tests of produces. An independent client reads the messages back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use broker::Broker as _;
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::AMQPValue;
use mq::{
    Base64Bytes, BrokerError, CorrelIdMode, ExpiryMs, HeaderName, HeaderValue, Headers, MqProps, Outgoing,
    Persistence, Priority, ProduceSource, RateLimit, Transaction, TxSize,
};
use tokio::sync::watch;

use crate::support::{Bench, access, command, explicit, outgoing, rabbit, random, seed, soon, unwatched};

fn durable() -> QueueDeclareOptions {
    QueueDeclareOptions { durable: true, ..Default::default() }
}

fn headers(entries: &[(&str, &str)]) -> Headers {
    let entries: BTreeMap<_, _> = entries
        .iter()
        .map(|(name, value)| (HeaderName::try_from((*name).to_owned()).unwrap(), HeaderValue::from(*value)))
        .collect();
    Headers::try_from(entries).unwrap()
}

#[tokio::test]
async fn a_message_carries_its_body_and_properties() {
    let bench = Bench::new("properties").await;
    let mut command = command(explicit(&["hello"]));
    command.headers = headers(&[("k1", "v1"), ("k2", "é")]);
    command.props = MqProps {
        persistence: Persistence::Persistent,
        priority: Priority::try_from(4).unwrap(),
        expiry_ms: Some(ExpiryMs::try_from(60_000).unwrap()),
        correl_id_mode: CorrelIdMode::EchoMsgId,
        ..MqProps::default()
    };
    let outgoing = Outgoing::new(&command, seed());
    let report = rabbit().produce(&access(), &bench.queue, &outgoing, 0, &unwatched(), soon()).await.unwrap();
    assert_eq!((report.enqueued, report.bytes, report.transactions, report.atomic), (1, 5, 0, false));
    assert!(report.warnings.iter().any(|warning| warning.contains("x-max-priority")));
    assert!(report.latency.p50 > 0.0);

    let got = bench.get().await.unwrap();
    let id = outgoing.message_id(0).to_hex();
    assert_eq!(report.first_id.as_deref(), Some(id.as_bytes()));
    assert_eq!(report.last_id, report.first_id);
    assert_eq!(got.data, b"hello");
    let properties = &got.properties;
    assert_eq!(properties.message_id().as_ref().unwrap().as_str(), id);
    assert_eq!(properties.correlation_id().as_ref().unwrap().as_str(), id);
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert_eq!(*properties.priority(), Some(4));
    assert_eq!(properties.expiration().as_ref().unwrap().as_str(), "60000");
    assert_eq!(*properties.timestamp(), Some(1_790_000_000));
    assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "text/plain; charset=utf-8");
    let headers = properties.headers().as_ref().unwrap().inner();
    assert_eq!(headers.get("k1"), Some(&AMQPValue::LongString("v1".into())));
    assert_eq!(headers.get("k2"), Some(&AMQPValue::LongString("é".into())));
    assert_eq!(headers.get("sequence"), Some(&AMQPValue::LongLongInt(0)));
    let key = AMQPValue::LongString("0190b5a8-0000-7000-8000-000000000001".into());
    assert_eq!(headers.get("idempotencyKey"), Some(&key));
    bench.clean().await;
}

#[tokio::test]
async fn thousands_of_messages_arrive_in_order_and_once() {
    let bench = Bench::new("many").await;
    let mut command = command(random(3_500, 200));
    command.transaction =
        Transaction { enabled: true, tx_size: TxSize::try_from(300).unwrap(), atomic: false };
    let (outgoing, confirmed) = (Outgoing::new(&command, seed()), watch::Sender::new(500));
    let report = rabbit().produce(&access(), &bench.queue, &outgoing, 500, &confirmed, soon()).await.unwrap();
    assert_eq!((report.enqueued, report.bytes, report.transactions), (3_000, 600_000, 10));
    assert_eq!(*confirmed.borrow(), 3_500);
    for index in 500..3_500 {
        let got = bench.get().await.unwrap();
        let expected = outgoing.message(index).unwrap();
        assert_eq!(got.properties.message_id().as_ref().unwrap().as_str(), expected.id.to_hex());
        assert_eq!(got.data, expected.body);
    }
    assert!(bench.get().await.is_none());
    bench.clean().await;
}

#[tokio::test]
async fn bodies_larger_than_a_frame_and_empty_ones_arrive() {
    let bench = Bench::new("sizes").await;
    for size in [0, 1, 131_064, 131_065, 4_194_304] {
        let outgoing = outgoing(random(3, size));
        let report =
            rabbit().produce(&access(), &bench.queue, &outgoing, 0, &unwatched(), soon()).await.unwrap();
        assert_eq!(report.bytes, 3 * u64::try_from(size).unwrap());
        for index in 0..3 {
            assert_eq!(bench.get().await.unwrap().data, outgoing.message(index).unwrap().body);
        }
    }
    bench.clean().await;
}

#[tokio::test]
async fn a_queue_that_does_not_exist_gets_nothing() {
    let bench = Bench::absent("absent").await;
    let rabbit = rabbit();
    for count in [1, 2_000] {
        let failure = rabbit
            .produce(&access(), &bench.queue, &outgoing(random(count, 10)), 0, &unwatched(), soon())
            .await
            .unwrap_err();
        assert!(
            matches!(&failure.error, BrokerError::QueueNotFound { queue, .. } if *queue == bench.queue),
            "{failure:?}"
        );
        assert_eq!((failure.committed, failure.in_doubt), (0, vec![]));
    }
}

#[tokio::test]
async fn a_full_queue_that_rejects_is_told_from_other_refusals() {
    let arguments = [
        ("x-max-length", AMQPValue::LongInt(3)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    let bench = Bench::with("full", durable(), &arguments).await;
    let failure = rabbit()
        .produce(&access(), &bench.queue, &outgoing(random(50, 10)), 0, &unwatched(), soon())
        .await
        .unwrap_err();
    assert!(matches!(failure.error, BrokerError::QueueFull { .. }), "{failure:?}");
    assert!(failure.committed >= 3, "{failure:?}");
    assert_eq!(
        u64::from(bench.ready(3).await),
        failure.committed + u64::try_from(failure.in_doubt.len()).unwrap()
    );
    bench.clean().await;
}

#[tokio::test]
async fn what_amqp_cannot_do_is_refused_before_anything_is_sent() {
    let bench = Bench::new("refused").await;
    let rabbit = rabbit();
    let mut binary = command(explicit(&["a", "b"]));
    if let ProduceSource::Explicit { messages } = &mut binary.source {
        messages[1].correl_id = Some(Base64Bytes(vec![0xff, 0xfe]));
    }
    let mut long = command(explicit(&["a"]));
    long.props.correl_id_mode = CorrelIdMode::Fixed;
    long.props.fixed_correl_id_base64 = Some(Base64Bytes(vec![b'x'; 256]));
    let refused = [(binary, "/messages/1/correlIdBase64"), (long, "/mqProps/fixedCorrelIdBase64")];
    for (command, at) in refused {
        let failure = rabbit
            .produce(&access(), &bench.queue, &Outgoing::new(&command, seed()), 0, &unwatched(), soon())
            .await
            .unwrap_err();
        assert!(
            matches!(&failure.error, BrokerError::Unsupported { pointer: Some(pointer), .. } if pointer == at),
            "{failure:?}"
        );
        assert_eq!(failure.committed, 0);
    }
    let mut atomic = command(random(1, 1));
    atomic.transaction = Transaction { enabled: true, tx_size: TxSize::default(), atomic: true };
    let failure = rabbit
        .produce(&access(), &bench.queue, &Outgoing::new(&atomic, seed()), 0, &unwatched(), soon())
        .await
        .unwrap_err();
    assert!(
        matches!(&failure.error, BrokerError::Unsupported { pointer: Some(pointer), .. } if pointer == "/batch/transaction/atomic"),
        "{failure:?}"
    );
    assert_eq!(bench.ready(0).await, 0);
    bench.clean().await;
}

#[tokio::test]
async fn the_pace_is_kept() {
    let bench = Bench::new("pace").await;
    let mut command = command(random(100, 10));
    command.rate_limit_per_sec = Some(RateLimit::try_from(100).unwrap());
    let started = Instant::now();
    rabbit()
        .produce(&access(), &bench.queue, &Outgoing::new(&command, seed()), 0, &unwatched(), soon())
        .await
        .unwrap();
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(970) && took < Duration::from_millis(2_500), "{took:?}");
    bench.clean().await;
}

#[tokio::test]
async fn a_deadline_between_messages_is_a_timeout_with_what_was_committed() {
    let bench = Bench::new("deadline").await;
    let mut command = command(random(1_000, 10));
    command.rate_limit_per_sec = Some(RateLimit::try_from(50).unwrap());
    let deadline = broker::Deadline::after(Duration::from_secs(2));
    let failure = rabbit()
        .produce(&access(), &bench.queue, &Outgoing::new(&command, seed()), 0, &unwatched(), deadline)
        .await
        .unwrap_err();
    assert!(matches!(failure.error, BrokerError::Timeout { .. }), "{failure:?}");
    assert!(failure.in_doubt.is_empty());
    assert!(failure.committed > 30 && failure.committed < 100, "{failure:?}");
    assert_eq!(u64::from(bench.ready(u32::try_from(failure.committed).unwrap()).await), failure.committed);
    bench.clean().await;
}

/// Returns the numbers of confirmed messages that a produce reported while it worked, in order.
/// Ends when the sender is dropped.
async fn told(mut confirmed: watch::Receiver<u64>) -> Vec<u64> {
    let mut told = Vec::new();
    while confirmed.changed().await.is_ok() {
        told.push(*confirmed.borrow_and_update());
    }
    told
}

#[tokio::test]
async fn progress_is_told_while_messages_are_in_flight() {
    let bench = Bench::new("progress").await;
    let (outgoing, confirmed) = (outgoing(random(20_000, 100)), watch::Sender::new(0));
    let told = tokio::spawn(told(confirmed.subscribe()));
    let report = rabbit().produce(&access(), &bench.queue, &outgoing, 0, &confirmed, soon()).await.unwrap();
    assert_eq!((report.enqueued, *confirmed.borrow()), (20_000, 20_000));
    drop(confirmed);
    let told = told.await.unwrap();
    assert!(told.is_sorted(), "{told:?}");
    // At most one window of messages is unconfirmed, so each thousand is reported.
    assert!(told.len() >= 19, "{told:?}");
    bench.clean().await;
}

#[tokio::test]
async fn progress_never_counts_a_message_that_comes_back() {
    for delay in [5, 20, 40, 80] {
        let bench = Bench::new("progress-returned").await;
        let (outgoing, confirmed) = (outgoing(random(100_000, 100)), watch::Sender::new(0));
        let (rabbit, access, name) = (rabbit(), access(), bench.queue.as_str());
        let produce = rabbit.produce(&access, &bench.queue, &outgoing, 0, &confirmed, soon());
        let delete = async {
            let mut progress = confirmed.subscribe();
            progress.wait_for(|messages| *messages > 0).await.unwrap();
            tokio::time::sleep(Duration::from_millis(delay)).await;
            bench.channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.unwrap();
        };
        let (result, ()) = tokio::join!(produce, delete);
        let failure = result.unwrap_err();
        assert!(
            matches!(&failure.error, BrokerError::QueueNotFound { queue, .. } if *queue == bench.queue),
            "{failure:?}"
        );
        let progress = *confirmed.borrow();
        assert!(progress > 0 && progress <= failure.committed, "{progress}, {failure:?}");
    }
}
