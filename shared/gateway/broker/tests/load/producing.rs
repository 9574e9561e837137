//! Tests of a load test's producer, which the tests of every broker's crate call.

use std::time::Duration;

use broker::Broker;
use mq::{Access, QueueName};
use tokio::time::Instant;

use super::{all_confirmed, depth, outcomes, put, put_all, puts, soon};

pub(crate) async fn the_end_of_a_producer_completes_its_last_transaction(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    // A transaction may always be filled.
    for in_flight in [1, 1_000] {
        let end = put_all(broker, access, queue, &puts(in_flight, 10), 0..25).await;
        assert_eq!(outcomes(&end.confirmations), all_confirmed(0..25));
        assert!(end.error.is_none(), "{:?}", end.error);
    }
    assert_eq!(depth(broker, access, queue, 50).await, 50);
}

pub(crate) async fn confirmations_are_noted_while_the_worker_waits(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    let options = puts(10, 1);
    let mut producer = broker.connect_load_producer(access, queue, &options, soon()).await.unwrap();
    put(&mut *producer, &options, 0..3).await.unwrap();
    let due = Instant::now() + Duration::from_secs(2);
    producer.idle_until(due).await;
    assert!(Instant::now() >= due);
    let answers = producer.confirmations();
    assert_eq!(outcomes(&answers), all_confirmed(0..3));
    let soon_after = due.into_std() - Duration::from_millis(500);
    assert!(answers.iter().all(|answer| answer.at < soon_after), "{answers:?}");
    let end = producer.finish(soon()).await;
    assert!(end.confirmations.is_empty() && end.error.is_none(), "{end:?}");
}

pub(crate) async fn no_more_messages_are_unconfirmed_than_allowed(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    let options = puts(3, 1);
    let mut producer = broker.connect_load_producer(access, queue, &options, soon()).await.unwrap();
    let mut answered = 0;
    for number in 0..100 {
        put(&mut *producer, &options, number..number + 1).await.unwrap();
        answered += producer.confirmations().len();
        let unconfirmed = usize::try_from(number).unwrap() + 1 - answered;
        assert!(unconfirmed <= 3, "{unconfirmed}");
    }
    let end = producer.finish(soon()).await;
    assert_eq!(answered + end.confirmations.len(), 100);
}
