//! Tests of runs that are stopped, or that cannot continue.

use std::time::{Duration, Instant};

use load_test::TestStatus;
use serde_json::{Value, json};
use test_support::proxy::Proxy;
use tokio::time::sleep;

use crate::gate::Gate;
use crate::support::{Stand, test, uri};

/// Time limit for an invocation to end after its load test was stopped, on a busy machine. An
/// invocation reads the stop within a second, and takes up to a second to end in order.
const SOON: Duration = Duration::from_secs(4);

/// Runs these lanes (series of invocations of a worker) in their first minute, and stops the load
/// test after the time `after`. Returns the time for which the lanes continued after the stop.
async fn stopped(stand: &Stand, of: &load_test::store::TestRun, lanes: &[&str], after: Duration) -> Duration {
    let stop = async {
        sleep(after).await;
        stand.stop(of).await;
        Instant::now()
    };
    let steps = async {
        match lanes {
            [one] => {
                stand.step(of, one, 0).await;
            }
            [one, other] => {
                tokio::join!(stand.step(of, one, 0), stand.step(of, other, 0));
            }
            _ => panic!("one lane or two"),
        }
        Instant::now()
    };
    let (at, ended) = tokio::join!(stop, steps);
    ended.saturating_duration_since(at)
}

async fn holds(stand: &Stand, lanes: &[&str], body: Value) {
    let (of, _) = stand.begun(body, 500).await;
    let went_on = stopped(stand, &of, lanes, Duration::from_secs(3)).await;
    assert!(went_on < SOON, "{went_on:?}");
    let report = stand.closed_as(&of, TestStatus::Stopped).await;
    assert_eq!(stand.record(&of).await.passed, None);
    assert!(report.accounting.sent > 0 && report.duration_seconds < 5.0, "{report:?}");
}

#[tokio::test]
async fn a_stop_takes_effect_at_once_whatever_a_worker_does() {
    let stand = Stand::open().await;
    // The producer waits for a message that is due in half a minute, the consumer for one to come.
    let body = json!({
        "producers": {}, "stages": [{"ratePerSec": 10, "seconds": 1}, {"ratePerSec": 0, "seconds": 30},
            {"ratePerSec": 1, "seconds": 60}],
        "consumers": {},
    });
    Box::pin(holds(&stand, &["p0a", "c0a"], body)).await;
    // The consumer works on a message for a minute.
    let body = json!({
        "producers": {"ratePerSec": 20}, "consumers": {"delayMs": 60_000}, "durationSeconds": 600
    });
    Box::pin(holds(&stand, &["p0a", "c0a"], body)).await;
    stand.remove().await;
}

#[tokio::test]
async fn a_test_that_is_stopped_before_its_start_puts_nothing() {
    let stand = Stand::open().await;
    for producers in [json!({"ratePerSec": 100}), json!({})] {
        let of = stand.accepted(json!({"producers": producers, "durationSeconds": 60})).await;
        stand.begin(&of, 10_000).await;
        let went_on = stopped(&stand, &of, &["p0a"], Duration::from_secs(1)).await;
        assert!(went_on < SOON, "{went_on:?}");
        let report = stand.closed_as(&of, TestStatus::Stopped).await;
        assert_eq!((report.accounting.sent, stand.ready(0).await), (0, 0), "{report:?}");
    }
    stand.remove().await;
}

#[tokio::test]
async fn a_test_that_was_stopped_before_its_start_is_closed_at_once_and_its_lanes_find_it_final() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"ratePerSec": 100}, "consumers": {}, "durationSeconds": 60});
    let pending = stand.accepted(body.clone()).await;
    let (begun, _) = stand.begun(body, 10_000).await;
    for of in [pending, begun] {
        stand.stop(&of).await;
        assert!(!stand.close_alone(&of).await.more);
        let ended = stand.record(&of).await;
        assert_eq!((ended.status, ended.passed), (TestStatus::Stopped, None));
        assert_eq!(stand.prepare(&of).await.lanes, []);
        assert_eq!(stand.step(&of, "p0a", 0).await.window, None);
        let report = stand.closed_as(&of, TestStatus::Stopped).await;
        assert_eq!((report.accounting.due, report.accounting.sent), (0, 0), "{report:?}");
        assert_eq!(stand.record(&of).await, ended);
    }
    stand.remove().await;
}

#[tokio::test]
async fn a_stop_takes_effect_while_the_broker_does_not_answer() {
    let stand = Stand::open().await;
    let broker = uri().authority;
    let proxy = Proxy::start((broker.host, broker.port)).await;
    let body = json!({"producers": {"confirmsInFlight": 10, "messageSizeBytes": 10}, "durationSeconds": 600});
    let of = stand.accepted_at(stand.target(Some(proxy.port)), body).await;
    stand.begin(&of, 500).await;
    let freeze = async {
        sleep(Duration::from_secs(2)).await;
        proxy.freeze();
    };
    let (went_on, ()) = tokio::join!(stopped(&stand, &of, &["p0a"], Duration::from_secs(4)), freeze);
    assert!(went_on < SOON, "{went_on:?}");
    let report = stand.closed_as(&of, TestStatus::Stopped).await;
    // What was on its way has no answer.
    let accounting = &report.accounting;
    assert!((1..=10).contains(&accounting.in_doubt), "{accounting:?}");
    assert_eq!(accounting.sent, accounting.confirmed + accounting.in_doubt, "{accounting:?}");
    stand.remove().await;
}

#[tokio::test]
async fn a_failure_elsewhere_ends_a_worker_as_a_stop_does() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"count": 2, "ratePerSec": 20}, "durationSeconds": 600});
    let (of, _) = stand.begun(body, 500).await;
    let fail = async {
        sleep(Duration::from_secs(3)).await;
        let now = jiff::Timestamp::now();
        stand.store.fail(&of.tenant, of.test_id, now, "the broker is gone").await.unwrap();
        Instant::now()
    };
    let steps = async {
        tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "p1a", 0));
        Instant::now()
    };
    let (at, ended) = tokio::join!(fail, steps);
    assert!(ended.saturating_duration_since(at) < SOON);
    // The last of them has closed the test.
    assert_eq!(stand.record(&of).await.status, TestStatus::Failed);
    let report = stand.closed_as(&of, TestStatus::Failed).await;
    assert_eq!(report.failure.as_deref(), Some("the broker is gone"));
    assert_eq!(report.accounting.not_sent, 0, "{:?}", report.accounting);
    stand.remove().await;
}

#[tokio::test]
async fn a_target_that_is_gone_fails_the_test_with_what_was_done_until_then() {
    let stand = Stand::open().await;
    let broker = uri().authority;
    let gate = Gate::open(broker.host, broker.port).await;
    let body = json!({"producers": {"ratePerSec": 50}, "consumers": {}, "durationSeconds": 600});
    let of = stand.accepted_at(stand.target(Some(gate.port)), body).await;
    stand.begin(&of, 500).await;
    let shut = async {
        sleep(Duration::from_secs(4)).await;
        gate.shut();
    };
    let begin = Instant::now();
    tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "c0a", 0), shut);
    let took = begin.elapsed();
    assert!((Duration::from_secs(13)..Duration::from_secs(40)).contains(&took), "{took:?}");
    let report = stand.closed_as(&of, TestStatus::Failed).await;
    let reason = report.failure.as_deref().unwrap();
    assert!(reason.contains("did not work for 10 s") && reason.contains("127.0.0.1"), "{reason}");
    assert!(report.accounting.received > 50, "{:?}", report.accounting);
    assert_eq!(stand.record(&of).await.passed, Some(false));
    stand.remove().await;
}

#[tokio::test]
async fn a_queue_that_is_deleted_ends_the_test_with_its_name() {
    for consumers in [json!({}), Value::Null] {
        let stand = Stand::open().await;
        let producers = json!({"ratePerSec": 50});
        let body = json!({"producers": producers, "consumers": consumers, "durationSeconds": 600});
        let (of, _) = stand.begun(body, 500).await;
        let delete = async {
            sleep(Duration::from_secs(3)).await;
            stand.delete_queue().await;
            Instant::now()
        };
        let steps = async {
            if consumers.is_null() {
                stand.step(&of, "p0a", 0).await;
            } else {
                tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "c0a", 0));
            }
            Instant::now()
        };
        let (at, ended) = tokio::join!(delete, steps);
        assert!(ended.saturating_duration_since(at) < SOON + Duration::from_secs(2));
        let report = stand.closed_as(&of, TestStatus::Failed).await;
        let reason = report.failure.as_deref().unwrap();
        assert_eq!(reason, format!("the queue `{}` does not exist", stand.name));
        stand.remove().await;
    }
}

#[tokio::test]
async fn a_broker_that_is_away_for_a_moment_fails_nothing() {
    let stand = Stand::open().await;
    let broker = uri().authority;
    let proxy = Proxy::start((broker.host, broker.port)).await;
    let body = json!({"producers": {"ratePerSec": 50}, "consumers": {}, "durationSeconds": 6});
    let of = stand.accepted_at(stand.target(Some(proxy.port)), body).await;
    stand.begin(&of, 500).await;
    let cut = async {
        sleep(Duration::from_secs(3)).await;
        proxy.cut().await;
    };
    tokio::join!(stand.step(&of, "p0a", 0), stand.step(&of, "c0a", 0), cut);
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    let accounting = &report.accounting;
    assert_eq!((accounting.due, accounting.not_sent), (300, 0), "{accounting:?}");
    assert_eq!(accounting.received + accounting.in_doubt, 300, "{accounting:?}");
    stand.remove().await;
}

#[tokio::test]
async fn queues_that_hold_too_much_fail_the_test() {
    let stand = Stand::open().await;
    let mut test = test(json!({"producers": {"ratePerSec": 200}, "durationSeconds": 60}));
    test.limits.retained = 300;
    let of = stand.accepted_as(stand.target(None), test).await;
    stand.begin(&of, 500).await;
    stand.step(&of, "p0a", 0).await;
    let report = stand.closed_as(&of, TestStatus::Failed).await;
    let reason = report.failure.as_deref().unwrap();
    assert!(reason.contains("those of a test may hold 300"), "{reason}");
    let sent = report.accounting.sent;
    assert!((300..2_000).contains(&sent), "{sent}");
    stand.remove().await;
}
