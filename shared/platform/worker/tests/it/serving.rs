//! Tests of which records are handled, which are delivered again, and when.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use worker::{Failure, ServeError, SqsBatchResponse, UnknownEvent, serve, serve_directly};

use crate::job::{Words, messages};
use crate::queue::Queue;

/// Time limit of the invocations in these tests.
const TIME: Duration = Duration::from_secs(30);

fn failed(response: &SqsBatchResponse) -> Vec<String> {
    response.batch_item_failures.iter().map(|failure| failure.item_identifier.to_string()).collect()
}

async fn answered(words: &Words, event: Value, time: Duration) -> Vec<String> {
    failed(&serve(words, event, SystemTime::now() + time).await.unwrap())
}

#[tokio::test]
async fn each_message_is_handled_by_itself() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    let response = serve(&words, messages(&["later", "a", "never", "b"]), SystemTime::now() + TIME).await;
    assert_eq!(words.begun(), ["later", "a", "never", "b"]);
    assert_eq!(
        serde_json::to_value(response.unwrap()).unwrap(),
        json!({"batchItemFailures": [{"itemIdentifier": "later"}, {"itemIdentifier": "never"}]})
    );
}

#[tokio::test]
async fn the_error_s_directive_decides_when_a_message_becomes_visible_again() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    let bodies = ["later", "contended", "repair", "never", "unreadable"];
    assert_eq!(answered(&words, messages(&bodies), TIME).await, bodies);
    for body in ["later", "contended"] {
        let timeouts = queue.timeouts(body).await;
        assert!(timeouts.len() == 1 && (5..=10).contains(&timeouts[0]), "{body}: {timeouts:?}");
    }
    let timeouts = queue.timeouts("repair").await;
    assert!(timeouts.len() == 1 && (450..=900).contains(&timeouts[0]), "{timeouts:?}");
    for body in ["never", "unreadable"] {
        assert_eq!(queue.timeouts(body).await, [0], "{body}");
    }
    assert_eq!(answered(&words, messages(&["done"]), TIME).await, [""; 0]);
    assert_eq!(queue.calls().await, bodies.len(), "what was done needs no call");
}

#[tokio::test]
async fn a_record_stops_at_its_first_failure() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    assert_eq!(answered(&words, messages(&["a later b", "c"]), TIME).await, ["a later b"]);
    assert_eq!(words.begun(), ["a", "later", "c"]);
}

#[tokio::test]
async fn a_record_that_its_job_moved_is_acknowledged() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    assert_eq!(answered(&words, messages(&["moved a", "b"]), TIME).await, [""; 0]);
    assert_eq!(words.begun(), ["moved", "b"], "the rest of it went with it");
    assert_eq!(queue.calls().await, 0);
}

#[tokio::test]
async fn without_time_nothing_is_begun_and_no_call_is_made() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    // The reserve is for the answer.
    for time in [Duration::ZERO, Duration::from_millis(900)] {
        assert_eq!(answered(&words, messages(&["a", "b"]), time).await, ["a", "b"]);
    }
    assert!(words.begun().is_empty() && queue.calls().await == 0);
}

#[tokio::test]
async fn work_that_outlasts_its_time_is_cut_off_and_left_to_the_queue_and_delays_no_other() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    let time = Duration::from_millis(1300);
    assert_eq!(answered(&words, messages(&["a", "slow", "b"]), time).await, ["slow"]);
    assert_eq!(words.begun(), ["a", "slow", "b"]);
    assert_eq!(queue.calls().await, 0);
}

#[tokio::test]
async fn an_event_that_is_itself_the_record_fails_as_a_whole() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    let ends_at = SystemTime::now() + TIME;
    serve_directly(&words, &json!(1), ends_at).await.unwrap();
    let failed = serve_directly(&words, &json!(1), SystemTime::now()).await;
    assert!(matches!(failed, Err(Failure::OutOfTime)));
    assert_eq!(words.begun(), ["1"]);
    let unknown = serve(&words, json!({}), ends_at).await;
    assert!(matches!(unknown, Err(ServeError::Event(UnknownEvent::Source))));
}
