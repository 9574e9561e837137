//! Tests of the states of a run's workers: the workers that are at work, and those that have ended.

use load_test::store::{Handled, TestStoreError, WorkerStates};
use load_test::{Lane, Micros, MinuteParity, Step, Tally, Worker};
use uuid::Uuid;

use crate::support::{TENANT, TestTable, now, run, step};

/// Time since the run's start at which these tests ask who works: 10 seconds, in minute 0 of the
/// run.
const NOW: Micros = Micros::from_seconds(10);

/// Returns the first attempt of a lane (one of a worker's two series of invocations, such as `p0a`)
/// at its first minute of the run.
fn first(name: &str) -> Step {
    let lane: Lane = name.parse().unwrap();
    step(name, u32::from(lane.parity == MinuteParity::Odd), 0)
}

fn worker(name: &str) -> Worker {
    name.parse().unwrap()
}

impl TestTable {
    async fn begins(&self, test_id: Uuid, number: u32, name: &str) {
        self.store.begin_work(&run(test_id, number), first(name)).await.unwrap();
    }

    async fn ends(&self, test_id: Uuid, number: u32, name: &str, is_last: bool) -> WorkerStates {
        self.store.end_work(&run(test_id, number), first(name), is_last).await.unwrap()
    }
}

#[tokio::test]
async fn the_last_worker_that_ends_sees_that_all_have_ended() {
    let table = TestTable::make().await;
    let test_id = table.created().await.test_id;
    let all = ["p0", "c0"].map(worker);
    for name in ["p0a", "c0a", "p0b"] {
        table.begins(test_id, 0, name).await;
        // A lane may say it again.
        table.begins(test_id, 0, name).await;
    }
    assert!(!table.ends(test_id, 0, "p0a", false).await.has_ended(worker("p0"), NOW));
    assert!(!table.ends(test_id, 0, "c0a", true).await.have_ended(all, NOW));
    let last = table.ends(test_id, 0, "p0b", true).await;
    assert!(last.have_ended(all, NOW));
    let (control, watched) = table.store.watch(&run(test_id, 0)).await.unwrap().unwrap();
    assert_eq!((control.is_over(), watched), (false, last));
    let (_, other) = table.store.watch(&run(test_id, 1)).await.unwrap().unwrap();
    assert_eq!(other, WorkerStates::default());
    table.remove().await;
}

#[tokio::test]
async fn a_worker_whose_other_lane_works_has_not_ended() {
    let table = TestTable::make().await;
    let test_id = table.created().await.test_id;
    table.begins(test_id, 0, "c0a").await;
    assert!(!table.ends(test_id, 0, "c0b", true).await.has_ended(worker("c0"), NOW));
    assert!(table.ends(test_id, 0, "c0a", false).await.has_ended(worker("c0"), NOW));
    table.remove().await;
}

#[tokio::test]
async fn a_backlog_is_noted_once_for_all_consumers_and_changes_nothing_else() {
    let table = TestTable::make().await;
    let before = table.created().await;
    let test_id = before.test_id;
    for _ in 0..2 {
        assert!(table.store.note_backlog(&run(test_id, 3)).await.unwrap().is_backlogged());
    }
    table.store.fail(TENANT, test_id, now(), "the broker is gone").await.unwrap();
    let (control, states) = table.store.watch(&run(test_id, 3)).await.unwrap().unwrap();
    assert!(control.is_over() && states.is_backlogged());
    let after = table.get(test_id).await;
    assert_eq!((after.runs, after.test, after.status), (before.runs, before.test, before.status));
    table.remove().await;
}

#[tokio::test]
async fn a_test_that_is_gone_has_no_workers() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    let gone = |error: TestStoreError| assert!(matches!(error, TestStoreError::Unknown(_)), "{error}");
    gone(table.store.begin_work(&run(test_id, 0), first("p0a")).await.unwrap_err());
    gone(table.store.end_work(&run(test_id, 0), first("p0a"), true).await.unwrap_err());
    gone(table.store.note_backlog(&run(test_id, 0)).await.unwrap_err());
    assert!(table.store.watch(&run(test_id, 0)).await.unwrap().is_none());
    assert_eq!(table.items().await.len(), 0);
    table.remove().await;
}

#[tokio::test]
async fn a_consumer_learns_what_it_took_in_earlier_windows() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    let (first, second) = (step("c0a", 0, 0), step("c0b", 1, 0));
    table.store.claim(test_id, 0, first).await.unwrap();
    let mut tally = Tally::new(first, Micros::ZERO, 0, Micros::ZERO);
    for second in 0..5 {
        tally.foreign(Micros::from_seconds(second));
    }
    table.store.store_tally(test_id, 0, &tally).await.unwrap();
    let claimed = table.store.claim(test_id, 0, second).await.unwrap();
    assert_eq!(claimed, Some(Handled { before: 5, in_window: 0 }));
    table.remove().await;
}
