//! Tests of messages that a move leaves on their queue: they cannot be published again unchanged,
//! no queue accepts them, they are too large, or their destination is not permitted.

use broker::Broker as _;
use lapin::BasicProperties;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldArray, FieldTable};
use mq::{AllowedQueues, BrokerError, Destination, KeptReason};
use rabbitmq::{RabbitMq, Settings};

use super::{command, dead_lettering_to, reject_all, relocate, to, why};
use crate::raw::{self, MESSAGE_ID, short_string};
use crate::reach::everywhere;
use crate::support::{Bench, COMMIT, PLENTY, access, consume, is_at_least, rabbit, soon};

const MEBIBYTE: usize = 1024 * 1024;

#[tokio::test]
async fn what_cannot_be_put_again_as_it_is_stays() {
    let (from, into) = (Bench::new("stays-from").await, Bench::new("stays-to").await);
    raw::put(&from.queue, MESSAGE_ID, &short_string(&[0xff]), b"binary id").await;
    let mut copies = FieldTable::default();
    let others = vec![AMQPValue::LongString(from.queue.as_str().into())];
    copies.insert("CC".into(), AMQPValue::FieldArray(FieldArray::from(others)));
    raw::put(&from.queue, raw::HEADERS, &twice_the_same_header(), b"two headers of one name").await;
    // Published to the other queue, with a copy to this one.
    into.put(b"copied", BasicProperties::default().with_headers(copies)).await;
    assert_eq!(from.ready(3).await, 3);
    into.bodies().await;
    from.put(b"plain", BasicProperties::default()).await;
    let (moved, report) = relocate(&rabbit(), &from, &command(to(&into), 10)).await;
    // From 4.0 on, the broker itself keeps only one header of each name.
    let is_twice = !is_at_least(4, 0).await;
    let stayed = if is_twice { 3 } else { 2 };
    assert_eq!((moved, report.stayed, report.remaining), (4 - stayed, stayed, Some(stayed)), "{report:?}");
    let twice = is_twice.then_some(KeptReason::NotReproducible);
    assert_eq!(
        why(&report),
        [Some(KeptReason::NotReproducible), twice, Some(KeptReason::WouldBeCopied), None]
    );
    assert_eq!(report.messages[0].msg_id.as_deref(), Some(&[0xff][..]));
    let two = "two headers of one name";
    assert_eq!(into.bodies().await, if is_twice { vec!["plain"] } else { vec![two, "plain"] });
    // The independent client cannot read the messages that are left.
    let unit = rabbit().fetch(&access(), &from.queue, &consume(COMMIT, 10, 0), PLENTY, soon()).await.unwrap();
    let left: Vec<_> = unit.consumed().messages.iter().map(|message| message.body.0.clone()).collect();
    let expected = if is_twice { vec!["binary id", two, "copied"] } else { vec!["binary id", "copied"] };
    assert_eq!(left, expected.into_iter().map(|body| body.as_bytes().to_vec()).collect::<Vec<_>>());
    unit.commit(soon()).await.unwrap();
    from.clean().await;
    into.clean().await;
}

fn twice_the_same_header() -> Vec<u8> {
    let header = [&short_string(b"k")[..], b"t\x01"].concat();
    raw::long_string(&[header.clone(), header].concat())
}

#[tokio::test]
async fn what_a_queue_refuses_or_none_takes_stays() {
    let from = Bench::new("refused-from").await;
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let limits = [
        ("x-max-length", AMQPValue::LongInt(2)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    let full = Bench::with("refused-to", options, &limits).await;
    from.put_numbered(5).await;
    let rabbit = rabbit();
    let (moved, report) = relocate(&rabbit, &from, &command(to(&full), 10)).await;
    assert!(report.stayed > 0 && moved + report.stayed <= 5, "{report:?}");
    assert!(why(&report).contains(&Some(KeptReason::Refused)));
    let there = u64::from(full.count().await);
    assert_eq!((moved, u64::from(from.ready(5 - full.count().await).await)), (there, 5 - there));

    let absent = Bench::absent("absent").await;
    let refused =
        rabbit.connect_to_move(&access(), &from.queue, &command(to(&absent), 1), &everywhere(), soon()).await;
    assert!(
        matches!(refused.map(drop), Err(BrokerError::QueueNotFound { queue, .. }) if queue == absent.queue)
    );

    let dead = Bench::new("refused-dead").await;
    let gone = dead_lettering_to("gone", &dead, &[]).await;
    gone.put(b"orphan", BasicProperties::default()).await;
    reject_all(&gone).await;
    assert_eq!(dead.ready(1).await, 1);
    gone.clean().await;
    let (moved, report) = relocate(&rabbit, &dead, &command(Destination::Origin, 10)).await;
    assert_eq!((moved, why(&report)), (0, vec![Some(KeptReason::Unroutable)]));
    assert_eq!(dead.ready(1).await, 1);
    for bench in [from, full, dead] {
        bench.clean().await;
    }
}

#[tokio::test]
async fn what_a_full_queue_refuses_does_not_return_together_past_its_limit() {
    let options = || QueueDeclareOptions { durable: true, ..Default::default() };
    let limited = [
        ("x-queue-type", AMQPValue::LongString("quorum".into())),
        ("x-delivery-limit", AMQPValue::LongInt(1)),
    ];
    let full = [
        ("x-max-length", AMQPValue::LongInt(2)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    let from = Bench::with("at-its-limit", options(), &limited).await;
    let into = Bench::with("full", options(), &full).await;
    from.put_numbered(20).await;
    let rabbit = rabbit();
    let (moved, report) = relocate(&rabbit, &from, &command(to(&into), 20)).await;
    let left = u32::try_from(20 - moved).unwrap();
    assert_eq!(from.ready(left).await, left, "what returns for the first time is kept: {report:?}");
    let counts = !is_at_least(4, 3).await;
    let warns = |report: &mq::MoveReport, of: &str| report.warnings.iter().any(|text| text.contains(of));
    assert_eq!(warns(&report, "messages that return now: 1"), counts, "{report:?}");
    assert!(!counts || report.stayed == 1, "one at a time, since a policy may allow no return: {report:?}");
    let (moved, report) = relocate(&rabbit, &from, &command(to(&into), 20)).await;
    assert_eq!((moved, report.stayed > 0), (0, true), "{report:?}");
    let gone = u32::from(counts);
    assert_eq!(from.ready(left - gone).await, left - gone, "one at most is lost: {report:?}");
    assert_eq!(report.remaining, Some((left - gone).into()), "{report:?}");
    assert_eq!(
        warns(&report, "1 of the messages went back to the queue 1 times or more"),
        counts,
        "{report:?}"
    );
    from.clean().await;
    into.clean().await;
}

/// Checks that a move returns at most 32 messages to a quorum queue on one channel. A channel
/// discards further returns when it is closed, and the queue then counts these as failed
/// deliveries.
#[tokio::test]
async fn what_returns_is_never_more_than_a_channel_can_return() {
    if !is_at_least(4, 3).await {
        return;
    }
    let full = [
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    let options = || QueueDeclareOptions { durable: true, ..Default::default() };
    let dead = Bench::with(
        "many-return",
        options(),
        &[
            ("x-queue-type", AMQPValue::LongString("quorum".into())),
            ("x-delivery-limit", AMQPValue::LongInt(0)),
        ],
    )
    .await;
    let origin = dead_lettering_to("many-return-origin", &dead, &full).await;
    dead.put_numbered(31).await;
    let mut died = FieldTable::default();
    died.insert("x-first-death-queue".into(), AMQPValue::LongString(origin.queue.as_str().into()));
    for _ in 0..34 {
        dead.put(b"died", BasicProperties::default().with_headers(died.clone())).await;
    }
    assert_eq!(dead.ready(65).await, 65);
    let (moved, report) = relocate(&rabbit(), &dead, &command(Destination::Origin, 100)).await;
    assert!((1..=2).contains(&moved), "{report:?}");
    let left = u32::try_from(65 - moved).unwrap();
    assert_eq!((dead.ready(left).await, report.remaining), (left, Some(left.into())), "{report:?}");
    dead.clean().await;
    origin.clean().await;
}

/// Checks that a publisher's header `x-delivery-count` does not become a message's backout count:
/// only a quorum queue counts returns, and its own count replaces the header.
#[tokio::test]
async fn a_publisher_cannot_make_a_message_look_returned() {
    let (from, into) = (Bench::new("counted-from").await, Bench::new("counted-to").await);
    let mut headers = FieldTable::default();
    headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(50));
    from.put(b"m", BasicProperties::default().with_headers(headers)).await;
    let rabbit = rabbit();
    for times in [0, 1, 1] {
        let unit =
            rabbit.fetch(&access(), &from.queue, &consume(COMMIT, 10, 0), PLENTY, soon()).await.unwrap();
        let consumed = unit.consumed();
        assert_eq!((consumed.messages[0].delivery_count, consumed.messages[0].backout_count), (None, times));
        assert!(consumed.warnings.is_empty(), "{:?}", consumed.warnings);
        unit.rollback(soon()).await.unwrap();
        assert_eq!(from.ready(1).await, 1);
    }
    let (moved, report) = relocate(&rabbit, &from, &command(to(&into), 10)).await;
    assert_eq!((moved, report.messages[0].backout_count), (1, 1));
    from.clean().await;
    into.clean().await;
}

#[tokio::test]
async fn a_message_that_is_larger_than_a_move_may_hold_stays_and_ends_it() {
    let (from, into) = (Bench::new("large-from").await, Bench::new("large-to").await);
    from.put(b"small", BasicProperties::default()).await;
    from.put(&vec![b'x'; 2 * MEBIBYTE], BasicProperties::default()).await;
    from.put(&vec![b'x'; 6 * MEBIBYTE], BasicProperties::default()).await;
    from.put(b"behind", BasicProperties::default()).await;
    let rabbit = RabbitMq::with_settings(Settings { most_held: 8 * MEBIBYTE, ..Settings::default() });
    let (moved, report) = relocate(&rabbit, &from, &command(to(&into), 10)).await;
    assert_eq!((moved, report.truncated), (2, true));
    assert_eq!(why(&report), [None, None, Some(KeptReason::TooLarge)]);
    assert_eq!((into.ready(2).await, from.ready(2).await), (2, 2));
    from.clean().await;
    into.clean().await;
}

#[tokio::test]
async fn no_message_goes_where_its_caller_may_not() {
    let dead = Bench::new("reach-dead").await;
    let orders = dead_lettering_to("reach", &dead, &[]).await;
    orders.put(b"order", BasicProperties::default()).await;
    reject_all(&orders).await;
    assert_eq!(dead.ready(1).await, 1);
    let origin = command(Destination::Origin, 10);
    let rabbit = rabbit();
    let none = AllowedQueues::default();
    let mut moving = rabbit.connect_to_move(&access(), &dead.queue, &origin, &none, soon()).await.unwrap();
    let put = moving.put(10, soon()).await.unwrap();
    assert_eq!((put.count, put.is_last), (0, true));
    assert_eq!(why(&moving.finish(soon()).await), [Some(KeptReason::NotAllowed)]);
    assert_eq!((dead.ready(1).await, orders.count().await), (1, 0));
    dead.clean().await;
    orders.clean().await;
}
