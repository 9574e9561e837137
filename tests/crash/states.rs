//! Tests of a second request under the same idempotency key, in each state of the record and
//! without a store.

use std::time::Duration;

use crate::crash::fault::Fault;
use crate::crash::journey::{Journey, LEASE, Load, other_body, told};
use crate::crash::stand::faults::{Blow, Op};
use crate::crash::stand::{Asked, Operation, Stand};

const BOTH: [Operation; 2] = [Operation::Produce, Operation::Consume];

async fn is_conflict(stand: &Stand, asked: &Asked) {
    let before = stand.faults.seen(Op::Invoke);
    let refused = stand.ask(&other_body(asked)).await.answer;
    refused.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    assert_eq!(stand.faults.seen(Op::Invoke), before);
}

async fn is_in_progress(stand: &Stand, asked: &Asked) {
    let refused = stand.ask(asked).await.answer.expect_problem(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((LEASE - 4..=LEASE).contains(&seconds), "{seconds}");
}

/// Checks that another body is refused while the first request is executed: the record is
/// IN_PROGRESS or, for a consume, PREPARED.
#[tokio::test]
async fn another_body_is_refused_while_the_first_is_executed() {
    let mut stand = Stand::start().await;
    for (operation, op) in [
        (Operation::Produce, Op::Complete),
        (Operation::Consume, Op::Prepare),
        (Operation::Consume, Op::Complete),
    ] {
        let mut journey =
            Journey::begin(&stand, operation, Load::Usual, &mut fastrand::Rng::with_seed(2)).await;
        let mut held = stand.faults.hold_request(op);
        let first = stand.ask_later(&journey.asked);
        held.reached().await;
        // Its own time-outs do not pass while it is looked at.
        let frozen = stand.mq_access.freeze();
        is_conflict(&stand, &journey.asked).await;
        is_in_progress(&stand, &journey.asked).await;
        held.release();
        frozen.thaw();
        first.await.unwrap();
        let done = journey.until_done(&mut stand).await;
        journey.check(&stand, &done).await;
    }
}

/// Checks that another body is refused after every possible end of an execution: with its lease
/// running or over, its result stored, or its failure stored.
#[tokio::test]
async fn another_body_is_refused_after_every_end() {
    let mut stand = Stand::start().await;
    for operation in BOTH {
        for fault in [
            Fault::KilledMidway,
            Fault::KilledBeforeCompletion,
            Fault::KilledAfterCompletion,
            Fault::BrokerDown,
            Fault::BrokerAndStoreDown,
        ] {
            let mut random = fastrand::Rng::with_seed(3);
            let mut journey = Journey::begin(&stand, operation, Load::Usual, &mut random).await;
            journey.suffer(&mut stand, fault, &mut random).await;
            stand.heal().await;
            is_conflict(&stand, &journey.asked).await;
            stand.age(&journey.asked).await;
            is_conflict(&stand, &journey.asked).await;
            let done = journey.until_done(&mut stand).await;
            journey.check(&stand, &done).await;
        }
    }
}

/// Checks that a request is executed once if its takeover of the record, or the answer to it, is
/// lost.
#[tokio::test]
async fn a_takeover_whose_answer_was_lost_is_recognised() {
    let mut stand = Stand::start().await;
    for operation in BOTH {
        for blow in [Blow::DropRequest, Blow::DropAnswer, Blow::SwallowAnswer, Blow::Status(500)] {
            let mut random = fastrand::Rng::with_seed(4);
            let mut journey = Journey::begin(&stand, operation, Load::Usual, &mut random).await;
            journey.suffer(&mut stand, Fault::BrokerDown, &mut random).await;
            stand.heal().await;
            stand.faults.next(Op::TakeOver, blow);
            let before = stand.faults.seen(Op::Invoke);
            let reply = stand.ask(&journey.asked).await;
            assert!(reply.answer.status < 300, "{operation:?}, {blow:?}: {}", told(&reply.answer));
            assert_eq!(stand.faults.seen(Op::Invoke), before + 1);
            journey.check(&stand, &reply).await;
        }
    }
}

/// Checks that nothing is executed if the store refuses connections. A function that knows its API
/// keys and a function that has just started give the same response.
#[tokio::test]
async fn without_a_store_nothing_is_executed() {
    for operation in BOTH {
        let stand = Stand::start().await;
        let mut random = fastrand::Rng::with_seed(5);
        let warm = Journey::begin(&stand, operation, Load::Usual, &mut random).await;
        let done = stand.ask(&warm.asked).await;
        warm.check(&stand, &done).await;
        let journey = Journey::begin(&stand, operation, Load::Usual, &mut random).await;
        stand.stores.stop();
        stand.faults.all(Blow::DropRequest);
        let before = journey.on_queue(&stand).await.0;
        for _ in 0..2 {
            let refused = stand.ask(&journey.asked).await;
            assert!(refused.took < Duration::from_secs(3), "{:?}", refused.took);
            let refused = refused.answer.expect_problem(503, "STORE_UNAVAILABLE");
            assert!(refused.header("retry-after").is_some());
            // The next one starts anew, and cannot even read the API key.
            stand.front(operation).end_idle();
        }
        assert_eq!(journey.on_queue(&stand).await.0, before);
        stand.broker.delete(&journey.queue).await;
    }
}
