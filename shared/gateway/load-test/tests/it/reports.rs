//! Tests of stored reports, and of the deletion of load tests.

use load_test::store::TestRecord;
use load_test::{EndFacts, Facts, Report, Sum, TestStatus, Usage};
use uuid::Uuid;

use crate::support::{TENANT, TestTable, now, run, step, tally};

fn report(record: &TestRecord) -> Report {
    let test_id = record.test_id.to_string();
    let target = record.target.to_string();
    let facts = Facts {
        test_id: &test_id,
        status: TestStatus::Completed,
        failure: None,
        target: &target,
        started_at: record.created_at,
        test: &record.test,
        end: EndFacts::default(),
        complete: true,
        search: None,
        usage: Usage::default(),
    };
    let mut sum = Sum::default();
    sum.add(&tally(step("p0a", 0, 0), 100));
    Report::of(&facts, &sum)
}

#[tokio::test]
async fn a_report_comes_back_as_it_was_stored() {
    let table = TestTable::make().await;
    let record = table.created().await;
    assert_eq!(table.store.report(TENANT, record.test_id).await.unwrap(), None);
    let report = report(&record);
    for _ in 0..2 {
        table.store.store_report(TENANT, record.test_id, &report).await.unwrap();
    }
    assert_eq!(table.store.report(TENANT, record.test_id).await.unwrap(), Some(report));
    assert_eq!(table.store.report("another", record.test_id).await.unwrap(), None);
    assert_eq!(table.objects().await, [format!("tests/{TENANT}/{}/report.json", record.test_id)]);
    table.remove().await;
}

#[tokio::test]
async fn a_deletion_leaves_nothing_of_the_test_and_all_of_the_others() {
    let table = TestTable::make().await;
    let record = table.created().await;
    let test_id = record.test_id;
    table.store.begin_run(&run(test_id, 0), None, now()).await.unwrap();
    // More steps of a worker than one request deletes.
    for window in 0..30 {
        table.store.claim(test_id, 0, step("p0a", window, 0)).await.unwrap();
    }
    for lane in ["p1a", "p2a", "c0a", "c1a"] {
        table.store.claim(test_id, 0, step(lane, 0, 0)).await.unwrap();
    }
    table.store.store_report(TENANT, test_id, &report(&record)).await.unwrap();
    let seen = table.get(test_id).await.control();
    table.store.end(TENANT, test_id, seen, now(), "", None).await.unwrap();
    let other = table.created().await;
    table.store.claim(other.test_id, 0, step("p0a", 0, 0)).await.unwrap();
    table.store.store_report(TENANT, other.test_id, &report(&other)).await.unwrap();
    for _ in 0..2 {
        table.store.delete(TENANT, test_id).await.unwrap();
        assert_eq!(table.store.get(TENANT, test_id).await.unwrap(), None);
        // The other test, its definition, its step, and the count of the tenant.
        assert_eq!(table.items().await.len(), 4);
    }
    assert_eq!(table.get(other.test_id).await, other);
    assert_eq!(table.objects().await, [format!("tests/{TENANT}/{}/report.json", other.test_id)]);
    table.store.delete(TENANT, Uuid::now_v7()).await.unwrap();
    table.remove().await;
}
