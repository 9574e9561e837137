//! Tests of quorum queues: committed messages do not return, even if they were taken one by one;
//! returned messages go to their places; and no message is dropped because a response is full. An
//! independent client reports what is on the queues.

use std::collections::BTreeSet;
use std::time::Duration;

use amqprs::channel::BasicGetArguments;
use amqprs::connection::OpenConnectionArguments;
use broker::{Broker as _, UnitOfWork};
use futures_util::StreamExt as _;
use futures_util::stream;
use lapin::BasicProperties;
use lapin::options::QueueDeclareOptions;
use lapin::types::AMQPValue;
use mq::{AckMode, BrokerError, Destination, KeptReason, MaxMoves, MoveCommand, QueueName};
use rabbitmq::{RabbitMq, Settings};

use crate::reach::everywhere;
use crate::support::{Bench, COMMIT, PLENTY, ROLLBACK, access, consume, is_at_least, rabbit, soon, uri};
use crate::taking::fill;

/// Maximum response size in bytes, into which one large message fits together with all small ones.
const ROOM: usize = 250_000;
const LARGE: usize = 60_000;

async fn queue(name: &str, kind: &str, more: &[(&str, AMQPValue)]) -> Bench {
    let mut arguments = vec![("x-queue-type", AMQPValue::LongString(kind.into()))];
    arguments.extend_from_slice(more);
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    Bench::with(&format!("{name}-{kind}"), options, &arguments).await
}

fn named(number: usize, size: usize) -> Vec<u8> {
    let mut body = format!("m{number} ").into_bytes();
    body.resize(size.max(body.len()), b'x');
    body
}

fn name(body: &[u8]) -> String {
    String::from_utf8_lossy(body).split(' ').next().unwrap().to_owned()
}

fn names(messages: &[mq::ReceivedMessage]) -> Vec<String> {
    messages.iter().map(|message| name(&message.body.0)).collect()
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("m{number}")).collect()
}

/// Returns the number of repetitions of a test that meets its fault only at some moments: `by_day`,
/// or `most` with `QUORUM_RUNS=all`, as in nightly runs.
fn times(by_day: usize, most: usize) -> usize {
    if std::env::var("QUORUM_RUNS").is_ok_and(|runs| runs == "all") { most } else { by_day }
}

/// Takes all messages from a queue by an independent client library, and returns their names, such
/// as `m0`.
async fn found(queue: &QueueName) -> Vec<String> {
    let uri = uri();
    let (authority, vhost) = (uri.authority, uri.vhost);
    let mut arguments = OpenConnectionArguments::new(
        &authority.host,
        authority.port,
        &authority.userinfo.username,
        &authority.userinfo.password,
    );
    arguments.virtual_host(&vhost);
    let connection = amqprs::connection::Connection::open(&arguments).await.unwrap();
    let channel = connection.open_channel(None).await.unwrap();
    let mut found = Vec::new();
    let get = || BasicGetArguments { queue: queue.to_string(), no_ack: true };
    while let Some((_, _, body)) = channel.basic_get(get()).await.unwrap() {
        found.push(name(&body));
    }
    connection.close().await.unwrap();
    found
}

/// Takes and commits `count` messages of a queue of the type `kind`, those of the first unit of
/// work one by one. Checks that none is lost or duplicated when a channel or the connection ends.
/// Returns the number of units of work.
async fn all_one_by_one(kind: &str, count: usize) -> usize {
    let bench = queue(&format!("one-by-one-{count}"), kind, &[]).await;
    // After a large message, the estimate leaves no room for a bulk fetch.
    fill(&bench, (0..count).map(|number| named(number, if number == 0 { LARGE } else { 0 }))).await;
    let rabbit = rabbit();
    let (mut seen, mut units) = (Vec::new(), 0);
    while seen.len() < count {
        let command = consume(COMMIT, 10_000, 0);
        let unit = rabbit.fetch(&access(), &bench.queue, &command, ROOM, soon()).await.unwrap();
        seen.extend(names(&unit.consumed().messages));
        assert_eq!(unit.consumed().truncated, seen.len() < count, "{kind} {count}");
        unit.commit(soon()).await.unwrap();
        units += 1;
        let left = u32::try_from(count - seen.len()).unwrap();
        assert_eq!(bench.ready(left).await, left, "{kind} {count}");
    }
    assert_eq!(seen, numbered(count), "{kind} {count}");
    drop(rabbit);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(found(&bench.queue).await, Vec::<String>::new(), "{kind} {count}");
    bench.clean().await;
    units
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_got_one_by_one_and_committed_never_comes_again() {
    // A quorum queue's channel sends 32 settlements at once and may discard the others.
    let cases = [1, 5, 31, 32, 33, 34, 40, 100];
    let runs = ["quorum", "classic"].into_iter().flat_map(|kind| cases.map(|count| (kind, count)));
    let times = times(3, 8);
    let runs = runs.flat_map(move |run| std::iter::repeat_n(run, times));
    let mut runs = stream::iter(runs)
        .map(async |(kind, count)| (kind, count, all_one_by_one(kind, count).await))
        .buffer_unordered(6);
    let mut finished = 0;
    while let Some((kind, count, units)) = runs.next().await {
        let expected = if kind == "quorum" && count > 32 { 2 } else { 1 };
        assert_eq!(units, expected, "{kind} {count}");
        finished += 1;
    }
    assert_eq!(finished, 2 * cases.len() * times);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_consumer_brought_and_was_committed_never_comes_again() {
    for kind in ["quorum", "classic"] {
        for count in [20, 33, 300, 3_000] {
            for _ in 0..times(2, 5) {
                let bench = queue(&format!("bulk-{count}"), kind, &[]).await;
                fill(&bench, (0..count).map(|number| named(number, 0))).await;
                let rabbit = rabbit();
                let mut seen = Vec::new();
                while seen.len() < count {
                    let command = consume(COMMIT, 10_000, 0);
                    let unit = rabbit.fetch(&access(), &bench.queue, &command, PLENTY, soon()).await.unwrap();
                    seen.extend(names(&unit.consumed().messages));
                    // A slow queue ends a consumer early; then more consumers may be needed than
                    // one unit allows.
                    assert_eq!(unit.consumed().truncated, seen.len() < count, "{kind} {count}");
                    unit.commit(soon()).await.unwrap();
                }
                assert_eq!(seen, numbered(count), "{kind}");
                drop(rabbit);
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert_eq!(found(&bench.queue).await, Vec::<String>::new(), "{kind} {count}");
                bench.clean().await;
            }
        }
    }
}

#[tokio::test]
async fn none_is_dropped_by_a_delivery_limit_for_lack_of_room() {
    let bench = queue("limit", "quorum", &[("x-delivery-limit", AMQPValue::LongInt(3))]).await;
    // Small messages in between, so that more are estimated to fit than do.
    let size = |number: usize| if number % 120 < 40 { 10 } else { 1_000 + number };
    fill(&bench, (0..360).map(|number| named(number, size(number)))).await;
    let rabbit = rabbit();
    let (mut seen, mut went_back) = (Vec::new(), 0);
    while seen.len() < 360 {
        let command = consume(COMMIT, 10_000, 0);
        let unit = rabbit.fetch(&access(), &bench.queue, &command, 40_000, soon()).await.unwrap();
        let messages = &unit.consumed().messages;
        assert!(!messages.is_empty(), "only {} are left to be seen", seen.len());
        seen.extend(names(messages));
        went_back += messages.iter().filter(|message| message.backout_count > 0).count();
        unit.commit(soon()).await.unwrap();
        let left = u32::try_from(360 - seen.len()).unwrap();
        assert_eq!(bench.ready(left).await, left);
    }
    // No message came twice. Messages that return twice queue up behind those that returned once.
    seen.sort_by_key(|name| name[1..].parse::<usize>().unwrap());
    assert_eq!(seen, numbered(360));
    assert!(went_back > 0, "there was room for everything");
    bench.clean().await;
}

#[tokio::test]
async fn a_message_that_no_answer_can_carry_stays_in_its_place_and_is_counted() {
    let dead = Bench::new("dead").await;
    let to = AMQPValue::LongString(dead.queue.as_str().into());
    let limited = [
        ("x-delivery-limit", AMQPValue::LongInt(2)),
        ("x-dead-letter-exchange", AMQPValue::LongString("".into())),
        ("x-dead-letter-routing-key", to),
    ];
    let bench = queue("too-large", "quorum", &limited).await;
    bench.put(&named(0, LARGE), BasicProperties::default()).await;
    bench.put(&named(1, 0), BasicProperties::default()).await;
    let rabbit = rabbit();
    for attempt in 1..=3 {
        let fetched = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 5, 0), 2_000, soon()).await;
        let Err(BrokerError::MessageTooLarge { detail, .. }) = fetched.map(drop) else { panic!("it fits") };
        if is_at_least(4, 3).await {
            assert!(!detail.contains("went back"), "{detail}");
            assert_eq!(bench.ready(2).await, 2);
            continue;
        }
        // From 4.0 on, a message that was never returned has no count header.
        let is_told = detail.contains(&format!("went back {attempt} times"));
        assert!(is_told || (attempt == 1 && is_at_least(4, 0).await), "{detail}");
        let left = if attempt > 2 { 1 } else { 2 };
        assert_eq!(bench.ready(left).await, left);
    }
    if is_at_least(4, 3).await {
        assert_eq!(dead.ready(0).await, 0);
        assert_eq!(found(&bench.queue).await, ["m0", "m1"]);
    } else {
        // The queue's owner decides what happens to messages that no consumer can take.
        assert_eq!(dead.ready(1).await, 1);
        assert_eq!(found(&bench.queue).await, ["m1"]);
    }
    dead.clean().await;
    bench.clean().await;
}

#[tokio::test]
async fn a_message_at_the_default_limit_is_reported_before_it_is_dropped() {
    let bench = queue("default-limit", "quorum", &[]).await;
    bench.put(&named(0, 0), BasicProperties::default()).await;
    let rabbit = rabbit();
    let fetch = async || {
        assert_eq!(bench.ready(1).await, 1);
        rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 5, 0), PLENTY, soon()).await.unwrap()
    };
    let warns = |unit: &dyn UnitOfWork| {
        unit.consumed()
            .warnings
            .iter()
            .any(|warning| warning.contains("20 times or more: unless its owner set another"))
    };
    for _ in 0..20 {
        let unit = fetch().await;
        assert!(!warns(&*unit));
        // As if the function had ended, which every version counts.
        drop(unit);
    }
    let unit = fetch().await;
    assert_eq!(unit.consumed().messages[0].backout_count, 20);
    assert_eq!(warns(&*unit), is_at_least(4, 0).await, "{:?}", unit.consumed().warnings);
    unit.commit(soon()).await.unwrap();
    bench.clean().await;
}

#[tokio::test]
async fn what_is_looked_at_on_a_quorum_queue_stays_whatever_its_limit_is() {
    if !is_at_least(4, 3).await {
        return;
    }
    let bench = queue("looked-at", "quorum", &[("x-delivery-limit", AMQPValue::LongInt(1))]).await;
    fill(&bench, (0..40).map(|number| named(number, 0))).await;
    let rabbit = rabbit();
    for time in 0..10 {
        let mode = if time % 2 == 0 { AckMode::Browse } else { ROLLBACK };
        let command = consume(mode, 30, 0);
        let unit = rabbit.fetch(&access(), &bench.queue, &command, PLENTY, soon()).await.unwrap();
        assert_eq!(names(&unit.consumed().messages), numbered(30));
        assert!(unit.consumed().messages.iter().all(|message| message.backout_count == time));
        unit.rollback(soon()).await.unwrap();
        assert_eq!(bench.ready(40).await, 40);
    }
    // Messages that a commit leaves for lack of room.
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 30, 0), 2_000, soon()).await.unwrap();
    let taken = unit.consumed().messages.len();
    assert!(unit.consumed().truncated && taken > 0);
    unit.commit(soon()).await.unwrap();
    assert_eq!(bench.ready(u32::try_from(40 - taken).unwrap()).await, u32::try_from(40 - taken).unwrap());
    // Returned messages are behind those that had returned before, and before those that had not.
    let left = found(&bench.queue).await;
    assert_eq!(left.iter().collect::<BTreeSet<_>>(), numbered(40)[taken..].iter().collect());
    assert_eq!(left[30 - taken..], numbered(40)[30..]);
    bench.clean().await;
}

/// Checks that browses, rollbacks and previews lose no message if messages exceed the memory limit.
/// The queue has a delivery limit of 1, so a second failed delivery of a message would drop it.
#[tokio::test]
async fn what_exceeds_the_memory_bound_costs_no_message() {
    if !is_at_least(4, 3).await {
        return;
    }
    let (bench, into) = (
        queue("over-the-bound", "quorum", &[("x-delivery-limit", AMQPValue::LongInt(1))]).await,
        Bench::new("over-the-bound-to").await,
    );
    let large = 3 * 1024 * 1024;
    // The first messages are small, so a consumer asks for more than the limit allows.
    fill(&bench, (0..60).map(|number| named(number, if number % 20 == 19 { large } else { 0 }))).await;
    let rabbit = RabbitMq::with_settings(Settings { most_held: 4 * 1024 * 1024, ..Settings::default() });
    let to = MoveCommand {
        to: Destination::Queue(into.queue.clone()),
        max: MaxMoves::try_from(1_000).unwrap(),
        msg_ids: None,
    };
    for time in 0..4 {
        for mode in [AckMode::Browse, ROLLBACK] {
            let command = consume(mode, 1_000, 0);
            let unit = rabbit.fetch(&access(), &bench.queue, &command, PLENTY, soon()).await.unwrap();
            assert!(unit.consumed().truncated, "{time} {mode:?}");
            unit.rollback(soon()).await.unwrap();
            assert_eq!(bench.ready(60).await, 60, "{time} {mode:?}");
        }
        let report = rabbit.preview_move(&access(), &bench.queue, &to, &everywhere(), soon()).await.unwrap();
        assert!(
            report.messages.iter().any(|message| message.stays == Some(KeptReason::TooLarge)),
            "{report:?}"
        );
        assert_eq!(bench.ready(60).await, 60, "{time} preview");
    }
    assert_eq!(found(&bench.queue).await.into_iter().collect::<BTreeSet<_>>().len(), 60);
    // A fetch that waits for a message, and a move that ends at one.
    for _ in 0..4 {
        let (access, command) = (access(), consume(ROLLBACK, 10, 5));
        let fetch = rabbit.fetch(&access, &bench.queue, &command, PLENTY, soon());
        let put = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            if bench.count().await == 0 {
                bench.put(&named(0, large), BasicProperties::default()).await;
            }
        };
        let (refused, ()) = tokio::join!(fetch, put);
        assert!(matches!(refused.map(drop), Err(BrokerError::MessageTooLarge { .. })));
        assert_eq!(bench.ready(1).await, 1);
        let mut moving =
            rabbit.connect_to_move(&access, &bench.queue, &to, &everywhere(), soon()).await.unwrap();
        assert_eq!(moving.put(10, soon()).await.unwrap().count, 0);
        assert_eq!(moving.finish(soon()).await.remaining, Some(1));
        assert_eq!(bench.ready(1).await, 1);
    }
    bench.clean().await;
    into.clean().await;
}

#[tokio::test]
async fn what_a_dropped_unit_of_work_held_returns_to_its_place() {
    let bench = queue("dropped", "quorum", &[]).await;
    fill(&bench, (0..300).map(|number| named(number, 0))).await;
    let rabbit = rabbit();
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 200, 0), PLENTY, soon()).await.unwrap();
    assert_eq!(unit.consumed().messages.len(), 200);
    drop(unit);
    assert_eq!(bench.ready(300).await, 300);
    let left = found(&bench.queue).await;
    assert_eq!(left.iter().collect::<BTreeSet<_>>().len(), 300);
    // The queue does not keep the order between consumers, and there were several.
    assert!(left[..200].iter().all(|name| numbered(200).contains(name)));
    assert_eq!(left[200..], numbered(300)[200..]);
    bench.clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_beside_other_consumers_end_and_each_message_is_given_to_one() {
    // Other clients come and go at the same moment, and one stays.
    let bench = queue("beside-others", "quorum", &[]).await;
    fill(&bench, (0..600).map(|number| named(number, 0))).await;
    let seen = stream::iter(0..6)
        .map(async |_| {
            let (rabbit, mut seen) = (rabbit(), Vec::new());
            loop {
                let command = consume(COMMIT, 7, 0);
                let unit = rabbit.fetch(&access(), &bench.queue, &command, PLENTY, soon()).await.unwrap();
                if unit.consumed().messages.is_empty() {
                    return seen;
                }
                seen.extend(names(&unit.consumed().messages));
                unit.commit(soon()).await.unwrap();
            }
        })
        .buffer_unordered(6)
        .concat()
        .await;
    let once: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!((seen.len(), once), (600, numbered(600).into_iter().collect()));
    assert_eq!(found(&bench.queue).await, Vec::<String>::new());
    bench.clean().await;
}
