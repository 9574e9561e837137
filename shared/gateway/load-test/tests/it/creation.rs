//! Tests of the creation of load tests, within the workers that a tenant's unfinished tests may
//! have.

use futures_util::future::join_all;
use load_test::store::{Created, TestRecord};
use uuid::Uuid;

use crate::support::{TENANT, TestTable, now, record};

/// Number of workers of each load test that these tests create.
const WORKERS: u32 = 2;

#[tokio::test]
async fn of_tests_that_are_created_at_once_no_more_are_stored_than_there_is_room_for() {
    let table = TestTable::make().await;
    let records: Vec<_> = (0..5).map(|_| record()).collect();
    let created = join_all(records.iter().map(|record| table.store.create(record, 2 * WORKERS + 1))).await;
    let created: Vec<_> = created.into_iter().map(Result::unwrap).collect();
    let stored = created.iter().filter(|created| **created == Created::Stored).count();
    let unfinished = table.store.unfinished(TENANT).await.unwrap();
    assert_eq!((stored, unfinished.len()), (2, 2), "{created:?}");
    for refused in created.into_iter().filter(|created| *created != Created::Stored) {
        assert_eq!(refused, Created::NoRoom { others: unfinished.clone(), other_workers: 2 * WORKERS });
    }
    // Two tests with their definitions, and the count of their tenant: nothing of the others.
    assert_eq!(table.items().await.len(), 5);
    table.remove().await;
}

#[tokio::test]
async fn a_test_needs_room_only_beside_unfinished_others_of_its_tenant() {
    let table = TestTable::make().await;
    let create = async |record: &TestRecord| table.store.create(record, WORKERS).await.unwrap();
    let (first, second) = (record(), record());
    for _ in 0..2 {
        assert_eq!(create(&first).await, Created::Stored, "it takes no room from itself");
    }
    let others = vec![table.get(first.test_id).await];
    assert_eq!(create(&second).await, Created::NoRoom { others, other_workers: WORKERS });
    let stranger = TestRecord { tenant: "another".to_owned(), test_id: Uuid::now_v7(), ..record() };
    assert_eq!(create(&stranger).await, Created::Stored);
    table.store.request_stop(TENANT, first.test_id, now()).await.unwrap();
    assert!(matches!(create(&second).await, Created::NoRoom { .. }));
    let seen = table.get(first.test_id).await.control();
    table.store.end(TENANT, first.test_id, seen, now(), "", None).await.unwrap();
    assert_eq!(create(&second).await, Created::Stored);
    table.remove().await;
}
