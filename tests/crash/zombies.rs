//! Tests of executions (zombies) that stop until their lease is over and another execution has
//! taken over their record, and then continue.

use std::time::Duration;

use end_to_end::On;

use crate::crash::fault::TOO_LATE;
use crate::crash::journey::{Journey, Load, ask_in_time, told};
use crate::crash::stand::faults::{Held, Op};
use crate::crash::stand::function::Frozen;
use crate::crash::stand::{Operation, Reply, Stand};

/// Duration of a zombie's stop below which it still waits for its store when it continues.
const STORE_PATIENCE: Duration = Duration::from_secs(2);

end_to_end::on_both! {
    a_late_completion_is_refused,
    a_late_end_is_refused_while_the_successor_works,
    what_a_zombie_still_puts_are_the_same_messages,
    a_zombie_stops_at_its_next_checkpoint,
    a_zombie_with_messages_in_hand_puts_them_back,
    a_zombie_that_still_commits_removes_what_was_answered,
}

async fn a_late_completion_is_refused(on: On) {
    for operation in [Operation::Produce, Operation::Consume] {
        until_in_time(async || late_completion(on, operation).await).await;
    }
}

async fn late_completion(on: On, operation: Operation) -> Duration {
    let (mut stand, mut journey) = begin(on, operation, Load::Usual).await;
    let mut held = stand.faults.hold_request(Op::Complete);
    let late = stand.ask_later(&journey.asked);
    held.reached().await;
    let frozen = stand.mq_access.freeze();
    let winner = take_over(&stand, &mut journey).await;
    let recorded = stand.record(&journey.asked).await;
    let stood_still = go_on(held, frozen).await;
    let loser = late.await.unwrap();
    assert_eq!(stand.record(&journey.asked).await, recorded, "{operation:?}: the record was changed");
    if stood_still < STORE_PATIENCE {
        check_loser(operation, &loser, &winner);
    }
    end(&mut stand, journey, &winner).await;
    stood_still
}

/// Checks that a zombie's completion or failure is refused while its successor still works. Only
/// owner and attempt tell the two apart.
async fn a_late_end_is_refused_while_the_successor_works(on: On) {
    for operation in [Operation::Produce, Operation::Consume] {
        for end_of_zombie in [Op::Complete, Op::Fail] {
            until_in_time(async || late_end(on, operation, end_of_zombie).await).await;
        }
    }
}

async fn late_end(on: On, operation: Operation, end_of_zombie: Op) -> Duration {
    let (mut stand, mut journey) = begin(on, operation, Load::Usual).await;
    let mut first = stand.faults.hold_request(end_of_zombie);
    if end_of_zombie == Op::Fail {
        stand.stop_broker().await;
    }
    let late = stand.ask_later(&journey.asked);
    first.reached().await;
    let frozen = stand.mq_access.freeze();
    stand.heal_broker().await;
    stand.age(&journey.asked).await;
    let mut second = stand.faults.hold_request(Op::Complete);
    let successor = stand.ask_later(&journey.asked);
    second.reached().await;
    let at_work = stand.record(&journey.asked).await;
    let stood_still = go_on(first, frozen).await;
    let loser = late.await.unwrap();
    if stood_still < STORE_PATIENCE {
        assert!(loser.answer.status >= 400, "{operation:?}: {}", told(&loser.answer));
    }
    assert_eq!(stand.record(&journey.asked).await, at_work, "{operation:?}, {end_of_zombie:?}");
    second.release();
    let winner = successor.await.unwrap();
    assert!(winner.answer.status < 300, "{}", told(&winner.answer));
    journey.replies.push(winner.clone());
    end(&mut stand, journey, &winner).await;
    stood_still
}

/// Repeats an experiment until its zombie continued while it still waited for its store. A zombie
/// that has given up learns nothing about its successor. The experiment returns how long the zombie
/// was stopped.
async fn until_in_time(experiment: impl AsyncFn() -> Duration) {
    for _ in 0..10 {
        if experiment().await < STORE_PATIENCE {
            return;
        }
    }
    panic!("this machine is too slow: ten zombies had given up their store before they went on");
}

async fn what_a_zombie_still_puts_are_the_same_messages(on: On) {
    let (mut stand, mut journey) = begin(on, Operation::Produce, Load::Paced).await;
    let late = stand.ask_later(&journey.asked);
    while journey.on_queue(&stand).await.0 < 10 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let frozen = stand.mq_access.freeze();
    let winner = take_over(&stand, &mut journey).await;
    let recorded = stand.record(&journey.asked).await;
    frozen.thaw();
    let loser = late.await.unwrap();
    assert_eq!(stand.record(&journey.asked).await, recorded, "the record was changed");
    check_loser(Operation::Produce, &loser, &winner);
    end(&mut stand, journey, &winner).await;
}

/// Checks that a zombie stops at its next checkpoint, which is refused because another execution
/// has continued from its last one.
async fn a_zombie_stops_at_its_next_checkpoint(on: On) {
    let (mut stand, mut journey) = begin(on, Operation::Produce, Load::Paced).await;
    let mut held = stand.faults.hold_answer(Op::Checkpoint);
    let late = stand.ask_later(&journey.asked);
    held.reached().await;
    let frozen = stand.mq_access.freeze();
    let there = journey.on_queue(&stand).await.0;
    let winner = take_over(&stand, &mut journey).await;
    assert!(winner.answer.json()["resumedFrom"].as_u64().unwrap() > 0);
    let recorded = stand.record(&journey.asked).await;
    let after_both = journey.on_queue(&stand).await.0;
    go_on(held, frozen).await;
    let loser = late.await.unwrap();
    assert_eq!(stand.record(&journey.asked).await, recorded, "the record was changed");
    assert!(loser.answer.status >= 400, "{}", told(&loser.answer));
    let more = journey.on_queue(&stand).await.0 - after_both;
    println!("{there} before, {after_both} with the successor's, {more} more of the zombie's");
    end(&mut stand, journey, &winner).await;
}

/// Checks that a zombie with unacknowledged messages returns them when it finds that it lost the
/// record.
async fn a_zombie_with_messages_in_hand_puts_them_back(on: On) {
    let (mut stand, mut journey) = begin(on, Operation::Consume, Load::Usual).await;
    let mut held = stand.faults.hold_request(Op::Prepare);
    let late = stand.ask_later(&journey.asked);
    held.reached().await;
    let frozen = stand.mq_access.freeze();
    let winner = take_over(&stand, &mut journey).await;
    let recorded = stand.record(&journey.asked).await;
    go_on(held, frozen).await;
    let loser = late.await.unwrap();
    assert_eq!(stand.record(&journey.asked).await, recorded, "the record was changed");
    assert!(loser.answer.status >= 400, "{}", told(&loser.answer));
    end(&mut stand, journey, &winner).await;
}

/// Checks that a zombie may still commit a consume whose result it had stored. Its successor
/// responds with the same result, so the commit removes the right messages.
async fn a_zombie_that_still_commits_removes_what_was_answered(on: On) {
    let (mut stand, mut journey) = begin(on, Operation::Consume, Load::Usual).await;
    let mut held = stand.faults.hold_answer(Op::Prepare);
    let late = stand.ask_later(&journey.asked);
    held.reached().await;
    let frozen = stand.mq_access.freeze();
    let winner = take_over(&stand, &mut journey).await;
    assert_eq!(winner.answer.json()["deliveryInDoubt"], true);
    let recorded = stand.record(&journey.asked).await;
    go_on(held, frozen).await;
    let loser = late.await.unwrap();
    assert_eq!(stand.record(&journey.asked).await, recorded, "the record was changed");
    check_loser(Operation::Consume, &loser, &winner);
    end(&mut stand, journey, &winner).await;
}

/// Checks that `mq-access` does not execute a work order that arrives after its claim's time to
/// start, whichever execution has the record by then.
#[tokio::test]
async fn a_late_order_is_not_executed() {
    let late_order = async |operation| {
        let (mut stand, mut journey) = begin(On::RabbitMq, operation, Load::Usual).await;
        let mut held = stand.faults.hold_request(Op::Invoke);
        let late = stand.ask_later(&journey.asked);
        held.reached().await;
        let frozen = stand.front(operation).freeze();
        tokio::time::sleep(TOO_LATE).await;
        let winner = take_over(&stand, &mut journey).await;
        let recorded = stand.record(&journey.asked).await;
        let (left, _) = journey.on_queue(&stand).await;
        go_on(held, frozen).await;
        let loser = late.await.unwrap();
        assert_eq!(stand.record(&journey.asked).await, recorded, "{operation:?}: the record was changed");
        assert_eq!(told(&loser.answer), "503 BUSY");
        // Nothing was put, and nothing got: what was executed would be counted as a possible
        // duplicate.
        assert_eq!(journey.on_queue(&stand).await.0, left, "{operation:?}: the order was executed");
        end(&mut stand, journey, &winner).await;
    };
    tokio::join!(late_order(Operation::Produce), late_order(Operation::Consume));
}

async fn begin(on: On, operation: Operation, load: Load) -> (Stand, Journey) {
    let stand = Stand::start_on(on).await;
    let journey = Journey::begin(&stand, operation, load, &mut fastrand::Rng::with_seed(1)).await;
    (stand, journey)
}

/// Ends the lease of a stopped execution, and repeats the request, which takes over the record.
/// Returns the response.
async fn take_over(stand: &Stand, journey: &mut Journey) -> Reply {
    stand.age(&journey.asked).await;
    let winner = ask_in_time(stand, &journey.asked).await;
    assert!(winner.answer.status < 300, "{}", told(&winner.answer));
    journey.replies.push(winner.clone());
    winner
}

/// Checks that the execution which lost the record responds with the winner's result or with an
/// error, but never with a result that no replay returns.
fn check_loser(operation: Operation, loser: &Reply, winner: &Reply) {
    println!("{operation:?}: the zombie's client is told {}", told(&loser.answer));
    assert!(
        loser.answer.status >= 400 || loser.answer.bytes == winner.answer.bytes,
        "{operation:?}: the zombie's client is told {}, in words that no replay will repeat",
        told(&loser.answer),
    );
}

/// Releases a held request or answer, and then continues the stopped process that sent it. Returns
/// the time for which the process was stopped.
async fn go_on(held: Held, frozen: Frozen) -> Duration {
    held.release();
    tokio::time::sleep(Duration::from_millis(50)).await;
    frozen.thaw()
}

async fn end(stand: &mut Stand, journey: Journey, winner: &Reply) {
    stand.heal().await;
    journey.check(stand, winner).await;
}
