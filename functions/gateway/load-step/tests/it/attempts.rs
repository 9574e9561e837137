//! Tests of invocations that come twice, that come late, or that replace one that was lost.

use std::time::Duration;

use load_test::{Role, TestStatus};
use serde_json::json;
use tokio::time::sleep;

use crate::support::Stand;

#[tokio::test]
async fn a_step_that_is_delivered_twice_is_done_once() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"ratePerSec": 50}, "consumers": {}, "durationSeconds": 2});
    let (of, _) = stand.begun(body, 1_000).await;
    let again = async {
        sleep(Duration::from_secs(1)).await;
        let begin = std::time::Instant::now();
        let (producer, consumer) = tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "c0a", 0));
        assert!(begin.elapsed() < Duration::from_secs(2), "{producer:?} {consumer:?}");
        consumer
    };
    let (_, _, again) = tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "c0a", 0), again);
    // What it answers is of no use, but does no harm: the next window.
    assert_eq!(again.window.map(load_test::Window::number), Some(2));
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    let accounting = &report.accounting;
    assert_eq!((accounting.received, accounting.doubled, accounting.holes.len()), (100, 0, 0));
    stand.remove().await;
}

#[tokio::test]
async fn a_step_that_comes_late_does_what_is_left_of_its_window() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"ratePerSec": 50}, "durationSeconds": 13});
    let (of, _) = stand.begun(body, -10_000).await;
    stand.step(&of, "p0a", 0).await;
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    let accounting = &report.accounting;
    let [hole] = accounting.holes.as_slice() else { panic!("{accounting:?}") };
    assert!(hole.from_seconds == 0.0 && (10.0..12.0).contains(&hole.to_seconds), "{hole:?}");
    assert!((50..=150).contains(&accounting.sent), "{accounting:?}");
    assert_eq!(accounting.sent + accounting.unrecorded, 650, "{accounting:?}");
    // The rest of the test was not made up for.
    assert!(report.series.sent.iter().all(|count| *count <= 60), "{:?}", report.series);
    stand.remove().await;
}

#[tokio::test]
async fn a_step_that_comes_after_its_window_does_nothing() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"ratePerSec": 50}, "durationSeconds": 330});
    let (of, start) = stand.begun(body, -130_000).await;
    // Window 0 has closed, and window 2 is open. A lane that comes much later passes over windows.
    let next = stand.step(&of, "p0a", 0).await;
    assert_eq!(next.window.map(load_test::Window::number), Some(2));
    assert_eq!(next.starts_at.unwrap().duration_since(start).as_secs(), 117);
    let next = stand.step(&of, "p0b", 0).await;
    assert_eq!(next.window.map(load_test::Window::number), Some(3));
    let (sum, _) = stand.store.sum(of.test_id, 0, usize::MAX, Duration::from_secs(10)).await.unwrap();
    assert_eq!(sum.steps(), 0);
    assert_eq!(stand.ready(0).await, 0);
    stand.remove().await;
}

#[tokio::test]
async fn an_attempt_after_a_lost_one_goes_on_from_the_present() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"ratePerSec": 100}, "consumers": {}, "durationSeconds": 8});
    let (of, _) = stand.begun(body, 1_000).await;
    let producer = async {
        // The first attempt is cut off, as if its process had ended.
        let lost = tokio::time::timeout(Duration::from_secs(4), stand.step(&of, "p0a", 0));
        assert!(lost.await.is_err());
        stand.step(&of, "p0a", 1).await
    };
    tokio::join!(producer, stand.step(&of, "c0a", 0));
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    let accounting = &report.accounting;
    assert_eq!((accounting.due, accounting.doubled, accounting.not_sent), (800, 0, 0), "{accounting:?}");
    let [hole] = accounting.holes.as_slice() else { panic!("{accounting:?}") };
    assert_eq!(hole.worker.role, Role::Producer);
    assert!(hole.to_seconds - hole.from_seconds < 2.5, "{hole:?}");
    // What the lost attempt put and did not store was received. Nothing that is on a queue counts
    // as not sent.
    assert!(accounting.received > 600 && accounting.lost == Some(0), "{accounting:?}");
    assert_eq!(accounting.received + accounting.unrecorded, 800, "{accounting:?}");
    stand.remove().await;
}

#[tokio::test]
async fn an_attempt_that_was_given_up_ends_when_the_next_one_begins() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"ratePerSec": 100}, "consumers": {}, "durationSeconds": 8});
    let (of, _) = stand.begun(body, 1_000).await;
    let given_up = async {
        stand.step(&of, "p0a", 0).await;
        std::time::Instant::now()
    };
    let next = async {
        sleep(Duration::from_secs(4)).await;
        let begin = std::time::Instant::now();
        stand.step(&of, "p0a", 1).await;
        begin
    };
    let (ended, begin, _) = tokio::join!(given_up, next, stand.step(&of, "c0a", 0));
    let lived_on = ended.saturating_duration_since(begin);
    assert!(lived_on < Duration::from_millis(2_500), "{lived_on:?}");
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    let accounting = &report.accounting;
    assert_eq!((accounting.due, accounting.lost), (800, Some(0)), "{accounting:?}");
    // Both put the messages of the second in which both worked.
    assert!(accounting.doubled < 300, "{accounting:?}");
    stand.remove().await;
}

#[tokio::test]
async fn an_event_about_what_is_not_there_is_an_error() {
    let stand = Stand::open().await;
    let of = stand.accepted(json!({"producers": {"ratePerSec": 50}, "durationSeconds": 30})).await;
    assert!(stand.step_in(&of, "p0a".parse().unwrap(), 0).await.is_err(), "no run has begun");
    stand.begin(&of, -10_000).await;
    for lane in ["p1a", "c0a", "p0b"] {
        let error = stand.step_in(&of, lane.parse().unwrap(), 0).await.unwrap_err();
        assert!(error.to_string().contains(lane), "{error}");
    }
    stand.remove().await;
}
