//! States of a run's workers: the workers that are at work, and the workers that have ended.
//!
//! The stored counts of the workers tell this too. But a worker that wants to know whether all
//! others have ended cannot read all these counts once a second. So the DynamoDB item of the test
//! has three sets of texts, each text with the number of the run in front:
//! - `working`: lanes (series of invocations of a worker) at work, each with its window (minute)
//! - `ended`: workers that have nothing left to do
//! - `backlogged`: runs whose queues have held the backlog that consumers wait for

use std::collections::BTreeSet;
use std::fmt::Display;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use uuid::Uuid;

use crate::store::item::{self, run_number};
use crate::store::record::{Control, TestRun};
use crate::store::update::{self, Updated};
use crate::store::{Item, TestStore, TestStoreError};
use crate::{Lane, Micros, Step, Window, Worker};

const WORKING: &str = "working";
const ENDED: &str = "ended";
const BACKLOGGED: &str = "backlogged";

/// States of a run's workers: which of them are at work, which have nothing left to do, and
/// whether the queues have held the backlog that consumers wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStates {
    working: BTreeSet<(Lane, Window)>,
    ended: BTreeSet<Worker>,
    is_backlogged: bool,
}

impl WorkerStates {
    /// Time after the end of a window (a minute of the test) from which an invocation that worked
    /// in it counts as no longer at work, even if it was lost and did not report its end: 40
    /// seconds.
    const LONGEST: Micros = Micros::from_seconds(40);

    /// True if the worker has nothing left to do, and no invocation works for it at `now`, a time
    /// since the run's start.
    #[must_use]
    pub fn has_ended(&self, worker: Worker, now: Micros) -> bool {
        self.ended.contains(&worker) && self.windows(worker, now).next().is_none()
    }

    /// True if all of these workers have ended at `now`, a time since the run's start.
    #[must_use]
    pub fn have_ended(&self, workers: impl IntoIterator<Item = Worker>, now: Micros) -> bool {
        workers.into_iter().all(|worker| self.has_ended(worker, now))
    }

    /// True if at `now`, a time since the run's start, an invocation of the worker still works in
    /// an earlier minute of the test than `window`.
    #[must_use]
    pub fn works_before(&self, worker: Worker, window: Window, now: Micros) -> bool {
        self.windows(worker, now).any(|earlier| earlier < window)
    }

    /// Returns the windows (minutes of the test) in which invocations of the worker still work at
    /// `now`, a time since the run's start. Both lanes (series of invocations) of the worker may be
    /// at work at once.
    fn windows(&self, worker: Worker, now: Micros) -> impl Iterator<Item = Window> {
        let own = self.working.iter().filter(move |(lane, _)| lane.worker == worker);
        own.map(|(_, window)| *window).filter(move |window| window.closes().plus(Self::LONGEST) > now)
    }

    /// True if the queues have held the backlog that the run's consumers wait for.
    #[must_use]
    pub const fn is_backlogged(&self) -> bool {
        self.is_backlogged
    }

    /// Reads the states of one run's workers from the DynamoDB item of its test.
    fn read(item: &Item, run: u32) -> Self {
        Self {
            working: of_run(item, WORKING, run).filter_map(lane_in_window).collect(),
            ended: of_run(item, ENDED, run).filter_map(|name| name.parse().ok()).collect(),
            is_backlogged: texts(item, BACKLOGGED).any(|number| number == run_number(run)),
        }
    }
}

fn texts<'a>(item: &'a Item, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let texts = item.get(name).and_then(|texts| texts.as_ss().ok());
    texts.into_iter().flatten().map(String::as_str)
}

/// Returns the texts in the string set `name` that belong to a run, without the run's number in
/// front. Skips a text without a number, since this module always writes one.
fn of_run<'a>(item: &'a Item, name: &str, run: u32) -> impl Iterator<Item = &'a str> + use<'a> {
    let number = run_number(run);
    texts(item, name).filter_map(move |text| {
        let (of, name) = text.split_once('#')?;
        (of == number).then_some(name)
    })
}

/// Returns the text in the string set `working` for an invocation at work, such as `p3a#4`: its
/// lane (worker and parity of the minutes), and the number of its window (minute of the test).
fn working(step: Step) -> String {
    format!("{}#{}", step.lane, step.window.number())
}

fn lane_in_window(name: &str) -> Option<(Lane, Window)> {
    let (lane, window) = name.split_once('#')?;
    Some((lane.parse().ok()?, Window::new(window.parse().ok()?)))
}

/// Builds the value of a string set with one text: the run's number, `#` and `name`.
fn one(run: u32, name: impl Display) -> AttributeValue {
    AttributeValue::Ss(vec![format!("{}#{name}", run_number(run))])
}

impl TestStore {
    /// Reads the part of a test's state that tells its workers whether to continue, and the
    /// states of a run's workers (who works and who has ended). `None` if there is no such test.
    ///
    /// # Errors
    /// If the table does not respond, or the item is malformed.
    pub async fn watch(&self, of: &TestRun) -> Result<Option<(Control, WorkerStates)>, TestStoreError> {
        let Some(item) = self.watched(&of.tenant, of.test_id).await? else { return Ok(None) };
        let states = WorkerStates::read(&item, of.run);
        Ok(Some((item::control(item)?, states)))
    }

    /// Reads the part of a test's state that tells its workers whether to continue; `None` if there
    /// is no such test.
    ///
    /// # Errors
    /// If the table does not respond, or the item is malformed.
    pub async fn control(&self, tenant: &str, test_id: Uuid) -> Result<Option<Control>, TestStoreError> {
        self.watched(tenant, test_id).await?.map(item::control).transpose()
    }

    /// Reads the attributes of a test's item that its workers poll; `None` if there is no such
    /// test.
    async fn watched(&self, tenant: &str, test_id: Uuid) -> Result<Option<Item>, TestStoreError> {
        let get = self
            .dynamodb
            .get_item()
            .table_name(&self.table)
            .set_key(Some(item::test_key(tenant, test_id)))
            .projection_expression("#status, stopRequestedAt, failure, #working, #ended, #backlogged")
            .expression_attribute_names("#status", "status")
            .expression_attribute_names("#working", WORKING)
            .expression_attribute_names("#ended", ENDED)
            .expression_attribute_names("#backlogged", BACKLOGGED)
            .consistent_read(true);
        let found = get.send().await.map_err(TestStoreError::unavailable)?;
        Ok(found.item.filter(|item| !item.is_empty()))
    }

    /// Records that a lane (a worker's series of invocations) is at work in its window (a minute of
    /// the test). Repeating the call changes nothing.
    ///
    /// # Errors
    /// If the table does not respond, or there is no such test.
    pub async fn begin_work(&self, of: &TestRun, step: Step) -> Result<(), TestStoreError> {
        let update = self.update_test(&of.tenant, of.test_id).update_expression("ADD #working :lane");
        let update = update.expression_attribute_names("#working", WORKING);
        let update = update.expression_attribute_values(":lane", one(of.run, working(step)));
        states_after(update, of).await.map(drop)
    }

    /// Records that a lane (a worker's series of invocations) has ended its work in a window (a
    /// minute of the test) and, if `is_last`, that its worker has nothing left to do. Returns the
    /// states of the run's workers (who works and who has ended) after this write: if the last
    /// workers end at the same time, at least one of them sees that all have ended.
    ///
    /// # Errors
    /// If the table does not respond, or there is no such test.
    pub async fn end_work(
        &self,
        of: &TestRun,
        step: Step,
        is_last: bool,
    ) -> Result<WorkerStates, TestStoreError> {
        let update = self
            .update_test(&of.tenant, of.test_id)
            .expression_attribute_names("#working", WORKING)
            .expression_attribute_values(":lane", one(of.run, working(step)));
        let update = if is_last {
            update
                .update_expression("ADD #ended :worker DELETE #working :lane")
                .expression_attribute_names("#ended", ENDED)
                .expression_attribute_values(":worker", one(of.run, step.lane.worker))
        } else {
            update.update_expression("DELETE #working :lane")
        };
        states_after(update, of).await
    }

    /// Records that the queues of a run have held the backlog, so that its consumers begin. Returns
    /// the states of the run's workers (who works and who has ended) after this write.
    ///
    /// # Errors
    /// If the table does not respond, or there is no such test.
    pub async fn note_backlog(&self, of: &TestRun) -> Result<WorkerStates, TestStoreError> {
        let update = self.update_test(&of.tenant, of.test_id).update_expression("ADD #backlogged :run");
        let update = update.expression_attribute_names("#backlogged", BACKLOGGED);
        let number = AttributeValue::Ss(vec![run_number(of.run)]);
        states_after(update.expression_attribute_values(":run", number), of).await
    }
}

/// Sends an update of a test's item, which must exist, and returns the states of the run's
/// workers (who works and who has ended) after the update.
async fn states_after(update: UpdateItemFluentBuilder, of: &TestRun) -> Result<WorkerStates, TestStoreError> {
    let update = update.condition_expression("attribute_exists(pk)").return_values(ReturnValue::AllNew);
    match update::send(update).await? {
        Updated::Done(item) => Ok(WorkerStates::read(&item, of.run)),
        Updated::Refused(_) => Err(TestStoreError::Unknown(of.test_id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::item::named;

    fn texts(texts: &[&str]) -> AttributeValue {
        AttributeValue::Ss(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    fn worker(name: &str) -> Worker {
        name.parse().unwrap()
    }

    #[test]
    fn a_worker_has_ended_once_none_of_its_lanes_works() {
        let item = named([
            (WORKING, texts(&["00#p0a#0", "00#c1b#1", "01#p1a#0", "00#p1a", "00#?#0"])),
            (ENDED, texts(&["00#p0", "00#p1", "00#c0", "01#c1", "00#?"])),
        ]);
        let (states, now) = (WorkerStates::read(&item, 0), Micros::from_seconds(50));
        let ended = ["p0", "p1", "c0", "c1"].map(|name| states.has_ended(worker(name), now));
        assert_eq!(ended, [false, true, true, false]);
        assert!(states.have_ended(["p1", "c0"].map(worker), now));
        assert!(!states.have_ended(["p0", "p1"].map(worker), now));
        assert!(WorkerStates::read(&item, 1).have_ended([worker("c1")], now));
        assert!(states.have_ended([], now));
    }

    #[test]
    fn a_lane_that_was_lost_counts_until_its_window_has_closed_for_a_while() {
        let item = named([(WORKING, texts(&["00#p0a#2", "00#p0b#3"])), (ENDED, texts(&["00#p0"]))]);
        let (states, worker) = (WorkerStates::read(&item, 0), worker("p0"));
        let at = Micros::from_seconds;
        let works_before = |window, second| states.works_before(worker, Window::new(window), at(second));
        assert!(works_before(3, 180) && works_before(3, 219) && !works_before(3, 220));
        assert!(!works_before(2, 180) && works_before(4, 279));
        assert!(!states.has_ended(worker, at(279)) && states.has_ended(worker, at(280)));
    }

    #[test]
    fn a_backlog_is_that_of_its_run() {
        let item = named([(BACKLOGGED, texts(&["00", "12"]))]);
        let backlogged = [0, 1, 12].map(|run| WorkerStates::read(&item, run).is_backlogged());
        assert_eq!(backlogged, [true, false, true]);
        assert_eq!(WorkerStates::read(&Item::new(), 0), WorkerStates::default());
    }
}
