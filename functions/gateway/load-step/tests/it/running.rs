//! Tests of runs that work until their planned end.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use load_test::TestStatus;
use serde_json::json;

use crate::support::{Stand, until};

#[tokio::test]
async fn a_test_goes_from_its_preparation_to_its_report() {
    let stand = Stand::open().await;
    let of = stand
        .accepted(json!({
            "producers": {"ratePerSec": 100, "messageSizeBytes": 64}, "consumers": {}, "durationSeconds": 3
        }))
        .await;
    let lanes = stand.prepare(&of).await;
    let names: Vec<_> = lanes.lanes.iter().map(|start| start.lane.to_string()).collect();
    assert_eq!(names, ["p0a", "c0a", "c0b"]);
    let ahead = lanes.lanes[0].starts_at.duration_since(Timestamp::now());
    assert!(ahead.as_secs() >= 5, "{ahead:?}");
    assert_eq!(stand.prepare(&of).await, lanes, "a run that is prepared again keeps its start");
    until(lanes.lanes[0].starts_at).await;
    let (producer, consumer) = tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "c0a", 0));
    assert_eq!((producer.window, consumer.window), (None, None));

    // The last worker has closed the test. The other lane and the state machine find it so.
    let report = stand.report(&of).await.unwrap();
    assert_eq!(stand.record(&of).await.status, TestStatus::Completed);
    let odd = stand.step(&of, "c0b", 0).await;
    assert_eq!((odd.window, odd.starts_at), (None, None));
    assert_eq!(stand.closed_as(&of, TestStatus::Completed).await, report);

    let accounting = &report.accounting;
    assert_eq!((accounting.due, accounting.received, accounting.doubled), (300, 300, 0), "{accounting:?}");
    assert_eq!((accounting.holes.len(), accounting.lost), (0, Some(0)), "{accounting:?}");
    assert_eq!(report.put_latency_us.as_ref().unwrap().count, 300);
    assert_eq!(report.end_to_end_latency_us.as_ref().unwrap().count, 300);
    assert!(report.generator.billed_seconds > 6.0, "{:?}", report.generator);
    assert!(report.drained_in_seconds.is_some() && report.most_retained.is_some());
    assert_eq!(stand.ready(0).await, 0);
    stand.remove().await;
}

#[tokio::test]
async fn nothing_is_put_before_the_start() {
    for body in [
        json!({"producers": {"ratePerSec": 100}, "durationSeconds": 1}),
        json!({"producers": {}, "messages": 100}),
    ] {
        let stand = Stand::open().await;
        let (of, start) = stand.begun(body, 3_000).await;
        let look = async {
            until(start - SignedDuration::from_secs(1)).await;
            stand.ready(0).await
        };
        let (next, early) = tokio::join!(stand.step(&of, "p0a", 0), look);
        assert_eq!((next.window, early), (None, 0));
        let report = stand.closed_as(&of, TestStatus::Completed).await;
        assert_eq!((report.accounting.sent, stand.ready(100).await), (100, 100), "{report:?}");
        // The run may be over before the queue is measured beside it.
        assert_eq!(report.most_retained, Some(100), "{report:?}");
        stand.remove().await;
    }
}

#[tokio::test]
async fn without_a_rate_producers_put_as_many_messages_as_they_may() {
    let stand = Stand::open().await;
    let body = json!({
        "producers": {"count": 2, "messageSizeBytes": 0, "confirmsInFlight": 50},
        "consumers": {"ackEvery": 20}, "messages": 2_001,
    });
    let (of, _) = stand.begun(body, 500).await;
    let (first, second, consumer) =
        tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "p1a", 0), stand.step(&of, "c0a", 0),);
    // The consumer does not wait for the hour that the producers might have taken.
    assert_eq!([first.window, second.window, consumer.window], [None; 3]);
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    let accounting = &report.accounting;
    assert_eq!((accounting.sent, accounting.received), (2_001, 2_001), "{accounting:?}");
    assert_eq!((accounting.doubled, accounting.lost), (0, Some(0)), "{accounting:?}");
    stand.remove().await;
}

#[tokio::test]
async fn consumers_wait_for_the_backlog_and_keep_their_pace() {
    let stand = Stand::open().await;
    let body = json!({
        "producers": {"ratePerSec": 100, "transaction": {"enabled": true, "txSize": 10}},
        "consumers": {"ratePerSec": 200, "transaction": {"enabled": true, "txSize": 5}},
        "backlog": {"messages": 150}, "durationSeconds": 2,
    });
    let (of, _) = stand.begun(body, 500).await;
    tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "c0a", 0));
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    assert_eq!((report.accounting.due, report.accounting.received), (200, 200), "{report:?}");
    let series = &report.series;
    let first = series.received.iter().position(|count| *count > 0).unwrap();
    assert!(first >= 1, "{series:?}");
    // A tenth more: the pace is that of seconds since the consumer began.
    assert!(series.received.iter().all(|count| *count <= 220), "{series:?}");
    assert!(report.most_retained >= Some(150), "{series:?}");
    stand.remove().await;
}

#[tokio::test]
async fn consumers_alone_take_messages_of_others_up_to_a_number() {
    let stand = Stand::open().await;
    stand.put_foreign(100).await;
    let body = json!({
        "consumers": {"prefetch": 5}, "foreign": "take", "messages": 40, "stopWhen": "idle",
    });
    let (of, _) = stand.begun(body, 200).await;
    let begin = std::time::Instant::now();
    assert_eq!(stand.step(&of, "c0a", 0).await.window, None);
    assert!(begin.elapsed() < Duration::from_secs(20));
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    let taken = report.accounting.foreign_taken;
    // What was delivered in advance is taken too.
    assert!((40..=45).contains(&taken), "{taken}");
    let left = 100 - u32::try_from(taken).unwrap();
    assert_eq!(stand.ready(left).await, left);
    stand.remove().await;
}
