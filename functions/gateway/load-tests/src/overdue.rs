//! Load tests that should have ended, and have not: their execution in Step Functions is gone, or
//! hangs.
//!
//! Nothing looks after tests on a schedule, which would cost something without any test. Instead, a
//! request that sees such a test starts another execution, which closes the test with a report of
//! the stored counts.

use jiff::Timestamp;
use load_test::store::{EngineError, ExecutionStart, TestRecord};
use load_test::{Micros, Plan, Role};

use crate::LoadTests;

/// Time after a run's planned end within which the state machine normally closes the run.
const CLOSED_WITHIN: Micros = Micros::from_seconds(180);
/// Time after a stop or a failure within which the state machine normally ends the test.
const STOPPED_WITHIN: Micros = Micros::from_seconds(90);
/// Time that a test takes in addition to its planned work: for its workers to begin, and for its
/// report.
const BESIDE_WORK: Micros = Micros::from_seconds(20);
/// Seconds between two attempts to close an overdue test, if it has still not ended. A request that
/// sees the test makes the attempt.
const CLOSE_INTERVAL_SECONDS: u64 = 300;
/// Maximum number of overdue tests whose closing one request starts.
const MOST: usize = 5;

/// Load test that should have ended, and has not: its execution in Step Functions is gone, or
/// hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Overdue {
    /// True if the test was stopped or has failed, so that its execution may be ended without
    /// losing work.
    is_ending: bool,
    /// Number of the execution that closes the test, from 0. Requests that see the test within the
    /// same five minutes use the same number, and so start a single execution.
    number: u32,
}

impl Overdue {
    /// Returns the test as overdue if it should have ended before `now`; otherwise `None`.
    fn of(record: &TestRecord, now: Timestamp) -> Option<Self> {
        let late = Micros::since_start(close_due(record), now);
        if record.status.is_final() || late == Micros::ZERO {
            return None;
        }
        let number = u32::try_from(late.whole_seconds() / CLOSE_INTERVAL_SECONDS).unwrap_or(u32::MAX);
        Some(Self { is_ending: record.cut_at().is_some(), number })
    }
}

/// Returns the time by which the state machine should have closed a test, or the current probe (run
/// at one rate) of a search.
fn close_due(record: &TestRecord) -> Timestamp {
    let done_by = match record.runs.last() {
        // Another probe, or the end, follows a run at once.
        Some(run) => run.ended_at.unwrap_or_else(|| work(record).of_day(run.started_at)),
        None => record.created_at,
    };
    let due = CLOSED_WITHIN.of_day(done_by);
    record.cut_at().map_or(due, |end| due.min(STOPPED_WITHIN.of_day(end)))
}

/// Returns the time at which a test, or the current probe (run at one rate) of a search, ends if
/// nothing delays it. The time for draining the queues is not included.
pub(crate) fn planned_end(record: &TestRecord) -> Timestamp {
    let run = record.runs.last();
    let work = Plan::of(&record.test).until(Role::Producer);
    let done_at = run.and_then(|run| run.ended_at).or_else(|| record.cut_at());
    let done_at = done_at.unwrap_or_else(|| work.of_day(run.map_or(record.created_at, |run| run.started_at)));
    BESIDE_WORK.of_day(done_at)
}

/// Returns the number of the last run of a test; 0 if none has begun.
pub(crate) fn last_run(record: &TestRecord) -> u32 {
    u32::try_from(record.runs.len().saturating_sub(1)).unwrap_or(u32::MAX)
}

/// Returns the time from the start of a test's run to the planned end of its last worker.
fn work(record: &TestRecord) -> Micros {
    let plan = Plan::of(&record.test);
    plan.until(Role::Producer).max(plan.until(Role::Consumer))
}

impl LoadTests {
    /// Starts the closing of the overdue tests among `records`, at most five. They end some seconds
    /// later. A failure is only logged.
    pub(crate) async fn close_overdue(&self, records: &[TestRecord], now: Timestamp) {
        let mut left = MOST;
        for record in records {
            let Some(overdue) = Overdue::of(record, now) else { continue };
            if left == 0 {
                return;
            }
            left -= 1;
            if let Err(error) = self.close(record, overdue).await {
                let error: &dyn std::error::Error = &error;
                tracing::error!(
                    event_type = "load_test.not_closed",
                    test_id = %record.test_id,
                    error,
                    "cannot close load test {}, which is overdue: {error}",
                    record.test_id
                );
            }
        }
    }

    async fn close(&self, record: &TestRecord, overdue: Overdue) -> Result<(), EngineError> {
        let test_id = record.test_id;
        if !self.engine.is_gone(test_id).await? {
            if !overdue.is_ending && overdue.number == 0 {
                // Its steps may be late, for want of concurrency. What comes later finds its window
                // closed.
                return Ok(());
            }
            self.engine.stop(test_id).await?;
        }
        tracing::warn!(
            event_type = "load_test.overdue",
            test_id = %test_id,
            status = record.status.as_str(),
            "load test {test_id} is {} and overdue; it is closed",
            record.status
        );
        let start = ExecutionStart::closing(&record.tenant, test_id, last_run(record), overdue.number);
        self.engine.start(&start).await
    }
}

#[cfg(test)]
mod tests {
    use load_test::TestStatus;
    use load_test::store::{Failure, Run};

    use super::*;
    use crate::samples::record;

    /// Returns this time of day on 22 November 2026.
    fn at(time: &str) -> Timestamp {
        format!("2026-11-22T{time}Z").parse().unwrap()
    }

    /// Returns the record of a test of 60 s with producers and consumers, whose run began at 10:00.
    fn running() -> TestRecord {
        let run = Run {
            rate_per_sec: None,
            started_at: at("10:00:00"),
            ended_at: None,
            passed: None,
            retained: None,
        };
        TestRecord { status: TestStatus::Running, runs: vec![run], created_at: at("09:59:50"), ..record() }
    }

    fn number(record: &TestRecord, time: &str) -> Option<u32> {
        Overdue::of(record, at(time)).map(|overdue| overdue.number)
    }

    #[test]
    fn a_test_has_time_for_its_work_the_drain_and_its_end() {
        let test = running();
        // A minute, five for the queues to drain, and three.
        assert_eq!(number(&test, "10:09:00"), None);
        assert_eq!(number(&test, "10:09:01"), Some(0));
        assert_eq!(number(&test, "10:14:00"), Some(1));
        let overdue = Overdue::of(&test, at("10:09:01")).unwrap();
        assert!(!overdue.is_ending, "its steps may be late, for five minutes");
        let done = TestRecord { status: TestStatus::Completed, ..test };
        assert_eq!(number(&done, "23:00:00"), None);
    }

    #[test]
    fn a_test_whose_execution_was_never_there_is_found_soon() {
        let pending = TestRecord { status: TestStatus::Pending, runs: Vec::new(), ..running() };
        assert_eq!(number(&pending, "10:02:50"), None);
        assert_eq!(number(&pending, "10:02:51"), Some(0));
    }

    #[test]
    fn a_probe_that_ended_is_followed_by_another_soon() {
        let mut search = running();
        search.runs[0].ended_at = Some(at("10:01:05"));
        assert_eq!(number(&search, "10:04:05"), None);
        assert_eq!(number(&search, "10:04:06"), Some(0));
    }

    #[test]
    fn a_stop_and_a_failure_end_a_test_within_a_minute_and_a_half() {
        let status = TestStatus::Stopping;
        let stopped = TestRecord { status, stop_requested_at: Some(at("10:00:20")), ..running() };
        let detail = "the queue is full".to_owned();
        let failed = TestRecord { failure: Some(Failure { at: at("10:00:20"), detail }), ..running() };
        for test in [stopped, failed] {
            assert_eq!(number(&test, "10:01:50"), None);
            let overdue = Overdue::of(&test, at("10:01:51")).unwrap();
            assert_eq!(overdue, Overdue { is_ending: true, number: 0 });
            // The same execution, whoever sees it within five minutes.
            assert_eq!(number(&test, "10:06:49"), Some(0));
        }
    }
}
