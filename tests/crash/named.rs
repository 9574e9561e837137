//! Tests of each fault by itself: the response that the client gets at once, the messages on the
//! queue then, and the end after retries.

use std::time::{Duration, Instant};

use crate::crash::fault::{Fault, LATE};
use crate::crash::journey::{Journey, Load, ready_becomes, told};
use crate::crash::stand::faults::{Blow, Op};
use crate::crash::stand::network::Cut;
use crate::crash::stand::{Operation, Reply, Stand};
use crate::crash::{in_parallel, seeds};

/// Maximum time until a client gets a response if the store cannot be reached.
const STORE_UNAVAILABLE_WITHIN: Duration = Duration::from_secs(10);

/// Faults for a produce that takes long enough to record its progress.
const PACED: &[Fault] = &[
    Fault::KilledAfterCheckpoint,
    Fault::KilledMidway,
    Fault::CutMidway(Cut::Fin),
    Fault::Store(Op::Checkpoint, Blow::DropRequest),
    Fault::Store(Op::Checkpoint, Blow::DropAnswer),
    Fault::Store(Op::Checkpoint, Blow::Late(LATE)),
    Fault::StoreEvery(Op::Checkpoint, Blow::SwallowRequest),
    Fault::StoreEvery(Op::Checkpoint, Blow::Status(500)),
];

/// Faults for a consume whose result, or whose messages' bodies, are stored in S3.
const LARGE: &[Fault] = &[
    Fault::KilledBeforeObject,
    Fault::KilledAfterObject,
    Fault::KilledBeforeCommit,
    Fault::KilledBeforeCompletion,
    Fault::KilledAfterCompletion,
    Fault::Store(Op::PutObject, Blow::DropRequest),
    Fault::Store(Op::PutObject, Blow::DropAnswer),
    Fault::Store(Op::PutObject, Blow::Status(503)),
    Fault::StoreEvery(Op::PutObject, Blow::DropRequest),
    Fault::StoreEvery(Op::PutObject, Blow::DropAnswer),
    Fault::StoreEvery(Op::PutObject, Blow::SwallowRequest),
    Fault::StoreEvery(Op::PutObject, Blow::Status(500)),
    Fault::CommitCut(Cut::Fin),
];

#[tokio::test]
async fn a_produce_ends_well_after_every_fault() {
    each(Operation::Produce, Load::Usual, &Fault::of(Operation::Produce)).await;
}

#[tokio::test]
async fn a_consume_ends_well_after_every_fault() {
    each(Operation::Consume, Load::Usual, &Fault::of(Operation::Consume)).await;
}

#[tokio::test]
async fn a_move_ends_well_after_every_fault() {
    each(Operation::Move, Load::Usual, &Fault::of(Operation::Move)).await;
}

#[tokio::test]
async fn a_long_produce_goes_on_after_its_last_checkpoint() {
    each(Operation::Produce, Load::Paced, PACED).await;
}

#[tokio::test]
async fn a_large_result_ends_well_after_every_fault() {
    each(Operation::Consume, Load::Large, LARGE).await;
}

#[tokio::test]
async fn a_message_whose_body_is_stored_ends_well_after_every_fault() {
    each(Operation::Consume, Load::Stored, LARGE).await;
}

/// Time for which a function waits for its store. A test that takes longer, on a busy machine, need
/// not get the expected response; the checks after the retries hold all the same.
const PATIENCE: Duration = Duration::from_secs(2);

async fn each(operation: Operation, load: Load, faults: &[Fault]) {
    let tries = (0..).zip(faults).flat_map(|(index, fault)| {
        let slow = load != Load::Usual || fault.takes_seconds();
        (0..if slow { 1 } else { seeds() }).map(move |seed| (*fault, seed * 1000 + index))
    });
    in_parallel(tries, async |stand, (fault, seed)| one(stand, operation, load, fault, seed).await).await;
}

async fn one(stand: &mut Stand, operation: Operation, load: Load, fault: Fault, seed: u64) {
    println!("{operation:?}, {fault:?}, seed {seed}");
    let started = Instant::now();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut journey = Journey::begin(stand, operation, load, &mut random).await;
    let reply = journey.suffer(stand, fault, &mut random).await;
    if reply.took < PATIENCE || fault.takes_seconds() {
        assert_eq!(told(&reply.answer), fault.expected(operation));
    }
    stand.heal().await;
    check_unavailable(stand, &journey, fault, &reply).await;
    let (left, _) = journey.on_queue(stand).await;
    let done = journey.until_done(stand).await;
    let (count, all) = (journey.count, journey.told());
    let twice = journey.check(stand, &done).await;
    if load == Load::Paced && reply.answer.status != 201 {
        let resumed = done.answer.json()["resumedFrom"].as_u64().unwrap();
        assert!(resumed > 0, "it began anew");
    }
    println!(
        "| {fault:?} | {operation:?} of {count} | {} ms | {left} | {all} | {twice} twice | {} ms",
        reply.took.as_millis(),
        started.elapsed().as_millis(),
    );
}

/// Checks that a response with status 503 says when to retry, and that nothing was done: the queue
/// is unchanged, unless a move could not record its progress.
async fn check_unavailable(stand: &Stand, journey: &Journey, fault: Fault, reply: &Reply) {
    if reply.answer.status != 503 {
        return;
    }
    assert!(reply.answer.header("retry-after").is_some());
    if !matches!(fault, Fault::StoreEvery(Op::Checkpoint, _)) {
        let (_, untouched) = journey.on_queue(stand).await;
        ready_becomes(stand, &journey.queue, untouched).await;
    }
    if matches!(fault, Fault::StoreDown(_)) {
        assert!(reply.took < STORE_UNAVAILABLE_WITHIN, "{:?}", reply.took);
    }
}
