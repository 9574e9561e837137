//! Tests of consumes with `ack: none`, whose messages are removed before anything is stored. The
//! response has the messages even if the record cannot be written.

use end_to_end::{Answer, Queue};
use serde_json::json;

use crate::crash::journey::{ready_becomes, told};
use crate::crash::stand::faults::{Blow, Op};
use crate::crash::stand::{Asked, Operation, Stand};

async fn one_message(stand: &Stand) -> (Queue, Asked) {
    let queue = stand.broker.queue().await;
    stand.broker.put(&queue, ["a message"]).await;
    ready_becomes(stand, &queue, 1).await;
    let asked =
        stand.request(Operation::Consume, &queue, json!({"ack": "none", "maxMessages": 5, "waitSeconds": 0}));
    (queue, asked)
}

/// Returns true if the response warns that it may not be recorded, so that a retry may take other
/// messages.
fn is_unrecorded(answer: &Answer) -> bool {
    let warnings = answer.json()["warnings"].to_string();
    warnings.contains("may not be recorded") && warnings.contains("may remove other messages")
}

#[tokio::test]
async fn messages_that_were_removed_are_answered_though_the_store_is_away() {
    for blow in [Blow::DropRequest, Blow::DropAnswer, Blow::Status(500)] {
        let mut stand = Stand::start().await;
        let (queue, asked) = one_message(&stand).await;
        for op in [Op::Prepare, Op::Complete, Op::Fail] {
            stand.faults.every(op, blow);
        }
        let answer = stand.ask(&asked).await.answer;
        assert_eq!(told(&answer), "200", "{blow:?}");
        assert_eq!((answer.json()["count"].as_u64(), is_unrecorded(&answer)), (Some(1), true), "{blow:?}");
        stand.heal().await;
        stand.age(&asked).await;
        let retried = stand.ask(&asked).await.answer;
        // Whether the write arrived is what nobody could know.
        let expected = if blow == Blow::DropAnswer { 1 } else { 0 };
        assert_eq!((told(&retried).as_str(), retried.json()["count"].as_u64()), ("200", Some(expected)));
        stand.broker.delete(&queue).await;
    }
}

#[tokio::test]
async fn messages_that_were_removed_are_answered_though_another_attempt_took_over() {
    let mut stand = Stand::start().await;
    let (queue, asked) = one_message(&stand).await;
    let mut held = stand.faults.hold_request(Op::Complete);
    let late = stand.ask_later(&asked);
    held.reached().await;
    let frozen = stand.mq_access.freeze();
    stand.age(&asked).await;
    let winner = stand.ask(&asked).await.answer;
    assert_eq!((told(&winner).as_str(), winner.json()["count"].as_u64()), ("200", Some(0)));
    let recorded = stand.record(&asked).await;
    held.release();
    frozen.thaw();
    let loser = late.await.unwrap().answer;
    assert_eq!((told(&loser).as_str(), loser.json()["count"].as_u64()), ("200", Some(1)));
    assert!(is_unrecorded(&loser));
    assert_eq!(stand.record(&asked).await, recorded, "the record was changed");
    stand.heal().await;
    stand.broker.delete(&queue).await;
}

#[tokio::test]
async fn an_answer_that_is_recorded_is_replayed_and_takes_one_write() {
    let stand = Stand::start().await;
    let (queue, asked) = one_message(&stand).await;
    let answer = stand.ask(&asked).await.answer;
    assert_eq!((told(&answer).as_str(), is_unrecorded(&answer)), ("200", false));
    let replay = stand.ask(&asked).await.answer;
    assert_eq!((replay.header("idempotent-replay"), &replay.bytes), (Some("true"), &answer.bytes));
    assert_eq!((stand.faults.seen(Op::Prepare), stand.faults.seen(Op::Complete)), (0, 1));
    stand.broker.delete(&queue).await;
}
