//! Storm of commits that the queue manager does not answer, with and without another consumer. The
//! test prints how many of these doubts the client resolves by searching the queue, and checks that
//! every message is where the client's answers claim.
//!
//! `STORM_DOUBTS=n` sets the number of unanswered commits on each queue, and `STORM_SEED=n` repeats
//! a test with the seed that it printed.

#![allow(clippy::print_stdout, reason = "how many doubts are resolved is a figure of the docs")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ibm_mq::Settings;
use mq::{Ack, AckMode, BrokerError};
use serde_json::json;

use crate::support::{Client, QueueManager, bodies, consume, deadline, texts};

const USUAL: u64 = 12;
const COMMIT: AckMode = AckMode::Take(Ack::Commit);
const LARGEST_UNIT: usize = 20;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Counts and messages of one queue in the storm (a lane). At the end the test compares them with
/// the messages that are left on the queue.
#[derive(Default)]
struct Lane {
    random: fastrand::Rng,
    /// Number of unanswered commits that took effect, and number of these that the client resolved
    /// as committed.
    happened: (u64, u64),
    /// Number of unanswered commits that did not take effect, and number of these that the client
    /// resolved as backed out.
    did_not: (u64, u64),
    /// Body of each message on this queue whose put was committed.
    put: Vec<String>,
    /// Body of each message whose get by the lane's own client was committed.
    got: Vec<String>,
}

impl Lane {
    fn texts(&mut self, round: u64) -> Vec<String> {
        (0..self.random.usize(1..=LARGEST_UNIT)).map(|number| format!("{round}.{number}")).collect()
    }

    /// Cuts the connection during the next MQCMIT of `application`, at random before or after the
    /// commit takes effect. Returns true if it takes effect.
    fn doubt(&mut self, manager: &QueueManager, application: &str) -> bool {
        let happens = self.random.bool();
        let when = if happens { "after" } else { "before" };
        manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": when, "application": application}));
        happens
    }

    fn note(&mut self, happened: bool, is_certain: bool) {
        let (all, resolved) = if happened { &mut self.happened } else { &mut self.did_not };
        *all += 1;
        *resolved += u64::from(is_certain);
    }
}

fn client(manager: &QueueManager, application: &str) -> Client {
    manager.client_with(Settings { application: application.to_owned(), ..Settings::default() }, 5)
}

async fn put(client: &Client, queue: &str, texts_of: &[String], key: &str) -> Result<(), BrokerError> {
    let all: Vec<_> = texts_of.iter().map(String::as_str).collect();
    client.put(queue, &texts(&all), key).await.map(drop).map_err(|failure| failure.error)
}

/// Puts `doubts` units of work on a queue, whose commits are not answered, and checks each result.
async fn putting(manager: &QueueManager, queue: &str, lane: &mut Lane, doubts: u64) {
    let application = format!("puts.{queue}");
    let client = client(manager, &application);
    for round in 0..doubts {
        let unit = lane.texts(round);
        let happened = lane.doubt(manager, &application);
        let answer = put(&client, queue, &unit, &format!("{queue}.{round}")).await;
        match &answer {
            Ok(()) => assert!(happened, "round {round}: nothing was committed"),
            Err(error) => assert!(matches!(error, BrokerError::InDoubt { .. }), "{error}"),
        }
        lane.note(happened, answer.is_ok());
        lane.put.extend(happened.then_some(unit).into_iter().flatten());
    }
}

/// Gets messages in units of work until `doubts` commits were not answered, and checks each error.
async fn getting(manager: &QueueManager, queue: &str, lane: &mut Lane, doubts: u64) {
    let application = format!("gets.{queue}");
    let (client, feeder) = (client(manager, &application), manager.client());
    let mut round = 0;
    while lane.happened.0 + lane.did_not.0 < doubts {
        round += 1;
        let more = lane.texts(round);
        put(&feeder, queue, &more, &format!("{queue}.{round}")).await.unwrap();
        lane.put.extend(more);
        let most = i64::try_from(LARGEST_UNIT).unwrap();
        let unit = client.fetch(queue, &consume(most, COMMIT)).await.unwrap();
        let taken = bodies(unit.consumed());
        if taken.is_empty() {
            unit.rollback(deadline()).await.unwrap();
            continue;
        }
        let happened = lane.doubt(manager, &application);
        let error = unit.commit(deadline()).await.unwrap_err();
        let is_certain = match error {
            BrokerError::Unreachable { .. } => true,
            BrokerError::InDoubt { .. } => false,
            other => panic!("{other}"),
        };
        assert!(!(happened && is_certain), "round {round}: they were taken");
        lane.note(happened, is_certain);
        lane.got.extend(happened.then_some(taken).into_iter().flatten());
    }
}

/// Gets messages as a competing consumer, and commits three of four gets, until `is_over` is set.
/// Returns the bodies of the committed messages.
async fn competing(
    manager: &QueueManager,
    queue: &str,
    mut random: fastrand::Rng,
    is_over: &AtomicBool,
) -> Vec<String> {
    let (client, mut got) = (manager.client(), Vec::new());
    while !is_over.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(random.u64(0..60))).await;
        let unit = client.fetch(queue, &consume(random.i64(1..5), COMMIT)).await.unwrap();
        let taken = bodies(unit.consumed());
        if random.u8(0..4) == 0 {
            unit.rollback(deadline()).await.unwrap();
        } else {
            unit.commit(deadline()).await.unwrap();
            got.extend(taken);
        }
    }
    got
}

#[derive(Clone, Copy)]
enum Kind {
    Put,
    Got,
}

/// Runs the storm on one queue with `doubts` unanswered commits of puts or of gets (`kind`), and
/// fails if a message is lost or there twice. With `competes`, another consumer takes messages,
/// too. The stand-in's control socket counts the messages that are left.
async fn lane(manager: &QueueManager, queue: &str, kind: Kind, competes: bool, (seed, doubts): (u64, u64)) {
    let mut lane = Lane { random: fastrand::Rng::with_seed(seed), ..Lane::default() };
    let (is_over, others) = (AtomicBool::new(!competes), fastrand::Rng::with_seed(seed.wrapping_add(1)));
    let (got_by_others, ()) = tokio::join!(competing(manager, queue, others, &is_over), async {
        match kind {
            Kind::Put => putting(manager, queue, &mut lane, doubts).await,
            Kind::Got => getting(manager, queue, &mut lane, doubts).await,
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let left = manager.drain(queue);
    let mut counts = BTreeMap::<&String, i64>::new();
    lane.got.iter().chain(&got_by_others).chain(&left).for_each(|body| *counts.entry(body).or_default() += 1);
    lane.put.iter().for_each(|body| *counts.entry(body).or_default() -= 1);
    counts.retain(|_, count| *count != 0);
    assert!(counts.is_empty(), "{queue}: lost (-1) or twice (1): {counts:?}");
    let kind = match kind {
        Kind::Put => "put",
        Kind::Got => "got",
    };
    let with = if competes { "another consumer" } else { "nobody else" };
    let ((happened, found), (did_not, back)) = (lane.happened, lane.did_not);
    println!(
        "| {kind}, {with} | {found} of {happened} that happened | {back} of {did_not} that did not | {} messages |",
        lane.put.len()
    );
    // Without another consumer, each doubt is resolved that a search can resolve.
    match (kind, competes) {
        ("put", false) => assert_eq!((found, back), (happened, 0)),
        ("got", false) => assert_eq!((found, back), (0, did_not)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_look_calls_certain_is_true_and_every_message_is_somewhere_once() {
    let (seed, doubts) = (number("STORM_SEED", fastrand::u64(..)), number("STORM_DOUBTS", USUAL));
    println!("STORM_SEED={seed} STORM_DOUBTS={doubts}");
    let manager = QueueManager::start();
    let seeds = |lane: u64| (seed.wrapping_add(lane), doubts);
    tokio::join!(
        lane(&manager, "DEV.QUEUE.1", Kind::Put, false, seeds(0)),
        lane(&manager, "DEV.QUEUE.2", Kind::Put, true, seeds(10)),
        lane(&manager, "DEV.QUEUE.3", Kind::Got, false, seeds(20)),
        lane(&manager, "DEV.FIFO", Kind::Got, true, seeds(30)),
    );
}
