//! Tests of a load test's producer and consumer on RabbitMQ.

use broker::Broker as _;
use broker::load::{Foreign, GetError, Outcome};
use lapin::BasicProperties;
use lapin::options::QueueDeclareOptions;
use lapin::types::AMQPValue;
use mq::BrokerError;
use rabbitmq::{RabbitMq, Settings};

use crate::load_steps::{self, gets, outcomes, put, put_all, puts, take};
use crate::proxy::Proxy;
use crate::support::{Bench, access, rabbit, soon};

/// Declares a RabbitMQ test for each named function of `load_steps`, which all brokers share.
macro_rules! in_common {
    ($module:ident: $($step:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $step() {
            let bench = Bench::new("load").await;
            load_steps::$module::$step(&rabbit(), &access(), &bench.queue).await;
            bench.clean().await;
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

#[tokio::test]
async fn a_queue_that_rejects_refuses_messages_and_the_producer_goes_on() {
    let arguments = [
        ("x-max-length", AMQPValue::LongInt(3)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let bench = Bench::with("load-full", options, &arguments).await;
    let end = put_all(&rabbit(), &access(), &bench.queue, &puts(1, 1), 0..10).await;
    let expected = |number: u64| if number < 3 { Outcome::Confirmed } else { Outcome::Refused };
    assert_eq!(outcomes(&end.confirmations), (0..10).map(|n| (n, expected(n))).collect::<Vec<_>>());
    assert!(matches!(end.error, Some(BrokerError::QueueFull { .. })), "{:?}", end.error);
    assert_eq!(bench.ready(3).await, 3);
    bench.clean().await;
}

#[tokio::test]
async fn messages_for_no_queue_are_returned_and_the_connection_is_kept() {
    let (bench, rabbit) = (Bench::absent("load-absent").await, rabbit());
    let end = put_all(&rabbit, &access(), &bench.queue, &puts(100, 1), 0..50).await;
    assert!(!end.confirmations.is_empty());
    assert!(end.confirmations.iter().all(|answer| answer.outcome == Outcome::Returned), "{end:?}");
    assert!(matches!(&end.error, Some(BrokerError::QueueNotFound { queue, .. }) if *queue == bench.queue));
    let connections: Vec<_> = rabbit.pools().iter().map(|pool| (pool.open, pool.in_use)).collect();
    assert_eq!(connections, [(1, 0)]);
}

#[tokio::test]
async fn messages_without_an_answer_are_in_doubt() {
    let (bench, proxy) = (Bench::new("load-cut").await, Proxy::start().await);
    let (rabbit, options) = (rabbit(), puts(100, 1));
    let mut producer =
        rabbit.connect_load_producer(&proxy.access(), &bench.queue, &options, soon()).await.unwrap();
    put(&mut *producer, &options, 0..1).await.unwrap();
    producer.idle_until(tokio::time::Instant::now() + std::time::Duration::from_secs(1)).await;
    assert_eq!(outcomes(&producer.confirmations()), [(0, Outcome::Confirmed)]);
    proxy.freeze();
    put(&mut *producer, &options, 1..4).await.unwrap();
    let end = producer.finish(broker::Deadline::after(std::time::Duration::from_secs(1))).await;
    assert_eq!(outcomes(&end.confirmations), [1_u64, 2, 3].map(|number| (number, Outcome::InDoubt)));
    assert!(matches!(end.error, Some(BrokerError::InDoubt { .. })), "{:?}", end.error);
    bench.clean().await;
}

#[tokio::test]
async fn messages_in_hand_when_the_connection_breaks_are_unsettled() {
    let (bench, proxy, rabbit) = (Bench::new("load-broken").await, Proxy::start().await, rabbit());
    put_all(&rabbit, &access(), &bench.queue, &puts(10, 1), 0..5).await;
    let options = gets(10, 10, Foreign::Leave);
    let mut consumer =
        rabbit.connect_load_consumer(&proxy.access(), &bench.queue, &options, soon()).await.unwrap();
    take(&mut *consumer, 5).await;
    proxy.cut().await;
    let error = consumer.next(soon()).await.unwrap_err();
    assert!(matches!(error, GetError::Broker(BrokerError::Unreachable { .. })), "{error:?}");
    let end = consumer.finish(soon()).await;
    assert_eq!(end.unsettled, [0, 1, 2, 3, 4]);
    assert!(matches!(end.error, Some(GetError::Broker(BrokerError::InDoubt { .. }))), "{:?}", end.error);
    assert_eq!(bench.ready(5).await, 5);
    bench.clean().await;
}

#[tokio::test]
async fn a_consumer_holds_a_limited_number_of_bytes_and_takes_any_number_in_all() {
    let settings = Settings { most_held: 8 * 1024 * 1024, ..Settings::default() };
    let (bench, rabbit) = (Bench::new("load-large").await, RabbitMq::with_settings(settings));
    let large = |size: usize| vec![b'x'; size];
    for _ in 0..20 {
        bench.put(&large(1024 * 1024), BasicProperties::default()).await;
    }
    bench.put(&large(12 * 1024 * 1024), BasicProperties::default()).await;
    let options = gets(2, 1, Foreign::Take);
    let access = access();
    let mut consumer = rabbit.connect_load_consumer(&access, &bench.queue, &options, soon()).await.unwrap();
    assert!(take(&mut *consumer, 20).await.iter().all(|arrival| arrival.bytes == 1024 * 1024));
    let error = consumer.next(soon()).await.unwrap_err();
    assert!(matches!(error, GetError::Broker(BrokerError::MessageTooLarge { .. })), "{error:?}");
    let end = consumer.finish(soon()).await;
    assert!(end.unsettled.is_empty() && end.error.is_some(), "{end:?}");
    assert_eq!(bench.ready(1).await, 1);
    bench.clean().await;
}

#[tokio::test]
async fn a_queue_that_goes_away_ends_its_consumer() {
    let (bench, rabbit, access) = (Bench::new("load-deleted").await, rabbit(), access());
    let options = gets(10, 1, Foreign::Leave);
    let mut consumer = rabbit.connect_load_consumer(&access, &bench.queue, &options, soon()).await.unwrap();
    put_all(&rabbit, &access, &bench.queue, &puts(10, 1), 0..1).await;
    take(&mut *consumer, 1).await;
    let name = bench.queue.as_str().into();
    bench.channel.queue_delete(name, lapin::options::QueueDeleteOptions::default()).await.unwrap();
    let error = consumer.next(soon()).await.unwrap_err();
    assert!(matches!(error, GetError::Broker(BrokerError::Rejected { .. })), "{error:?}");
    let end = consumer.finish(soon()).await;
    assert!(matches!(end.error, Some(GetError::Broker(_))), "{end:?}");
    assert!(rabbit.pools().iter().all(|pool| pool.in_use == 0));
}
