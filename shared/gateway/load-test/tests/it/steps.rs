//! Tests of the claims of steps (workers' attempts at one minute), and of the counts stored for
//! them.

use std::time::Duration;

use attempt::{Retry, Retryable as _};
use load_test::store::{Handled, TestStoreError};
use load_test::{Micros, Step, Sum, Tally};
use uuid::Uuid;

use crate::support::{TestTable, step, tally};

/// Time limit, which none of these tests reaches, for adding up the stored counts of a run's
/// workers.
const LONG: Duration = Duration::from_secs(60);

const NOTHING_BEFORE: Option<Handled> = Some(Handled { before: 0, in_window: 0 });

impl TestTable {
    async fn claim(&self, test_id: Uuid, step: Step) -> Option<Handled> {
        self.store.claim(test_id, 0, step).await.unwrap()
    }

    /// Stores the counts of a step in which a producer sent `count` messages. False if a later
    /// attempt at the same minute has replaced this step.
    async fn count(&self, test_id: Uuid, step: Step, count: u64) -> bool {
        self.store.store_tally(test_id, 0, &tally(step, count)).await.unwrap().is_some()
    }

    async fn sum(&self, test_id: Uuid) -> (Sum, bool) {
        self.store.sum(test_id, 0, usize::MAX, LONG).await.unwrap()
    }
}

/// Returns the counts of a step that take at least `bytes` bytes in the store: 19 bytes for each
/// second that has a figure.
fn large(step: Step, bytes: usize) -> Tally {
    let mut tally = Tally::new(step, step.window.opens(), 1, Micros::ZERO);
    for second in 0..u64::try_from(bytes / 16).unwrap() {
        tally.retained(Micros::from_seconds((1 << 28) + second), u64::MAX);
    }
    tally
}

#[tokio::test]
async fn a_step_is_claimed_once() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    assert_eq!(table.claim(test_id, step("p0a", 0, 0)).await, NOTHING_BEFORE);
    assert_eq!(table.claim(test_id, step("p0a", 0, 0)).await, None);
    assert_eq!(table.store.claim(test_id, 1, step("p0a", 0, 0)).await.unwrap(), NOTHING_BEFORE);
    assert_eq!(table.claim(Uuid::now_v7(), step("p0a", 0, 0)).await, NOTHING_BEFORE);
    assert_eq!(table.claim(test_id, step("c0a", 0, 0)).await, NOTHING_BEFORE);
    table.remove().await;
}

#[tokio::test]
async fn an_attempt_that_is_superseded_stores_nothing_more() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    let [first, second, third] = [0, 1, 2].map(|attempt| step("p0a", 0, attempt));
    assert_eq!(table.claim(test_id, first).await, NOTHING_BEFORE);
    assert!(table.count(test_id, first, 10).await);
    assert_eq!(table.claim(test_id, second).await, Some(Handled { before: 10, in_window: 10 }));
    assert!(!table.count(test_id, first, 11).await);
    let beyond = large(first, 400_000);
    assert_eq!(table.store.store_tally(test_id, 0, &beyond).await.unwrap(), None);
    assert!(table.count(test_id, second, 5).await);
    assert_eq!(table.claim(test_id, third).await, Some(Handled { before: 15, in_window: 15 }));
    let (sum, complete) = table.sum(test_id).await;
    let mut expected = Sum::default();
    expected.add(&tally(first, 10));
    expected.add(&tally(second, 5));
    assert_eq!((sum, complete), (expected, true));
    table.remove().await;
}

#[tokio::test]
async fn an_attempt_that_comes_after_a_later_one_is_refused() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    assert_eq!(table.claim(test_id, step("p0a", 0, 3)).await, NOTHING_BEFORE);
    for attempt in 0..3 {
        assert_eq!(table.claim(test_id, step("p0a", 0, attempt)).await, None);
        assert!(!table.count(test_id, step("p0a", 0, attempt), 1).await);
    }
    assert!(table.count(test_id, step("p0a", 0, 3), 1).await);
    assert_eq!(table.sum(test_id).await.0.steps(), 1);
    table.remove().await;
}

#[tokio::test]
async fn a_step_without_a_claim_stores_nothing() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    assert!(!table.count(test_id, step("p0a", 0, 0), 1).await);
    let beyond = large(step("p0a", 0, 0), 400_000);
    assert_eq!(table.store.store_tally(test_id, 0, &beyond).await.unwrap(), None);
    assert_eq!(table.items().await.len(), 0);
    table.remove().await;
}

#[tokio::test]
async fn a_producer_learns_what_it_sent_in_earlier_windows() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    let mut before = 0;
    for window in 0..6 {
        let lane = if window % 2 == 0 { "p1a" } else { "p1b" };
        let own = step(lane, window, 0);
        let claimed = Some(Handled { before, in_window: 0 });
        assert_eq!(table.claim(test_id, own).await, claimed, "{window}");
        table.count(test_id, own, u64::from(window) + 1).await;
        before += u64::from(window) + 1;
    }
    // Neither other workers nor other runs count.
    assert_eq!(table.claim(test_id, step("p11a", 6, 0)).await, NOTHING_BEFORE);
    assert_eq!(table.store.claim(test_id, 1, step("p1a", 6, 0)).await.unwrap(), NOTHING_BEFORE);
    table.remove().await;
}

#[tokio::test]
async fn what_the_window_before_sends_after_the_claim_is_read_when_the_window_opens() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    let (first, second) = (step("p0a", 0, 0), step("p0b", 1, 0));
    table.claim(test_id, first).await;
    table.count(test_id, first, 10).await;
    assert_eq!(table.claim(test_id, second).await, Some(Handled { before: 10, in_window: 0 }));
    table.count(test_id, first, 14).await;
    let handled = table.store.handled(test_id, 0, second).await.unwrap();
    assert_eq!(handled, Handled { before: 14, in_window: 0 });
    table.count(test_id, second, 3).await;
    let third = step("p0a", 2, 0);
    assert_eq!(table.claim(test_id, third).await, Some(Handled { before: 17, in_window: 0 }));
    assert_eq!(table.store.handled(test_id, 0, step("c0a", 2, 0)).await.unwrap(), Handled::default());
    table.remove().await;
}

#[tokio::test]
async fn tallies_of_all_workers_add_up() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    let mut expected = Sum::default();
    for number in 0..10 {
        for (lane, count) in [(format!("p{number}a"), 20), (format!("c{number}a"), 0)] {
            let step = step(&lane, 0, 0);
            table.claim(test_id, step).await;
            table.count(test_id, step, count / 2).await;
            assert!(table.count(test_id, step, count).await);
            expected.add(&tally(step, count));
        }
    }
    // A step that was claimed and has counted nothing, and one of another run.
    table.claim(test_id, step("p0b", 1, 0)).await;
    table.store.claim(test_id, 1, step("p0a", 0, 0)).await.unwrap();
    table.store.store_tally(test_id, 1, &tally(step("p0a", 0, 0), 7)).await.unwrap();
    assert_eq!(table.sum(test_id).await, (expected, true));
    let (sum, complete) = table.store.sum(test_id, 0, 500, LONG).await.unwrap();
    assert!(!complete && (1..20).contains(&sum.steps()), "{} steps", sum.steps());
    let (none, complete) = table.sum(Uuid::now_v7()).await;
    assert_eq!((none, complete), (Sum::default(), true));
    // Nothing is read in no time, which is not the sum of a test without tallies.
    let error = table.store.sum(test_id, 0, usize::MAX, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Later);
    table.remove().await;
}

#[tokio::test]
async fn a_large_tally_is_stored_in_parts_and_counts_like_any_other() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    let (own, other) = (step("c0a", 0, 0), step("c0b", 1, 0));
    table.claim(test_id, own).await;
    table.claim(test_id, other).await;
    table.count(test_id, own, 1).await;
    for bytes in [800_000, 400_000] {
        let large = large(own, bytes);
        let size = large.to_bytes().unwrap().len();
        assert!((bytes..1_400_000).contains(&size), "{size}");
        assert_eq!(table.store.store_tally(test_id, 0, &large).await.unwrap(), Some(size));
        table.count(test_id, other, 3).await;
        let mut expected = Sum::default();
        expected.add(&large);
        expected.add(&tally(other, 3));
        assert_eq!(table.sum(test_id).await, (expected, true));
    }
    // Parts that are left over count for nothing.
    table.count(test_id, own, 2).await;
    let mut expected = Sum::default();
    expected.add(&tally(own, 2));
    expected.add(&tally(other, 3));
    assert_eq!(table.sum(test_id).await, (expected, true));
    table.remove().await;
}

#[tokio::test]
async fn a_tally_beyond_what_a_transaction_takes_is_refused() {
    let table = TestTable::make().await;
    let test_id = Uuid::now_v7();
    let own = step("c0a", 0, 0);
    table.claim(test_id, own).await;
    let error = table.store.store_tally(test_id, 0, &large(own, 3_600_000)).await.unwrap_err();
    assert!(matches!(error, TestStoreError::TooLarge { what: "tally", .. }), "{error}");
    table.remove().await;
}
