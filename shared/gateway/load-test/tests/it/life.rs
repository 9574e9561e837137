//! Tests of the writes to a stored load test from its creation to its end.

use attempt::{Retry, Retryable as _};
use aws_sdk_dynamodb::types::AttributeValue;
use load_test::TestStatus;
use load_test::store::{Control, Failure, RETENTION, Run, RunEnd, TestRecord, TestStoreError};
use uuid::Uuid;

use crate::support::{TENANT, TestTable, later, now, record, run};

impl TestTable {
    async fn begun(&self) -> TestRecord {
        let record = self.created().await;
        self.store.begin_run(&run(record.test_id, 0), None, later(10)).await.unwrap();
        record
    }

    /// Ends a load test by storing the final state that follows from its present state, and whether
    /// the test has `passed`. Returns the final state.
    async fn end(&self, test_id: Uuid, passed: Option<bool>) -> TestStatus {
        let seen = self.get(test_id).await.control();
        self.store.end(TENANT, test_id, seen, now(), "A summary.", passed).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn a_test_that_is_created_twice_keeps_its_first_content() {
    let table = TestTable::make().await;
    let first = table.created().await;
    let second = TestRecord { trace_id: "trace-2".to_owned(), ..first.clone() };
    table.create(&second).await;
    assert_eq!(table.get(first.test_id).await, first);
    // The test, its definition, and the count of its tenant.
    assert_eq!(table.items().await.len(), 3);
    assert_eq!(table.store.get("another", first.test_id).await.unwrap(), None);
    table.remove().await;
}

#[tokio::test]
async fn a_creation_that_is_repeated_later_does_not_set_the_test_back() {
    let table = TestTable::make().await;
    let record = table.begun().await;
    table.create(&record).await;
    assert_eq!(table.get(record.test_id).await.status, TestStatus::Running);
    table.remove().await;
}

#[tokio::test]
async fn the_first_start_of_a_run_stays() {
    let table = TestTable::make().await;
    let test_id = table.created().await.test_id;
    let begin = async |number, rate: i64, at| {
        let rate = Some(rate.try_into().unwrap());
        table.store.begin_run(&run(test_id, number), rate, at).await.unwrap()
    };
    let (start, next) = (later(10), later(80));
    let first = begin(0, 100, start).await;
    assert_eq!(
        first,
        Run {
            rate_per_sec: Some(100.try_into().unwrap()),
            started_at: start,
            ended_at: None,
            passed: None,
            retained: None
        }
    );
    assert_eq!(begin(0, 999, later(20)).await, first);
    let second = begin(1, 200, next).await;
    assert_eq!(second.started_at, next);
    let stored = table.get(test_id).await;
    assert_eq!((stored.status, stored.runs), (TestStatus::Running, vec![first, second]));
    table.remove().await;
}

#[tokio::test]
async fn the_first_end_of_a_run_stays_and_one_that_never_began_stays_so() {
    let table = TestTable::make().await;
    // A run that nobody judges ends too.
    for passed in [Some(true), None] {
        let test_id = table.begun().await.test_id;
        let end = RunEnd { passed, retained: None, ended_at: now() };
        table.store.end_run(&run(test_id, 0), end).await.unwrap();
        let other = RunEnd { passed: Some(false), retained: Some(0), ended_at: later(5) };
        for number in [0, 1] {
            table.store.end_run(&run(test_id, number), other).await.unwrap();
        }
        let runs = table.get(test_id).await.runs;
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].passed, runs[0].retained), (passed, None));
        assert_eq!(runs[0].ended_at, Some(end.ended_at));
    }
    table.remove().await;
}

#[tokio::test]
async fn a_stop_is_noted_once_and_the_test_is_stopping_from_then_on() {
    let table = TestTable::make().await;
    let test_id = table.created().await.test_id;
    let first = now();
    let stopped = table.store.request_stop(TENANT, test_id, first).await.unwrap().unwrap();
    assert_eq!((stopped.status, stopped.stop_requested_at), (TestStatus::Stopping, Some(first)));
    let again = table.store.request_stop(TENANT, test_id, later(3)).await.unwrap().unwrap();
    assert_eq!(again, stopped);
    // The stop came while the workers got ready.
    table.store.begin_run(&run(test_id, 0), None, later(10)).await.unwrap();
    let control = table.store.control(TENANT, test_id).await.unwrap().unwrap();
    assert_eq!(
        control,
        Control { status: TestStatus::Stopping, stop_requested_at: Some(first), failed: false }
    );
    assert_eq!(table.end(test_id, None).await, TestStatus::Stopped);
    table.remove().await;
}

#[tokio::test]
async fn a_test_that_was_stopped_has_not_passed_or_failed() {
    let table = TestTable::make().await;
    let test_id = table.begun().await.test_id;
    table.store.request_stop(TENANT, test_id, now()).await.unwrap();
    assert_eq!(table.end(test_id, Some(true)).await, TestStatus::Stopped);
    assert_eq!(table.get(test_id).await.passed, None);
    let failed = table.begun().await.test_id;
    table.store.request_stop(TENANT, failed, now()).await.unwrap();
    table.store.fail(TENANT, failed, now(), "broken").await.unwrap();
    assert_eq!(table.end(failed, Some(false)).await, TestStatus::Failed);
    assert_eq!(table.get(failed).await.passed, Some(false));
    table.remove().await;
}

#[tokio::test]
async fn a_stop_after_the_end_changes_nothing() {
    let table = TestTable::make().await;
    let test_id = table.begun().await.test_id;
    assert_eq!(table.end(test_id, Some(true)).await, TestStatus::Completed);
    let ended = table.get(test_id).await;
    assert_eq!(table.store.request_stop(TENANT, test_id, later(9)).await.unwrap(), Some(ended.clone()));
    assert_eq!(table.get(test_id).await, ended);
    table.remove().await;
}

#[tokio::test]
async fn the_first_failure_stays_and_a_final_test_has_none_later() {
    let table = TestTable::make().await;
    let test_id = table.begun().await.test_id;
    let at = now();
    table.store.fail(TENANT, test_id, at, &"x".repeat(5_000)).await.unwrap();
    table.store.fail(TENANT, test_id, later(1), "another").await.unwrap();
    let failure = Some(Failure { at, detail: "x".repeat(1_000) });
    assert_eq!(table.get(test_id).await.failure, failure);
    assert!(table.store.control(TENANT, test_id).await.unwrap().unwrap().failed);
    assert_eq!(table.end(test_id, Some(false)).await, TestStatus::Failed);
    let calm = table.begun().await.test_id;
    table.end(calm, None).await;
    table.store.fail(TENANT, calm, now(), "too late").await.unwrap();
    assert_eq!(table.get(calm).await.failure, None);
    table.remove().await;
}

#[tokio::test]
async fn a_final_state_stays_with_what_was_stored_with_it() {
    let table = TestTable::make().await;
    let test_id = table.begun().await.test_id;
    let ended_at = now();
    let end = async |seen: Control, summary: &str, passed| {
        table.store.end(TENANT, test_id, seen, ended_at, summary, passed).await.unwrap()
    };
    let running = table.get(test_id).await.control();
    assert_eq!(end(running, "First.", Some(true)).await, Some(TestStatus::Completed));
    let completed = table.get(test_id).await.control();
    assert_eq!(end(running, "First.", Some(true)).await, Some(TestStatus::Completed), "repeated");
    assert_eq!(end(running, "Second.", Some(false)).await, None, "the report is not the test's");
    assert_eq!(end(completed, "Second.", Some(false)).await, Some(TestStatus::Completed));
    for other in [
        Control { failed: true, ..running },
        Control { status: TestStatus::Stopping, stop_requested_at: Some(ended_at), ..running },
    ] {
        assert_eq!(end(other, "Third.", None).await, None, "{other:?}");
    }
    let error = table.store.begin_run(&run(test_id, 1), None, now()).await.unwrap_err();
    assert!(matches!(error, TestStoreError::Illegal(_)), "{error}");
    assert_eq!(error.retry(), Retry::Never);
    let stored = table.get(test_id).await;
    assert_eq!(
        (stored.status, stored.summary.as_deref(), stored.passed, stored.ended_at, stored.runs.len()),
        (TestStatus::Completed, Some("First."), Some(true), Some(ended_at), 1)
    );
    table.remove().await;
}

/// Checks that a report made before a failure or a stop does not end the test.
#[tokio::test]
async fn a_test_does_not_end_as_it_was_seen_before_a_failure_or_a_stop() {
    let table = TestTable::make().await;
    for (stops, fails, status) in [
        (false, true, TestStatus::Failed),
        (true, false, TestStatus::Stopped),
        (true, true, TestStatus::Failed),
    ] {
        let test_id = table.begun().await.test_id;
        let mut seen = vec![table.get(test_id).await.control()];
        if stops {
            table.store.request_stop(TENANT, test_id, now()).await.unwrap();
            seen.push(table.get(test_id).await.control());
        }
        if fails {
            table.store.fail(TENANT, test_id, now(), "broken").await.unwrap();
            seen.push(table.get(test_id).await.control());
        }
        let present = seen.pop().unwrap();
        for earlier in seen {
            let ended = table.store.end(TENANT, test_id, earlier, now(), "", Some(true)).await.unwrap();
            assert_eq!((ended, table.get(test_id).await.control()), (None, present));
        }
        assert_eq!(table.end(test_id, Some(false)).await, status);
    }
    table.remove().await;
}

#[tokio::test]
async fn a_test_that_has_not_begun_ends_only_as_failed() {
    let table = TestTable::make().await;
    let test_id = table.created().await.test_id;
    let pending = table.get(test_id).await.control();
    let error = table.store.end(TENANT, test_id, pending, now(), "", None).await.unwrap_err();
    assert!(matches!(error, TestStoreError::Illegal(_)), "{error}");
    table.store.fail(TENANT, test_id, now(), "broken").await.unwrap();
    assert_eq!(table.end(test_id, None).await, TestStatus::Failed);
    table.remove().await;
}

#[tokio::test]
async fn events_of_a_test_that_is_not_there_make_none() {
    let table = TestTable::make().await;
    let test_id = record().test_id;
    let end = RunEnd { passed: Some(true), retained: Some(0), ended_at: now() };
    let errors = [
        table.store.begin_run(&run(test_id, 0), None, now()).await.unwrap_err(),
        table.store.fail(TENANT, test_id, now(), "broken").await.unwrap_err(),
        table.store.end_run(&run(test_id, 0), end).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, TestStoreError::Unknown(unknown) if unknown == test_id), "{error}");
    }
    assert_eq!(table.store.request_stop(TENANT, test_id, now()).await.unwrap(), None);
    let seen = Control { failed: true, ..record().control() };
    assert_eq!(table.store.end(TENANT, test_id, seen, now(), "", None).await.unwrap(), None);
    assert_eq!(table.store.control(TENANT, test_id).await.unwrap(), None);
    assert_eq!(table.items().await.len(), 0);
    table.remove().await;
}

#[tokio::test]
async fn a_table_that_is_not_there_is_no_outage() {
    let table = TestTable::make().await;
    let (store, record) = (table.store.clone(), record());
    table.remove().await;
    let test_id = record.test_id;
    let errors = [
        store.create(&record, u32::MAX).await.unwrap_err(),
        store.get(TENANT, test_id).await.unwrap_err(),
        store.fail(TENANT, test_id, now(), "broken").await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.retry(), Retry::AfterRepair, "{error}");
    }
}

#[tokio::test]
async fn a_test_is_kept_for_its_retention_from_its_end_on() {
    let table = TestTable::make().await;
    let test_id = table.begun().await.test_id;
    let expiries = async || {
        let items = table.items().await.into_iter();
        let expiry = items.map(|item| item["expiresAt"].as_n().unwrap().parse::<i64>().unwrap());
        expiry.collect::<Vec<_>>()
    };
    let retention = i64::try_from(RETENTION.as_secs()).unwrap();
    let week = 7 * 86_400;
    assert!(expiries().await.iter().all(|expiry| *expiry > now().as_second() + retention + week));
    table.end(test_id, None).await;
    let soonest = expiries().await.into_iter().min().unwrap();
    assert!((soonest - now().as_second() - retention).abs() < 60, "{soonest}");
    // TTL takes its time, so an expired test is left out.
    table.set(test_id, "expiresAt", AttributeValue::N(now().as_second().to_string())).await;
    assert_eq!(table.store.get(TENANT, test_id).await.unwrap(), None);
    assert_eq!(table.store.list(TENANT, 10, None).await.unwrap(), []);
    table.remove().await;
}
