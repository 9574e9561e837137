//! Tests of the lists of a tenant's load tests.

use aws_sdk_dynamodb::types::AttributeValue;
use load_test::TestStatus;
use load_test::store::TestRecord;
use mq::{Base64Bytes, Payload};
use uuid::Uuid;

use crate::support::{TENANT, TestTable, now, record, run};

fn ids(records: &[TestRecord]) -> Vec<Uuid> {
    records.iter().map(|record| record.test_id).collect()
}

#[tokio::test]
async fn tests_are_listed_from_the_newest_in_pages() {
    let table = TestTable::make().await;
    let mut created = Vec::new();
    for _ in 0..5 {
        created.push(table.created().await);
    }
    let stranger = TestRecord { tenant: "tenant-10".to_owned(), ..record() };
    table.create(&stranger).await;
    created.reverse();
    assert_eq!(table.store.list(TENANT, 10, None).await.unwrap(), created);
    let mut walked = Vec::new();
    loop {
        let before = walked.last().copied();
        let page = table.store.list(TENANT, 2, before).await.unwrap();
        walked.extend(ids(&page));
        if page.len() < 2 {
            break;
        }
    }
    assert_eq!(walked, ids(&created));
    assert_eq!(table.store.list(TENANT, 10, Some(Uuid::nil())).await.unwrap(), []);
    assert_eq!(ids(&table.store.list("tenant-10", 10, None).await.unwrap()), [stranger.test_id]);
    table.remove().await;
}

#[tokio::test]
async fn a_list_goes_on_past_expired_and_malformed_tests() {
    let table = TestTable::make().await;
    let mut created = Vec::new();
    for _ in 0..6 {
        created.push(table.created().await.test_id);
    }
    table.set(created[5], "expiresAt", AttributeValue::N("1".to_owned())).await;
    table.set(created[4], "status", AttributeValue::S("SOMEHOW".to_owned())).await;
    table.set(created[2], "runs", AttributeValue::N("1".to_owned())).await;
    let listed = table.store.list(TENANT, 3, None).await.unwrap();
    assert_eq!(ids(&listed), [created[3], created[1], created[0]]);
    table.remove().await;
}

/// Checks a list of more tests than DynamoDB reads in one request.
#[tokio::test]
async fn a_long_list_is_read_to_its_end() {
    let table = TestTable::make().await;
    let mut created = Vec::new();
    for _ in 0..5 {
        let record = table.created().await;
        table.set(record.test_id, "summary", AttributeValue::S("x".repeat(300_000))).await;
        created.push(record.test_id);
    }
    created.reverse();
    assert_eq!(ids(&table.store.list(TENANT, 100, None).await.unwrap()), created);
    assert_eq!(ids(&table.store.unfinished(TENANT).await.unwrap()), created);
    table.remove().await;
}

#[tokio::test]
async fn only_tests_that_are_not_final_are_unfinished() {
    let table = TestTable::make().await;
    let [pending, running, stopping, over] =
        [table.created().await, table.created().await, table.created().await, table.created().await]
            .map(|record| record.test_id);
    for test_id in [running, stopping, over] {
        table.store.begin_run(&run(test_id, 0), None, now()).await.unwrap();
    }
    table.store.request_stop(TENANT, stopping, now()).await.unwrap();
    let seen = table.get(over).await.control();
    table.store.end(TENANT, over, seen, now(), "", None).await.unwrap();
    let unfinished = table.store.unfinished(TENANT).await.unwrap();
    assert_eq!(ids(&unfinished), [stopping, running, pending]);
    let states = unfinished.iter().map(|record| record.status).collect::<Vec<_>>();
    assert_eq!(states, [TestStatus::Stopping, TestStatus::Running, TestStatus::Pending]);
    assert_eq!(table.store.unfinished("another").await.unwrap(), []);
    table.remove().await;
}

#[tokio::test]
async fn a_definition_with_a_body_of_its_own_comes_back_as_it_was_sent() {
    let table = TestTable::make().await;
    let mut record = record();
    let producers = record.test.producers.as_mut().unwrap();
    producers.payload = Payload::Fixed { body: Base64Bytes(vec![7; 60_000]) };
    table.create(&record).await;
    assert_eq!(table.get(record.test_id).await, record);
    assert_eq!(table.store.list(TENANT, 1, None).await.unwrap(), [record]);
    table.remove().await;
}
