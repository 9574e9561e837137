//! Tests of the closing of a run, which ends the load test.

use std::time::Duration;

use load_test::store::TestRun;
use load_test::{Report, TestStatus};
use serde_json::json;
use usage::EndedTests;
use uuid::Uuid;

use crate::support::{Stand, TENANT};

#[tokio::test]
async fn a_test_is_closed_once() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"ratePerSec": 50}, "durationSeconds": 2});
    let (of, _) = stand.begun(body, 200).await;
    stand.step(&of, "p0a", 0).await;
    let first = stand.record(&of).await;
    assert!(first.status == TestStatus::Completed && first.passed.is_some(), "{first:?}");
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    assert_eq!(report.accounting.retained, 100);
    // A second report would be there again.
    let key = format!("tests/{TENANT}/{}/report.json", of.test_id);
    stand.table.s3.delete_object().bucket(&stand.name).key(key).send().await.unwrap();
    assert!(!stand.close(&of).await.more);
    assert_eq!(stand.report(&of).await, None);
    assert_eq!(stand.record(&of).await, first);
    let counted = EndedTests { completed: 1, ..EndedTests::default() };
    assert_eq!(stand.counted(&of).await, counted, "three times closed, and counted once");
    stand.remove().await;
}

#[tokio::test]
async fn a_test_of_which_nothing_began_has_failed() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"ratePerSec": 50}, "consumers": {}, "durationSeconds": 5});
    let pending = stand.accepted(body.clone()).await;
    let (begun, _) = stand.begun(body, -10_000).await;
    for of in [pending, begun] {
        let report = stand.closed_as(&of, TestStatus::Failed).await;
        assert_eq!(report.failure.as_deref(), Some("none of its workers began to work"));
        assert_eq!(report.accounting.sent, 0);
    }
    stand.remove().await;
}

#[tokio::test]
async fn a_test_whose_execution_is_gone_has_failed_unless_it_was_stopped() {
    let stand = Stand::open().await;
    let body = json!({"producers": {"ratePerSec": 50}, "durationSeconds": 600});
    for (is_stopped, status) in [(false, TestStatus::Failed), (true, TestStatus::Stopped)] {
        let (of, _) = stand.begun(body.clone(), 200).await;
        let lost = tokio::time::timeout(Duration::from_secs(3), stand.step(&of, "p0a", 0));
        assert!(lost.await.is_err());
        if is_stopped {
            stand.stop(&of).await;
        }
        assert!(!stand.close_alone(&of).await.more);
        let report = stand.closed_as(&of, status).await;
        let expected = (!is_stopped).then_some("the execution ended before the test");
        assert_eq!(report.failure.as_deref(), expected);
        assert_eq!(stand.record(&of).await.passed, expected.map(|_| false));
        let counted = EndedTests { failed: 1, stopped: u64::from(is_stopped), ..EndedTests::default() };
        assert_eq!(stand.counted(&of).await, counted);
    }
    stand.remove().await;
}

#[tokio::test]
async fn a_test_gets_its_report_again_if_another_one_was_stored_after_it() {
    let stand = Stand::open().await;
    let (of, _) = stand.begun(json!({"producers": {"ratePerSec": 50}, "durationSeconds": 1}), 200).await;
    stand.step(&of, "p0a", 0).await;
    let report = stand.closed_as(&of, TestStatus::Completed).await;
    let ended = stand.record(&of).await;
    let stopped = Report { status: TestStatus::Stopped, ..report.clone() };
    let failed = Report { failure: Some("no queue".to_owned()), summary: "No queue.".to_owned(), ..stopped };
    for other in [Report { status: TestStatus::Completed, ..failed.clone() }, failed] {
        stand.store.store_report(TENANT, of.test_id, &other).await.unwrap();
        assert_eq!(stand.closed_as(&of, TestStatus::Completed).await, report);
        assert_eq!(stand.record(&of).await, ended);
    }
    stand.remove().await;
}

#[tokio::test]
async fn a_test_that_is_gone_needs_no_end() {
    let stand = Stand::open().await;
    let of = TestRun { tenant: TENANT.to_owned(), test_id: Uuid::now_v7(), run: 0 };
    assert_eq!(stand.prepare(&of).await.lanes, []);
    assert_eq!(stand.step(&of, "p0a", 0).await.window, None);
    assert!(!stand.close(&of).await.more);
    stand.remove().await;
}
