//! Tests that need real time: functions that Lambda ends at their time-outs, networks that drop
//! everything, and leases that clients wait for. All run at once, each in a stand of its own.

use std::time::{Duration, Instant};

use crate::crash::fault::{Fault, Struck};
use crate::crash::journey::{Journey, LEASE, Load, told};
use crate::crash::stand::faults::Op;
use crate::crash::stand::network::Cut;
use crate::crash::stand::{Operation, Reply, Stand};

#[tokio::test]
async fn what_hangs_is_ended_in_time_and_the_lease_is_kept() {
    tokio::join!(
        mq_access_hangs(),
        the_front_hangs(),
        the_network_swallows(Operation::Produce, Fault::CutMidway(Cut::Silent), "502 OUTCOME_IN_DOUBT"),
        the_network_swallows(Operation::Consume, Fault::CommitCut(Cut::Silent), "502 OUTCOME_IN_DOUBT"),
        the_network_swallows(Operation::Consume, Fault::CutMidway(Cut::Silent), "504 BROKER_TIMEOUT"),
    );
}

async fn begin(operation: Operation) -> (Stand, Journey) {
    let stand = Stand::start().await;
    let journey = Journey::begin(&stand, operation, Load::Usual, &mut fastrand::Rng::with_seed(6)).await;
    (stand, journey)
}

fn seconds(reply: &Reply) -> u64 {
    reply.answer.header("retry-after").unwrap().parse().unwrap()
}

/// Checks a produce whose `mq-access` hangs, so that Lambda ends it after 24 s. The client waits as
/// long as `Retry-After` says, and by then the lease is over.
async fn mq_access_hangs() {
    let (mut stand, mut journey) = begin(Operation::Produce).await;
    let mut held = stand.faults.hold_request(Op::Complete);
    let asked = stand.ask_later(&journey.asked);
    held.reached().await;
    let _frozen = stand.mq_access.freeze();
    let reply = asked.await.unwrap();
    assert_eq!(told(&reply.answer), "504 BROKER_TIMEOUT");
    assert!((24.0..25.5).contains(&reply.took.as_secs_f64()), "{:?}", reply.took);
    let wait = seconds(&reply);
    assert!((1..=LEASE - 24).contains(&wait), "{wait}");
    stand.heal().await;
    drop(held);
    let early = stand.ask(&journey.asked).await.answer;
    early.expect_problem(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
    tokio::time::sleep(Duration::from_secs(wait)).await;
    let done = stand.ask(&journey.asked).await;
    assert_eq!(told(&done.answer), "201");
    println!("mq-access hangs: {} after {:?}, then {}", told(&reply.answer), reply.took, told(&done.answer));
    journey.replies.push(done.clone());
    journey.check(&stand, &done).await;
}

/// Checks a consume whose HTTP function hangs, so that Lambda ends it after 29 s. `mq-access` has
/// recorded its result, so a retry gets it at once.
async fn the_front_hangs() {
    let (mut stand, mut journey) = begin(Operation::Consume).await;
    let mut held = stand.faults.hold_request(Op::Complete);
    let asked = stand.ask_later(&journey.asked);
    held.reached().await;
    let _frozen = stand.consume.freeze();
    held.release();
    let reply = asked.await.unwrap();
    assert_eq!(told(&reply.answer), "503");
    assert!((29.0..30.5).contains(&reply.took.as_secs_f64()), "{:?}", reply.took);
    stand.heal().await;
    let done = stand.ask(&journey.asked).await;
    assert_eq!(done.answer.header("idempotent-replay"), Some("true"));
    println!("consume hangs: {} after {:?}, then {}", told(&reply.answer), reply.took, told(&done.answer));
    journey.replies.push(done.clone());
    journey.check(&stand, &done).await;
}

/// Checks that `mq-access` gives up by itself in a network that drops everything, in time to record
/// its outcome.
async fn the_network_swallows(operation: Operation, fault: Fault, expected: &str) {
    let (mut stand, mut journey) = begin(operation).await;
    let started = Instant::now();
    let struck = Struck { asked: &journey.asked, queue: &journey.queue, at: 1, moment: Duration::ZERO };
    let reply = fault.strike(&mut stand, struck).await;
    assert_eq!(told(&reply.answer), expected, "{operation:?}");
    assert!(reply.took < Duration::from_secs(24), "{:?}", reply.took);
    stand.heal().await;
    let status = journey.status(&stand).await;
    let done = journey.until_done(&mut stand).await;
    println!(
        "{operation:?}, {fault:?}: {expected} after {:?}, {status:?}, done after {:?}",
        reply.took,
        started.elapsed()
    );
    journey.check(&stand, &done).await;
}
