use std::collections::HashSet;
use std::time::{Duration, Instant};

use attempt::{Retry, Retryable as _};
use krafka::error::ErrorCode;
use krafka::testing::{ApiKey, Control, FakeBroker};
use test_support::kafka::Broker;
use test_support::ports;

use crate::support::{TIMEOUT, TOPIC, producer, read, records};

const PARTITIONS: i32 = 4;

fn broker() -> Broker {
    let broker = Broker::start();
    broker.create_topic(TOPIC, 4);
    broker
}

/// Returns the numbers of the records in the topic, once the topic has at least `count` records.
async fn numbers(broker: &Broker, count: usize) -> HashSet<u32> {
    let records = read(broker.bootstrap_servers(), PARTITIONS, count).await;
    records.into_iter().map(|(_, _, number)| number).collect()
}

/// Time limit of a test that connects and sends one batch: the producer's time limit for each of
/// the two, and 5 s for a busy machine.
const AT_MOST: Duration = Duration::from_secs(2 * TIMEOUT.as_secs() + 5);

#[tokio::test]
async fn a_record_whose_acknowledgement_was_lost_is_written_once() {
    let broker = FakeBroker::start_cluster(3).await.unwrap();
    broker.create_topic(TOPIC, PARTITIONS);
    let producer = producer(&broker.bootstrap_servers()).await;
    producer.send(records(0..20)).await.unwrap();
    broker.on_times(ApiKey::Produce, 3, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
    producer.send(records(20..60)).await.unwrap();
    assert_eq!(broker.all_records(TOPIC).unwrap().len(), 60);
    assert_eq!(broker.request_count(ApiKey::InitProducerId), 1, "it was the same client");
}

#[tokio::test]
async fn refusals_that_pass_are_overcome() {
    use ErrorCode::{NotEnoughReplicas, NotLeaderForPartition, RequestTimedOut};
    let broker = broker();
    let producer = producer(broker.bootstrap_servers()).await;
    broker.refuse_produces(&[NotEnoughReplicas, NotLeaderForPartition, RequestTimedOut].map(i16::from));
    producer.send(records(0..30)).await.unwrap();
    assert_eq!(numbers(&broker, 30).await, (0..30).collect());
}

#[tokio::test]
async fn connections_that_were_cut_are_made_again() {
    let broker = broker();
    let producer = producer(broker.bootstrap_servers()).await;
    producer.send(records(0..40)).await.unwrap();
    for number in 1..=3 {
        broker.take_down(number);
        broker.bring_up(number);
    }
    producer.send(records(40..80)).await.unwrap();
    assert_eq!(read(broker.bootstrap_servers(), PARTITIONS, 80).await.len(), 80);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_stands_still_for_a_while_delays_records() {
    let broker = broker();
    let producer = producer(broker.bootstrap_servers()).await;
    producer.send(records(0..10)).await.unwrap();
    broker.pause();
    let began = Instant::now();
    let (sent, ()) = tokio::join!(producer.send(records(10..50)), async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        broker.resume();
    });
    sent.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(1_400));
    assert_eq!(read(broker.bootstrap_servers(), PARTITIONS, 50).await.len(), 50);
}

#[tokio::test]
async fn a_cluster_that_stays_silent_is_given_up_in_time_and_used_again_afterwards() {
    let broker = broker();
    let producer = producer(broker.bootstrap_servers()).await;
    producer.send(records(0..10)).await.unwrap();
    broker.pause();
    let began = Instant::now();
    let error = producer.send(records(10..20)).await.unwrap_err();
    assert!(began.elapsed() < AT_MOST, "{:?}", began.elapsed());
    assert_eq!(error.retry(), Retry::Later, "{error:?}");
    assert!(error.to_string().contains(TOPIC), "{error}");
    broker.resume();
    // The same records again. Those that the first call wrote exist twice.
    producer.send(records(10..20)).await.unwrap();
    assert_eq!(numbers(&broker, 20).await, (0..20).collect());
}

#[tokio::test]
async fn a_cluster_that_is_away_at_the_start_is_named_and_tried_again_later() {
    let [port] = ports::free().unwrap();
    let servers = format!("127.0.0.1:{port}");
    let producer = producer(&servers).await;
    let began = Instant::now();
    let error = producer.send(records(0..1)).await.unwrap_err();
    assert!(began.elapsed() < AT_MOST, "{:?}", began.elapsed());
    assert_eq!(error.retry(), Retry::Later, "{error:?}");
    assert!(error.to_string().contains(&servers), "{error}");
}

#[tokio::test]
async fn a_topic_that_does_not_exist_is_named_and_needs_repair() {
    let broker = FakeBroker::start().await.unwrap();
    let servers = broker.bootstrap_servers();
    let producer = producer(&servers).await;
    let error = producer.send(records(0..1)).await.unwrap_err();
    assert_eq!(error.retry(), Retry::AfterRepair, "{error:?}");
    let said = error.to_string();
    assert!(said.contains(TOPIC) && said.contains(&servers), "{said}");
    // The topic is created later.
    broker.create_topic(TOPIC, 1);
    producer.send(records(0..1)).await.unwrap();
}

#[tokio::test]
async fn refusals_that_do_not_pass_need_repair() {
    for refusal in [ErrorCode::TopicAuthorizationFailed, ErrorCode::InvalidRecord, ErrorCode::MessageTooLarge]
    {
        let broker = FakeBroker::start().await.unwrap();
        broker.create_topic(TOPIC, 1);
        broker.on(ApiKey::Produce, move |_| Control::Error(refusal));
        let error = producer(&broker.bootstrap_servers()).await.send(records(0..1)).await.unwrap_err();
        assert_eq!(error.retry(), Retry::AfterRepair, "{refusal:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_a_usable_producer() {
    let broker = broker();
    let producer = producer(broker.bootstrap_servers()).await;
    producer.send(records(0..10)).await.unwrap();
    broker.pause();
    let dropped = tokio::time::timeout(Duration::from_millis(300), producer.send(records(10..20))).await;
    broker.resume();
    assert!(dropped.is_err(), "the cluster stood still");
    producer.send(records(10..20)).await.unwrap();
    assert_eq!(numbers(&broker, 20).await, (0..20).collect());
}
