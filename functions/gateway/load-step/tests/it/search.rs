//! Tests of searches, whose probes (runs at one rate) use the same queues one after the other.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use load_test::store::TestRun;
use load_test::{SearchEnd, TestStatus};
use mq::RateLimit;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::Stand;

fn rate(rate: i64) -> Option<RateLimit> {
    Some(RateLimit::try_from(rate).unwrap())
}

impl Stand {
    async fn begin_probe(&self, of: &TestRun, per_second: i64) {
        let start = Timestamp::now() + SignedDuration::from_millis(300);
        self.store.begin_run(of, rate(per_second), start).await.unwrap();
    }
}

#[tokio::test]
async fn a_search_goes_from_probe_to_probe_to_its_report() {
    let stand = Stand::open().await;
    let mut of = stand
        .accepted(json!({
            "mode": "search", "producers": {"ratePerSec": 2}, "durationSeconds": 1,
            "expect": {"throughputPerSec": 1_000_000},
        }))
        .await;
    for (run, per_second) in [(0, 2), (1, 1)] {
        stand.begin_probe(&of, per_second).await;
        assert_eq!(stand.step(&of, "p0a", 0).await.window, None);
        // Its last worker leaves the end to the state machine.
        assert_eq!(stand.record(&of).await.status, TestStatus::Running);
        let closed = stand.close(&of).await;
        assert_eq!((closed.more, closed.of.run), (run == 0, 1), "probe {run}");
        assert_eq!(stand.close(&of).await, closed, "probe {run}");
        if closed.more {
            of = closed.of;
        }
    }
    let (record, report) = (stand.record(&of).await, stand.report(&of).await.unwrap());
    assert_eq!((record.status, record.passed), (TestStatus::Completed, Some(false)));
    let search = report.search.unwrap();
    assert_eq!((search.finding.rate_per_sec, search.finding.end), (None, SearchEnd::LowestRate));
    let probes: Vec<_> = search.probes.iter().map(|probe| (probe.rate_per_sec.get(), probe.passed)).collect();
    assert_eq!(probes, [(2, false), (1, false)]);
    stand.remove().await;
}

#[tokio::test]
async fn a_search_whose_execution_is_gone_has_no_further_probe() {
    let stand = Stand::open().await;
    let of = stand
        .accepted(json!({
            "mode": "search", "producers": {"ratePerSec": 2}, "durationSeconds": 1,
            "expect": {"throughputPerSec": 1_000_000},
        }))
        .await;
    stand.begin_probe(&of, 2).await;
    stand.step(&of, "p0a", 0).await;
    assert!(!stand.close_alone(&of).await.more);
    let report = stand.closed_as(&of, TestStatus::Failed).await;
    assert_eq!(report.failure.as_deref(), Some("the execution ended before the test"));
    // The probe was at its end, and was judged.
    let record = stand.record(&of).await;
    assert_eq!((record.runs.len(), record.runs[0].passed), (1, Some(false)));
    stand.remove().await;
}

#[tokio::test]
async fn the_last_worker_of_a_search_that_is_stopped_closes_it() {
    let stand = Stand::open().await;
    let of = stand
        .accepted(json!({"mode": "search", "producers": {"ratePerSec": 20}, "durationSeconds": 60}))
        .await;
    stand.begin_probe(&of, 20).await;
    let stop = async {
        sleep(Duration::from_secs(2)).await;
        stand.stop(&of).await;
    };
    tokio::join!(stand.step(&of, "p0a", 0), stop);
    assert_eq!(stand.record(&of).await.status, TestStatus::Stopped);
    // The state machine, whose other lanes sleep, finds it closed.
    let report = stand.closed_as(&of, TestStatus::Stopped).await;
    assert!(report.search.is_none() && report.accounting.sent > 0, "{report:?}");
    stand.remove().await;
}

#[tokio::test]
async fn a_message_that_a_probe_left_is_none_of_the_next_one() {
    let stand = Stand::open().await;
    let mut of = stand
        .accepted(json!({
            "mode": "search", "producers": {"ratePerSec": 30}, "consumers": {}, "durationSeconds": 2,
            "expect": {"throughputPerSec": 1_000_000},
        }))
        .await;
    stand.begin_probe(&of, 30).await;
    stand.step(&of, "p0a", 0).await;
    assert_eq!(stand.ready(60).await, 60);
    assert!(stand.close(&of).await.more);
    of.run = 1;
    stand.begin_probe(&of, 15).await;
    tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "c0a", 0));
    stand.stop(&of).await;
    let report = stand.closed_as(&of, TestStatus::Stopped).await;
    let accounting = &report.accounting;
    assert_eq!(
        (accounting.due, accounting.received, accounting.foreign_taken),
        (30, 30, 60),
        "{accounting:?}"
    );
    stand.remove().await;
}

#[tokio::test]
async fn what_a_probe_left_is_taken_away_before_the_next_one() {
    let stand = Stand::open().await;
    for (foreign, of_others) in [(Value::Null, 0), (json!("take"), 2)] {
        let mut of = stand
            .accepted(json!({
                "mode": "search", "producers": {"ratePerSec": 30}, "consumers": {}, "durationSeconds": 2,
                "expect": {"throughputPerSec": 1_000_000}, "foreign": foreign,
            }))
            .await;
        stand.begin_probe(&of, 30).await;
        stand.step(&of, "p0a", 0).await;
        assert!(stand.close(&of).await.more);
        of.run = 1;
        assert_eq!(stand.ready(60).await, 60);
        for _ in 0..of_others {
            stand.publish().await;
        }
        assert_eq!(stand.ready(60 + of_others).await, 60 + of_others);
        let lanes = stand.prepare(&of).await;
        assert_eq!(lanes.lanes.len(), 3, "{lanes:?}");
        assert_eq!(stand.record(&of).await.runs[1].rate_per_sec, rate(15));
        assert_eq!(stand.ready(0).await, 0, "{foreign}");
    }
    stand.remove().await;
}
