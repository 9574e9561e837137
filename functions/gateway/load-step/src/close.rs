//! Closing of a run of a load test, and of the test if no other run follows.

use std::time::Duration;

use broker::Deadline;
use jiff::Timestamp;
use load_test::store::{RunEnd, TestRecord, TestRun};
use load_test::{Micros, Plan, Report, Search, Sum, TestStatus, Usage};

use crate::event::Closed;
use crate::report::{self, RunCounts, finding, reported};
use crate::runs::BegunRun;
use crate::store::{fail, insist};
use crate::test_target::{TestTarget, TestTargetError};
use crate::{LoadStep, LoadStepError};

/// Maximum number of bytes (4 GiB) of tallies (stored counts of each worker and minute) that are
/// read for a report. An invocation has no time to read as many.
const MOST_TALLIES: usize = 4 * 1024 * 1024 * 1024;

/// Time that the invocation keeps for storing the report and checking the queues, after the stored
/// counts of the workers are read.
const TO_END: Duration = Duration::from_secs(30);

/// Reason for the failure of a test whose execution in Step Functions ended before its workers.
const CUT_OFF: &str = "the execution ended before the test";

/// Time limit for measuring the queues. While they are empty and a consumer is still connected,
/// they are measured every [`BETWEEN_LOOKS`].
const TO_LOOK: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Invocation or execution that closes a run of a load test. It decides whether another run may
/// follow, and whether the test fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClosedBy {
    /// Invocation of the worker that ended last, which closes the run in its remaining time.
    LastWorker,
    /// Execution that runs the test, after all lanes (the workers' series of invocations) have
    /// ended.
    TestExecution,
    /// Execution of the state machine that only closes the test, because the execution that ran the
    /// test is gone, or because the test was stopped while no worker was at work. No other run
    /// follows. A test whose work was not done fails, unless the test was stopped.
    ClosingExecution,
}

/// Closing of one run of a load test: the run, what closes it, the time limit, and the state of the
/// function.
#[derive(Clone, Copy, Debug)]
struct RunClosing<'a> {
    step: &'a LoadStep,
    of: &'a TestRun,
    closed_by: ClosedBy,
    deadline: Deadline,
}

impl LoadStep {
    /// Closes a run of a load test: records its end and, if it is a probe (run of a search),
    /// whether it passed. If no other run follows, stores the report and ends the test. Returns
    /// whether another run follows. A test that has ended is left unchanged, and its report is
    /// stored again only if a wrong report replaced it. So the call may be repeated.
    pub(crate) async fn close(
        &self,
        of: &TestRun,
        closed_by: ClosedBy,
        deadline: Deadline,
    ) -> Result<Closed, LoadStepError> {
        let closing = RunClosing { step: self, of, closed_by, deadline };
        loop {
            // A stop or a failure that comes meanwhile changes the report; each comes once.
            if let Some(closed) = closing.unless_changed().await? {
                return Ok(closed);
            }
        }
    }
}

impl RunClosing<'_> {
    /// Closes a run as the test's record is now. Returns `None` if the test was stopped, failed or
    /// ended while the report was made, so that the report has to be made again.
    async fn unless_changed(&self) -> Result<Option<Closed>, LoadStepError> {
        let of = self.of;
        let record = self.step.record(of, self.deadline).await?;
        let Some(mut record) = record else { return Ok(Some(Closed::last(of))) };
        if record.status.is_final() && self.is_reported(&record).await? {
            self.step.count_ended(&record, record.status).await?;
            return Ok(Some(Closed::last(of)));
        }
        let (sum, complete) = self.sum(of.run).await?;
        // The state machine has more time to read.
        if !complete && self.closed_by == ClosedBy::LastWorker {
            return Ok(Some(Closed::last(of)));
        }
        if !record.control().is_over()
            && let Some(reason) = self.cut_off(&record, &sum).await?
        {
            let Some(failed) = self.fail(reason).await? else { return Ok(None) };
            record = failed;
        }
        let retained = match BegunRun::of(&record, of.run).map(|begun| begun.run) {
            Ok(run) if run.ended_at.is_some() => run.retained,
            // Nobody worked, so there is nothing to look for.
            Ok(_) if complete && sum.steps() == 0 => None,
            Ok(_) => self.retained(&record).await,
            Err(_) => None,
        };
        let counts = RunCounts { sum, complete, retained };
        if let Some(end) = self.run_end(&record, &counts) {
            insist(self.deadline, async || self.step.store.end_run(of, end).await).await?;
            let Some(judged) = self.open().await? else { return Ok(None) };
            record = judged;
        }
        if Search::of(&record.test).is_some() && !record.control().is_over() && finding(&record).is_none() {
            if self.closed_by != ClosedBy::ClosingExecution {
                return Ok(Some(Closed::followed(of)));
            }
            let Some(failed) = self.fail(CUT_OFF).await? else { return Ok(None) };
            record = failed;
        }
        let (report, passed) = self.report(&record, counts).await?;
        let has_ended = self.end(&record, &report, passed).await?;
        Ok(has_ended.then(|| Closed::last(of)))
    }

    /// Returns the reason why the test fails after this run: no worker began, or the test's
    /// execution in Step Functions ended before the workers. `None` if there is no such reason.
    async fn cut_off(&self, record: &TestRecord, sum: &Sum) -> Result<Option<&'static str>, LoadStepError> {
        if sum.steps() == 0 {
            return Ok(Some("none of its workers began to work"));
        }
        if self.closed_by != ClosedBy::ClosingExecution {
            return Ok(None);
        }
        let of = self.of;
        let begun = BegunRun::of(record, of.run)?;
        let now = Micros::since_start(begun.run.started_at, Timestamp::now());
        let known = insist(self.deadline, async || self.step.store.watch(of).await).await?;
        let have_ended =
            known.is_some_and(|(_, states)| states.have_ended(Plan::of(&begun.test).workers(), now));
        Ok((!have_ended).then_some(CUT_OFF))
    }

    /// Records `reason` as the reason why the test failed, and returns the test's record as read
    /// after that; `None` if the test has ended or was deleted.
    async fn fail(&self, reason: &str) -> Result<Option<TestRecord>, LoadStepError> {
        fail(&self.step.store, self.of, reason, self.deadline).await?;
        self.open().await
    }

    /// Reads the record of the test; `None` if the test has ended or was deleted.
    async fn open(&self) -> Result<Option<TestRecord>, LoadStepError> {
        let record = self.step.record(self.of, self.deadline).await?;
        Ok(record.filter(|record| !record.status.is_final()))
    }

    /// Returns the end of the run, to be stored in the test's record; `None` if the run never began
    /// or has an end already, or if the test has ended.
    fn run_end(&self, record: &TestRecord, counts: &RunCounts) -> Option<RunEnd> {
        let begun = BegunRun::of(record, self.of.run).ok()?;
        if begun.run.ended_at.is_some() || record.status.is_final() {
            return None;
        }
        let is_probe = begun.run.rate_per_sec.is_some() && !record.control().is_over();
        let passed = is_probe.then(|| self.judge(record, &begun, counts));
        Some(RunEnd { passed, retained: counts.retained, ended_at: Timestamp::now() })
    }

    /// Returns true if a probe (run of a search) that ran to its end has passed, by the report of
    /// the probe.
    fn judge(&self, record: &TestRecord, begun: &BegunRun<'_>, counts: &RunCounts) -> bool {
        let usage = Usage::of(&counts.sum, self.step.memory_mb);
        let passed = report::of(record, Some(begun), counts, usage).passed();
        tracing::info!(
            event_type = "load_test.probed",
            passed,
            "probe {} of the load test {} {}",
            begun.number,
            record.test_id,
            if passed { "passed" } else { "did not pass" }
        );
        passed
    }

    /// Builds the report of a test. Also returns true if the test passed, and false if it did not;
    /// `None` for a stopped test, which is not judged.
    async fn report(
        &self,
        record: &TestRecord,
        mut counts: RunCounts,
    ) -> Result<(Report, Option<bool>), LoadStepError> {
        let (reported, memory_mb) = (reported(record), self.step.memory_mb);
        let mut usage = Usage::of(&counts.sum, memory_mb);
        let mut of_run = BegunRun::of(record, self.of.run).ok();
        let mut others: Vec<_> = BegunRun::all(record).filter(|begun| begun.number != self.of.run).collect();
        // The one that the report is about comes first, because there may be no time for all.
        others.sort_by_key(|begun| Some(begun.number) != reported);
        for begun in others {
            let is_reported = Some(begun.number) == reported;
            if !is_reported && self.deadline.earlier_by(TO_END).has_passed() {
                usage = usage.plus(Usage::planned(&Plan::of(&begun.test), memory_mb));
                continue;
            }
            let (sum, complete) = self.sum(begun.number).await?;
            usage = usage.plus(Usage::of(&sum, memory_mb));
            if is_reported {
                counts = RunCounts { sum, complete, retained: begun.run.retained };
                of_run = Some(begun);
            }
        }
        let report = report::of(record, of_run.as_ref(), &counts, usage);
        let passed = match report.status {
            TestStatus::Failed => Some(false),
            TestStatus::Stopped => None,
            _ => Some(match &report.search {
                Some(search) => report.complete && search.finding.rate_per_sec.is_some(),
                None => report.passed(),
            }),
        };
        Ok((report, passed))
    }

    /// Stores the report, and then ends the test unless it has ended before. `passed` is whether
    /// the test passed; `None` for a stopped test. False if the test was stopped, failed or ended
    /// since `record` was read, so that the report does not describe it.
    async fn end(
        &self,
        record: &TestRecord,
        report: &Report,
        passed: Option<bool>,
    ) -> Result<bool, LoadStepError> {
        let (of, store) = (self.of, &self.step.store);
        insist(self.deadline, async || store.store_report(&of.tenant, of.test_id, report).await).await?;
        if record.status.is_final() {
            self.step.count_ended(record, record.status).await?;
            return Ok(true);
        }
        let (seen, now) = (record.control(), Timestamp::now());
        let ended = insist(self.deadline, async || {
            store.end(&of.tenant, of.test_id, seen, now, &report.summary, passed).await
        });
        let Some(status) = ended.await? else { return Ok(false) };
        tracing::info!(
            event_type = "load_test.ended",
            status = status.as_str(),
            "the load test {} is {status}: {}",
            of.test_id,
            report.summary
        );
        self.step.count_ended(record, status).await?;
        Ok(true)
    }

    /// True if the stored report of an ended test is the one with which the test ended, or if no
    /// report is stored. After the end, a slower invocation may have stored a report of an earlier
    /// state.
    async fn is_reported(&self, record: &TestRecord) -> Result<bool, LoadStepError> {
        let (of, store) = (self.of, &self.step.store);
        let report = insist(self.deadline, async || store.report(&of.tenant, of.test_id).await).await?;
        Ok(report.is_none_or(|report| {
            report.status == record.status && Some(&report.summary) == record.summary.as_ref()
        }))
    }

    /// Returns the sum of a run's tallies (stored counts of each worker and minute). Also returns
    /// true if no tally is missing from the sum.
    async fn sum(&self, run: u32) -> Result<(Sum, bool), LoadStepError> {
        let (test_id, store) = (self.of.test_id, &self.step.store);
        let sum = insist(self.deadline, async || {
            let within = self.deadline.earlier_by(TO_END).remaining();
            store.sum(test_id, run, MOST_TALLIES, within).await
        });
        let (sum, is_whole) = sum.await?;
        if !is_whole {
            tracing::warn!(
                event_type = "load_test.tallies_left_out",
                "tallies of run {run} of the load test {test_id} are left out of its report"
            );
        }
        Ok((sum, is_whole))
    }

    /// Returns the number of messages on the test's queues after its workers have ended; `None` if
    /// it is unknown. It is unknown also if the test puts and takes messages, the queues are empty,
    /// and a client still has one of them open, since that client may hold unacknowledged messages.
    async fn retained(&self, record: &TestRecord) -> Option<u64> {
        let takes_its_own = record.test.producers.is_some() && record.test.consumers.is_some();
        let (target, deadline) = (TestTarget::of(&self.step.brokers, record), self.deadline.min(TO_LOOK));
        loop {
            match look(&target, deadline).await {
                Ok((0, true)) if takes_its_own && deadline.has_passed() => return None,
                Ok((0, true)) if takes_its_own => tokio::time::sleep(BETWEEN_LOOKS).await,
                Ok((messages, _)) => return Some(messages),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(
                        event_type = "load_test.queues_not_seen",
                        error,
                        "cannot measure the queues of the load test {}: {error}",
                        record.test_id
                    );
                    return None;
                }
            }
        }
    }
}

/// Measures all queues of a test. Returns the number of messages on them, and true if a client has
/// one of them open for taking messages.
async fn look(target: &TestTarget<'_>, deadline: Deadline) -> Result<(u64, bool), TestTargetError> {
    let queues = target.queues().collect::<Result<Vec<_>, _>>()?;
    let (mut messages, mut is_open) = (0_u64, false);
    for some in queues.chunks(TestTarget::AT_ONCE) {
        for depth in target.depths(some, deadline).await? {
            messages = messages.saturating_add(depth.current_depth);
            is_open |= depth.open_input_count.is_some_and(|count| count > 0);
        }
    }
    Ok((messages, is_open))
}
