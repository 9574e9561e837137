//! Tests of a load test's consumer, which the tests of every broker's crate call.

use std::time::Duration;

use broker::load::{Foreign, GetError};
use broker::{Broker, Deadline};
use mq::{Access, BrokerError, QueueName};

use super::{all_confirmed, depth, gets, numbers, of_the_test, outcomes, put_all, puts, puts_of, soon, take};

pub(crate) async fn every_message_is_confirmed_and_comes_once_and_in_order(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    let end = put_all(broker, access, queue, &puts(100, 1), 0..300).await;
    assert_eq!(outcomes(&end.confirmations), all_confirmed(0..300));
    assert!(end.confirmations.iter().all(|answer| answer.sent_at <= answer.at));
    assert!(end.error.is_none(), "{:?}", end.error);
    let options = gets(50, 20, Foreign::Leave);
    let mut consumer = broker.connect_load_consumer(access, queue, &options, soon()).await.unwrap();
    let taken = take(&mut *consumer, 300).await;
    assert!(consumer.next(Deadline::after(Duration::from_millis(50))).await.unwrap().is_none());
    let end = consumer.finish(soon()).await;
    assert!(end.rest.is_empty() && end.unsettled.is_empty() && end.error.is_none(), "{end:?}");
    assert_eq!(numbers(&taken), of_the_test(0..300));
    for arrival in &taken {
        let stamp = arrival.stamp.unwrap();
        assert_eq!(stamp.sent_at_us, 1_000 + stamp.sequence);
        assert_eq!((arrival.redelivered, arrival.bytes), (false, stamp.sequence.to_string().len()));
    }
    assert!(taken.is_sorted_by_key(|arrival| arrival.at));
    assert_eq!(depth(broker, access, queue, 0).await, 0);
}

pub(crate) async fn a_message_of_another_test_ends_the_consumer_and_stays(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    put_all(broker, access, queue, &puts(10, 1), 0..3).await;
    put_all(broker, access, queue, &puts_of("test-2", 10, 1), 0..1).await;
    put_all(broker, access, queue, &puts(10, 1), 3..4).await;
    let options = gets(10, 1, Foreign::Leave);
    let mut consumer = broker.connect_load_consumer(access, queue, &options, soon()).await.unwrap();
    assert_eq!(numbers(&take(&mut *consumer, 3).await), of_the_test(0..3));
    for _ in 0..2 {
        let error = consumer.next(soon()).await.unwrap_err();
        assert!(matches!(&error, GetError::Foreign(at) if at == queue), "{error:?}");
    }
    let end = consumer.finish(soon()).await;
    assert!(end.rest.is_empty() && end.unsettled.is_empty(), "{end:?}");
    assert!(matches!(end.error, Some(GetError::Foreign(_))), "{end:?}");
    assert_eq!(depth(broker, access, queue, 2).await, 2);
}

pub(crate) async fn a_message_of_another_test_is_taken_if_that_is_wanted(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    put_all(broker, access, queue, &puts(10, 1), 0..2).await;
    put_all(broker, access, queue, &puts_of("test-2", 10, 1), 0..1).await;
    put_all(broker, access, queue, &puts(10, 1), 2..3).await;
    let options = gets(10, 2, Foreign::Take);
    let mut consumer = broker.connect_load_consumer(access, queue, &options, soon()).await.unwrap();
    let taken = take(&mut *consumer, 4).await;
    assert_eq!(numbers(&taken), [Some(0), Some(1), None, Some(2)]);
    let end = consumer.finish(soon()).await;
    assert!(end.unsettled.is_empty() && end.error.is_none(), "{end:?}");
    assert_eq!(depth(broker, access, queue, 0).await, 0);
}

pub(crate) async fn nothing_is_taken_before_it_is_asked_for_and_nothing_is_lost_at_the_end(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    put_all(broker, access, queue, &puts(100, 1), 0..40).await;
    let options = gets(50, 50, Foreign::Leave);
    let consumer = broker.connect_load_consumer(access, queue, &options, soon()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(depth(broker, access, queue, 40).await, 40);
    let end = consumer.finish(soon()).await;
    assert!(end.rest.is_empty() && end.error.is_none(), "{end:?}");
    let mut consumer = broker.connect_load_consumer(access, queue, &options, soon()).await.unwrap();
    let mut taken = take(&mut *consumer, 1).await;
    let end = consumer.finish(soon()).await;
    assert!(end.unsettled.is_empty() && end.error.is_none(), "{end:?}");
    taken.extend(end.rest);
    let count = u64::try_from(taken.len()).unwrap();
    assert_eq!(numbers(&taken), of_the_test(0..count));
    assert_eq!(depth(broker, access, queue, 40 - count).await, 40 - count);
}

pub(crate) async fn a_consumer_that_is_dropped_puts_back_what_it_has_in_hand(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    put_all(broker, access, queue, &puts(10, 1), 0..5).await;
    let options = gets(10, 10, Foreign::Leave);
    let mut consumer = broker.connect_load_consumer(access, queue, &options, soon()).await.unwrap();
    take(&mut *consumer, 3).await;
    drop(consumer);
    let mut consumer = broker.connect_load_consumer(access, queue, &options, soon()).await.unwrap();
    let mut again = take(&mut *consumer, 5).await;
    consumer.finish(soon()).await;
    // The broker may notice the end of the connection after it has handed out the others.
    again.sort_by_key(|arrival| arrival.stamp.map(|stamp| stamp.sequence));
    assert_eq!(numbers(&again), of_the_test(0..5));
    assert!(again.iter().take(3).all(|arrival| arrival.redelivered), "{again:?}");
    assert_eq!(depth(broker, access, queue, 0).await, 0);
}

pub(crate) async fn a_wait_may_be_cancelled_at_any_time(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    put_all(broker, access, queue, &puts(100, 1), 0..200).await;
    let options = gets(7, 3, Foreign::Leave);
    let mut consumer = broker.connect_load_consumer(access, queue, &options, soon()).await.unwrap();
    let (mut taken, mut cancelled, until) = (Vec::new(), 0, soon());
    while taken.len() < 200 {
        assert!(!until.has_passed(), "{} messages", taken.len());
        tokio::select! {
            biased;
            arrival = consumer.next(soon()) => taken.extend(arrival.unwrap()),
            () = tokio::task::yield_now() => cancelled += 1,
        }
    }
    assert_eq!(numbers(&taken), of_the_test(0..200));
    assert!(cancelled > 0 && taken.iter().all(|arrival| !arrival.redelivered));
    let end = consumer.finish(soon()).await;
    assert!(end.rest.is_empty() && end.error.is_none(), "{end:?}");
    assert_eq!(depth(broker, access, queue, 0).await, 0);
}

pub(crate) async fn a_consumer_of_no_queue_is_refused(
    broker: &dyn Broker,
    access: &Access,
    queue: &QueueName,
) {
    let absent = QueueName::try_from(format!("{queue}.ABSENT")).unwrap();
    let options = gets(1, 1, Foreign::Leave);
    let refused = broker.connect_load_consumer(access, &absent, &options, soon()).await;
    let error = refused.map(drop).unwrap_err();
    assert!(matches!(&error, BrokerError::QueueNotFound { queue, .. } if *queue == absent), "{error:?}");
}
