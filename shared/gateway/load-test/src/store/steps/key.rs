//! DynamoDB keys of the items of steps (a worker's attempts at minutes of the test).

use uuid::Uuid;

use crate::store::Item;
use crate::store::item::{self, test_sort};
use crate::{Role, Step, Worker};

/// Number of DynamoDB partition keys over which the items of one test's workers are spread.
const PARTITIONS: u32 = 8;

/// DynamoDB key of the item of one step (a worker's attempt at one minute of the test), or of one
/// part of the step's tally (its counts) if that is too large for one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepKey {
    pub(super) partition: String,
    pub(super) sort: String,
}

impl StepKey {
    pub(super) fn of(test_id: Uuid, run: u32, step: Step) -> Self {
        let Step { lane, window, attempt } = step;
        let before = of_worker(run, lane.worker);
        Self {
            partition: partition_of(test_id, lane.worker),
            sort: format!("{before}{:06}#{attempt:02}", window.number()),
        }
    }

    /// Returns the key of the part with this index, from 0, of the step's counts. It sorts right
    /// after the step's own key.
    pub(super) fn part(&self, index: u32) -> Self {
        Self { partition: self.partition.clone(), sort: format!("{}#part{index:02}", self.sort) }
    }

    pub(super) fn item(&self) -> Item {
        item::key(self.partition.clone(), self.sort.clone())
    }
}

/// Returns the prefix of the sort keys of a run's steps (workers' attempts at a minute of the
/// test).
pub(super) fn of_run(run: u32) -> String {
    format!("{run:02}#")
}

/// Returns the prefix of the sort keys of a worker's steps (attempts at a minute of the test). The
/// keys sort by minute and attempt.
pub(super) fn of_worker(run: u32, worker: Worker) -> String {
    format!("{}{worker}#", of_run(run))
}

/// Returns the number of the window (minute of the test) in the sort key of a step; `None` if the
/// key has none.
pub(super) fn window(sort: &str) -> Option<u32> {
    sort.split('#').nth(2)?.parse().ok()
}

/// Returns the DynamoDB partition keys over which the items of a test's workers are spread.
pub(crate) fn partitions(test_id: Uuid) -> impl Iterator<Item = String> {
    (0..PARTITIONS).map(move |index| partition(test_id, index))
}

fn partition_of(test_id: Uuid, worker: Worker) -> String {
    let role = match worker.role {
        Role::Producer => 0,
        Role::Consumer => 1,
    };
    partition(test_id, (worker.number % (PARTITIONS / 2)) * 2 + role)
}

fn partition(test_id: Uuid, index: u32) -> String {
    format!("{}#{index}", test_sort(test_id))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Window;

    fn step(lane: &str, window: u32, attempt: u32) -> Step {
        Step { lane: lane.parse().unwrap(), window: Window::new(window), attempt }
    }

    fn sort(run: u32, step: Step) -> String {
        StepKey::of(Uuid::nil(), run, step).sort
    }

    #[test]
    fn keys_are_in_the_order_of_windows_and_attempts() {
        assert_eq!(sort(3, step("p12b", 7, 1)), "03#p12#000007#01");
        let keys = [
            sort(0, step("p1a", 0, 0)),
            StepKey::of(Uuid::nil(), 0, step("p1a", 0, 0)).part(0).sort,
            StepKey::of(Uuid::nil(), 0, step("p1a", 0, 0)).part(1).sort,
            sort(0, step("p1a", 0, 1)),
            sort(0, step("p1b", 9, 0)),
            sort(0, step("p1a", 10, 0)),
        ];
        assert!(keys.is_sorted(), "{keys:?}");
        assert!(keys.iter().all(|key| key.starts_with(&of_worker(0, "p1".parse().unwrap()))));
        assert!(!sort(0, step("p12a", 0, 0)).starts_with(&of_worker(0, "p1".parse().unwrap())));
        assert!(keys.iter().all(|key| key.starts_with(&of_run(0))));
        assert_eq!(keys.map(|key| window(&key)), [0, 0, 0, 0, 9, 10].map(Some));
    }

    #[test]
    fn workers_are_spread_over_all_partitions_of_their_test() {
        let test_id = Uuid::from_u128(7);
        let lanes = (0..4).flat_map(|number| [format!("p{number}a"), format!("c{number}b")]);
        let used: BTreeSet<_> =
            lanes.map(|lane| StepKey::of(test_id, 0, step(&lane, 1, 0)).partition).collect();
        assert_eq!(used, partitions(test_id).collect::<BTreeSet<_>>());
        let [even, odd] = ["p5a", "p5b"].map(|lane| StepKey::of(test_id, 1, step(lane, 0, 0)).partition);
        assert_eq!(even, odd);
    }
}
