//! The end of a run, and of the test if no other run follows.

use std::time::Duration;

use broker::Deadline;
use jiff::Timestamp;
use load_test::store::{RunEnd, TestRecord, TestRun};
use load_test::{Micros, Plan, Report, Search, Sum, TestStatus, Usage};

use crate::event::Closed;
use crate::place::{Place, PlaceError};
use crate::report::{self, Counted, finding, reported};
use crate::runs::Begun;
use crate::store::{fail, insist};
use crate::{LoadStep, LoadStepError};

/// Maximum number of bytes (4 GiB) of tallies (stored counts of each worker and minute) for a
/// report. An invocation cannot read as many.
const MOST_TALLIES: usize = 4 * 1024 * 1024 * 1024;

/// Time that must be left in the invocation for the report and the queues, after the stored counts
/// of the workers are read.
const TO_END: Duration = Duration::from_secs(30);

/// Reason for the failure of a test whose execution in Step Functions ended before its workers.
const CUT_OFF: &str = "the execution ended before the test";

/// Time limit for checking whether the queues are empty. While a consumer is still connected, the
/// check is repeated every [`BETWEEN_LOOKS`].
const TO_LOOK: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// State of a load test's queues after its workers have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    Empty,
    HaveMessages,
    /// The queues are empty, but a client has one of them open and may hold unacknowledged
    /// messages.
    InUse,
}

/// Occasion on which a run of a load test is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The last worker to end closes the run in the rest of its invocation.
    LastWorker,
    /// The state machine closes the run after all lanes (the workers' series of invocations) have
    /// ended.
    LanesOver,
    /// An execution of the state machine that only closes the test, because the execution that ran
    /// the test is gone, or because the test was stopped while no worker was running. No other run
    /// follows. A test whose work was not done fails, unless the test was stopped.
    CutOff,
}

/// Run of a load test that is being closed, with everything that this needs.
#[derive(Clone, Copy, Debug)]
struct Close<'a> {
    step: &'a LoadStep,
    of: &'a TestRun,
    occasion: Occasion,
    deadline: Deadline,
}

impl LoadStep {
    /// Closes a run. A probe (run of a search) is judged. If no other run follows, the report is
    /// stored and the test ends. A test that has ended is left unchanged, and its report is stored
    /// again only if a wrong report replaced it. So the call may be repeated.
    pub(crate) async fn close(
        &self,
        of: &TestRun,
        occasion: Occasion,
        deadline: Deadline,
    ) -> Result<Closed, LoadStepError> {
        let close = Close { step: self, of, occasion, deadline };
        loop {
            // A stop or a failure that comes meanwhile changes the report; each comes once.
            if let Some(closed) = close.unless_changed().await? {
                return Ok(closed);
            }
        }
    }
}

impl Close<'_> {
    /// Closes a run; `None` if the test was stopped, failed or ended while the report was made, so
    /// that the report has to be made again.
    async fn unless_changed(&self) -> Result<Option<Closed>, LoadStepError> {
        let of = self.of;
        let record = self.step.record(of, self.deadline).await?;
        let Some(mut record) = record else { return Ok(Some(Closed::last(of))) };
        if record.status.is_final() && self.is_reported(&record).await? {
            self.step.count(&record, record.status).await?;
            return Ok(Some(Closed::last(of)));
        }
        let (sum, complete) = self.sum(of.run).await?;
        // The state machine has more time to read.
        if !complete && self.occasion == Occasion::LastWorker {
            return Ok(Some(Closed::last(of)));
        }
        if !record.control().is_over()
            && let Some(reason) = self.cut_off(&record, &sum).await?
        {
            let Some(failed) = self.fail(reason).await? else { return Ok(None) };
            record = failed;
        }
        let drained = match Begun::of(&record, of.run).map(|begun| begun.run.drained) {
            Ok(Some(drained)) => drained,
            // Nobody worked, so there is nothing to look for.
            Ok(None) if complete && sum.steps() == 0 => false,
            Ok(None) => self.is_drained(&record).await,
            Err(_) => false,
        };
        let counted = Counted { sum, complete, drained };
        if let Some(end) = self.run_end(&record, &counted) {
            insist(self.deadline, async || self.step.store.end_run(of, end).await).await?;
            let Some(judged) = self.open().await? else { return Ok(None) };
            record = judged;
        }
        if Search::of(&record.test).is_some() && !record.control().is_over() && finding(&record).is_none() {
            if self.occasion != Occasion::CutOff {
                return Ok(Some(Closed::followed(of)));
            }
            let Some(failed) = self.fail(CUT_OFF).await? else { return Ok(None) };
            record = failed;
        }
        let (report, passed) = self.report(&record, counted).await?;
        let has_ended = self.end(&record, &report, passed).await?;
        Ok(has_ended.then(|| Closed::last(of)))
    }

    /// Returns the reason why the test fails after this run: no worker began, or its execution
    /// ended before its workers. `None` if there is no such reason.
    async fn cut_off(&self, record: &TestRecord, sum: &Sum) -> Result<Option<&'static str>, LoadStepError> {
        if sum.steps() == 0 {
            return Ok(Some("none of its workers began to work"));
        }
        if self.occasion != Occasion::CutOff {
            return Ok(None);
        }
        let of = self.of;
        let begun = Begun::of(record, of.run)?;
        let now = Micros::since_start(begun.run.started_at, Timestamp::now());
        let known = insist(self.deadline, async || self.step.store.watch(of).await).await?;
        let have_ended =
            known.is_some_and(|(_, attendance)| attendance.have_ended(Plan::of(&begun.test).workers(), now));
        Ok((!have_ended).then_some(CUT_OFF))
    }

    /// Records the reason why the test failed, and reads the test again; `None` if the test has
    /// ended or was deleted.
    async fn fail(&self, reason: &str) -> Result<Option<TestRecord>, LoadStepError> {
        fail(&self.step.store, self.of, reason, self.deadline).await?;
        self.open().await
    }

    /// Reads the record of the test; `None` if the test has ended or was deleted.
    async fn open(&self) -> Result<Option<TestRecord>, LoadStepError> {
        let record = self.step.record(self.of, self.deadline).await?;
        Ok(record.filter(|record| !record.status.is_final()))
    }

    /// Returns the end to record for the run; `None` if the run never began or has an end already,
    /// or if the test has ended.
    fn run_end(&self, record: &TestRecord, counted: &Counted) -> Option<RunEnd> {
        let begun = Begun::of(record, self.of.run).ok()?;
        if begun.run.ended_at.is_some() || record.status.is_final() {
            return None;
        }
        let is_probe = begun.run.rate_per_sec.is_some() && !record.control().is_over();
        let passed = is_probe.then(|| self.judge(record, &begun, counted));
        Some(RunEnd { passed, drained: counted.drained, ended_at: Timestamp::now() })
    }

    /// Judges a probe (run of a search) that ran to its end: true if the report passes.
    fn judge(&self, record: &TestRecord, begun: &Begun<'_>, counted: &Counted) -> bool {
        let usage = Usage::of(&counted.sum, self.step.memory_mb);
        let passed = report::of(record, Some(begun), counted, usage).passed();
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
        mut counted: Counted,
    ) -> Result<(Report, Option<bool>), LoadStepError> {
        let (reported, memory_mb) = (reported(record), self.step.memory_mb);
        let mut usage = Usage::of(&counted.sum, memory_mb);
        let mut of_run = Begun::of(record, self.of.run).ok();
        let mut others: Vec<_> = Begun::all(record).filter(|begun| begun.number != self.of.run).collect();
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
                counted = Counted { sum, complete, drained: begun.run.drained.unwrap_or(false) };
                of_run = Some(begun);
            }
        }
        let report = report::of(record, of_run.as_ref(), &counted, usage);
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

    /// Stores the report, and then ends the test unless it has ended before. False if the test was
    /// stopped, failed or ended since `record` was read, so that the report does not describe it.
    async fn end(
        &self,
        record: &TestRecord,
        report: &Report,
        passed: Option<bool>,
    ) -> Result<bool, LoadStepError> {
        let (of, store) = (self.of, &self.step.store);
        insist(self.deadline, async || store.store_report(&of.tenant, of.test_id, report).await).await?;
        if record.status.is_final() {
            self.step.count(record, record.status).await?;
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
        self.step.count(record, status).await?;
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

    /// Returns the sum of a run's tallies (stored counts of each worker and minute), and true if no
    /// tally is missing from it.
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

    /// Returns true if the test both puts and takes messages, its queues are empty, and no client
    /// has one of them open for taking messages. Returns false if the queues cannot be inspected.
    async fn is_drained(&self, record: &TestRecord) -> bool {
        if record.test.producers.is_none() || record.test.consumers.is_none() {
            return false;
        }
        let (place, deadline) = (Place::of(&self.step.brokers, record), self.deadline.min(TO_LOOK));
        loop {
            match look(&place, deadline).await {
                Ok(Queues::Empty) => return true,
                Ok(Queues::InUse) if !deadline.has_passed() => tokio::time::sleep(BETWEEN_LOOKS).await,
                Ok(Queues::InUse | Queues::HaveMessages) => return false,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(
                        event_type = "load_test.queues_not_seen",
                        error,
                        "cannot see whether the queues of the load test {} are empty: {error}",
                        record.test_id
                    );
                    return false;
                }
            }
        }
    }
}

async fn look(place: &Place<'_>, deadline: Deadline) -> Result<Queues, PlaceError> {
    let queues = place.queues().collect::<Result<Vec<_>, _>>()?;
    let mut seen = Queues::Empty;
    for some in queues.chunks(Place::AT_ONCE) {
        for depth in place.depths(some, deadline).await? {
            if depth.current_depth > 0 {
                return Ok(Queues::HaveMessages);
            }
            if depth.open_input_count.is_some_and(|count| count > 0) {
                seen = Queues::InUse;
            }
        }
    }
    Ok(seen)
}
