//! Building of the report of a load test's run. The report of the best or last run becomes the
//! report of the test.

use jiff::Timestamp;
use load_test::store::TestRecord;
use load_test::{
    EndFacts, Facts, Finding, Micros, Next, Report, Search, SearchReport, Sum, TestEvent, Usage,
};

use crate::runs::{BegunRun, probes_before};

/// Sum of the stored counts of a run's workers (tallies), and the state of the run's queues after
/// the workers had ended.
#[derive(Debug)]
pub(crate) struct RunCounts {
    pub(crate) sum: Sum,
    /// True if `sum` includes all counts that the run's workers stored.
    pub(crate) complete: bool,
    /// Number of messages on the queues after the run's workers had ended; `None` if unknown.
    pub(crate) retained: Option<u64>,
}

/// Builds the report of a run; `begun` is `None` if the test ended before its first run began.
/// `usage` covers the whole test, with all runs of a search.
pub(crate) fn of(
    record: &TestRecord,
    begun: Option<&BegunRun<'_>>,
    counts: &RunCounts,
    usage: Usage,
) -> Report {
    let test_id = record.test_id.to_string();
    let target = record.target.to_string();
    let event = TestEvent::ReportStored(record.control().ending());
    // Before a run began there was nothing that could be cut.
    let start = begun.map_or(record.created_at, |begun| begun.run.started_at);
    let end = EndFacts { cut_at: cut_of(record, begun, start), retained: counts.retained };
    let facts = Facts {
        test_id: &test_id,
        status: record.status.after(event).unwrap_or(record.status),
        failure: record.failure.as_ref().map(|failure| failure.detail.as_str()),
        target: &target,
        started_at: start,
        test: begun.map_or(&record.test, |begun| begun.test.as_ref()),
        end,
        search: search(record),
        complete: counts.complete,
        usage,
    };
    Report::of(&facts, &counts.sum)
}

/// Returns the time since `start` at which a stop or a failure of the test cut a run short; zero if
/// no run began. `None` if the run was not cut short. A probe (run of a search) that was judged ran
/// to its end, even if the test was stopped or failed later.
fn cut_of(record: &TestRecord, begun: Option<&BegunRun<'_>>, start: Timestamp) -> Option<Micros> {
    match begun {
        Some(begun) if begun.run.passed.is_some() => None,
        Some(_) => record.cut_at().map(|cut| Micros::since_start(start, cut)),
        None => Some(Micros::ZERO),
    }
}

/// Returns the probes (runs at different rates) and the result of a test's search. `None` if the
/// test runs once, or if the search has no result yet or was cut short.
fn search(record: &TestRecord) -> Option<SearchReport> {
    let probes = probes_before(record, u32::MAX);
    finding(record).map(|finding| SearchReport { probes, finding })
}

/// Returns the result of a test's search; `None` if the test is no search, or if the search needs a
/// further probe (run).
pub(crate) fn finding(record: &TestRecord) -> Option<Finding> {
    match Search::of(&record.test)?.next(&probes_before(record, u32::MAX)) {
        Next::Over(finding) => Some(finding),
        Next::Probe(_) => None,
    }
}

/// Returns the number of the run that the test's report is about: in a search the run with the
/// highest rate that passed, if any did; otherwise the last run. `None` if no run began.
pub(crate) fn reported(record: &TestRecord) -> Option<u32> {
    let passed = BegunRun::all(record).filter(|begun| begun.run.passed == Some(true));
    let best = passed.max_by_key(|begun| begun.run.rate_per_sec).map(|begun| begun.number);
    let last = BegunRun::all(record).map(|begun| begun.number).last();
    match Search::of(&record.test) {
        Some(_) => best.or(last),
        None => last,
    }
}
