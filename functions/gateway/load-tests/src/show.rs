//! Response to `GET /tests/{test_id}`: a load test and its report, as JSON or as an HTML page.
//! While the test runs, the report is made from the counts that its workers have stored so far.

use std::str::FromStr;
use std::time::Duration;

use api::{Problem, Query, Reason, Reply, invalid_parameter};
use jiff::Timestamp;
use load_test::store::TestRecord;
use load_test::{EndFacts, Facts, LoadTest, Micros, Report, Sum, Usage};
use uuid::Uuid;

use crate::overdue::last_run;
use crate::problems::{from_store, not_found};
use crate::view::{ShownTest, fresh};
use crate::{LoadTests, id};

/// Maximum number of bytes of tallies (the stored counts of each worker and minute) that are read
/// for one response: 24 MiB, or some hundred hours of workers.
const MOST_TALLIES: usize = 24 * 1024 * 1024;
/// Time limit for reading the stored counts of a running test's workers, retries included.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// Time by which the stored counts of a worker may lag behind its work: a worker stores them about
/// once a second.
const BEHIND: Duration = Duration::from_secs(3);

/// Content security policy of a report's HTML page, which may neither run scripts nor load
/// resources.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; sandbox";

/// Format of the response to `GET /tests/{test_id}`, which the query parameter `format` chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    #[default]
    Json,
    Html,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "json" => Ok(Self::Json),
            "html" => Ok(Self::Html),
            _ => Err("must be json or html"),
        }
    }
}

impl LoadTests {
    pub(crate) async fn one(
        &self,
        tenant: &str,
        test_id: Uuid,
        query: &Query<'_>,
        now: Timestamp,
    ) -> Result<Reply, Problem> {
        let format = query.parsed::<Format>("format")?.unwrap_or_default();
        let baseline = query.value("baseline")?.map(|text| id::parse("baseline", text)).transpose()?;
        let found = self.store.get(tenant, test_id).await.map_err(|error| from_store(&error))?;
        let record = found.ok_or_else(not_found)?;
        let baseline = self.baseline(tenant, baseline).await?;
        self.close_overdue(std::slice::from_ref(&record), now).await;
        let mut report = self.report(&record, now).await?;
        if let Some(baseline) = &baseline {
            report = report.map(|report| report.compared_with(baseline));
        }
        match format {
            Format::Json => Ok(ShownTest::of(record, report).into_reply()),
            Format::Html => page(&record, report, self.memory_mb),
        }
    }

    /// Returns the report of the test `test_id`, with which another report is to be compared;
    /// `None` without an id. The id is that of the query parameter `baseline`. The error is a 400
    /// if the tenant has no such test that has ended, or if the test's report has expired.
    async fn baseline(&self, tenant: &str, test_id: Option<Uuid>) -> Result<Option<Report>, Problem> {
        let Some(test_id) = test_id else { return Ok(None) };
        let found = self.store.get(tenant, test_id).await.map_err(|error| from_store(&error))?;
        let report = match found.filter(|record| record.status.is_final()) {
            Some(_) => self.store.report(tenant, test_id).await.map_err(|error| from_store(&error))?,
            // A report may lie there for a moment before its test is final, or after it is deleted.
            None => None,
        };
        let report = report.ok_or_else(|| {
            invalid_parameter("baseline", "must be the id of a test of the tenant that is final")
        })?;
        Ok(Some(report))
    }

    /// Returns the stored report of a test that has ended, or the report so far of a running test.
    /// `None` before the test has begun, and if its report has expired.
    async fn report(&self, record: &TestRecord, now: Timestamp) -> Result<Option<Report>, Problem> {
        if record.status.is_final() {
            let report = self.store.report(&record.tenant, record.test_id).await;
            return report.map_err(|error| from_store(&error));
        }
        let Some(run) = record.runs.last() else { return Ok(None) };
        let sum = self.store.sum(record.test_id, last_run(record), MOST_TALLIES, READ_WITHIN).await;
        let (sum, is_complete) = sum.map_err(|error| from_store(&error))?;
        let test = record.test.at_rate(run.rate_per_sec);
        Ok(Some(so_far(record, run.started_at, &test, (&sum, is_complete), self.memory_mb, now)))
    }
}

/// Builds the report so far of a running test, from the `sum` of its workers' counts. The report
/// covers the time up to three seconds before `now`, because the workers may not have stored the
/// counts of later messages yet. `is_complete` is false if counts could not be read, and
/// `memory_mb` is the memory of `load-step`.
fn so_far(
    record: &TestRecord,
    started_at: Timestamp,
    test: &LoadTest,
    (sum, is_complete): (&Sum, bool),
    memory_mb: u32,
    now: Timestamp,
) -> Report {
    let stored_to = now.checked_sub(BEHIND).unwrap_or(now);
    let cut_at = record.cut_at().map_or(stored_to, |cut| cut.min(stored_to));
    let facts = Facts {
        test_id: &record.test_id.to_string(),
        status: record.status,
        failure: record.failure.as_ref().map(|failure| failure.detail.as_str()),
        target: &record.target.to_string(),
        started_at,
        test,
        end: EndFacts { cut_at: Some(Micros::since_start(started_at, cut_at)), retained: None },
        search: None,
        usage: Usage::of(sum, memory_mb),
        complete: is_complete,
    };
    Report::of(&facts, sum)
}

/// Builds the response with the HTML page of a test's report. The page of a test that has not begun
/// has no figures. If the report of a test that has ended is gone, the error is a 404.
fn page(record: &TestRecord, report: Option<Report>, memory_mb: u32) -> Result<Reply, Problem> {
    let report = match report {
        Some(report) => report,
        None if record.status.is_final() => {
            return Err(Problem::new(Reason::TestNotFound, "the report of this test is not kept any more"));
        }
        None => {
            let nothing = (&Sum::default(), true);
            so_far(record, record.created_at, &record.test, nothing, memory_mb, record.created_at)
        }
    };
    let mut reply = fresh(Reply::new(200, "text/html; charset=utf-8", report.to_html()));
    reply.set_header("content-security-policy", POLICY);
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use load_test::TestStatus;
    use load_test::store::Failure;

    use super::*;
    use crate::samples::record;

    const MEMORY_MB: u32 = 1_024;

    fn at(time: &str) -> Timestamp {
        format!("2026-11-22T{time}Z").parse().unwrap()
    }

    fn report(record: &TestRecord, now: &str) -> Report {
        so_far(record, at("10:00:00"), &record.test, (&Sum::default(), true), MEMORY_MB, at(now))
    }

    #[test]
    fn what_was_due_in_the_last_seconds_is_not_missed() {
        let running = TestRecord { status: TestStatus::Running, ..record() };
        // Of 100 messages a second.
        assert_eq!(report(&running, "10:00:13").accounting.due, 1_000);
        assert_eq!(report(&running, "10:00:02").accounting.due, 0);
        let stopped = TestRecord { stop_requested_at: Some(at("10:00:05")), ..running.clone() };
        assert_eq!(report(&stopped, "10:00:13").accounting.due, 500);
        let failure = Some(Failure { at: at("10:00:02"), detail: "the queue is full".to_owned() });
        let failed = TestRecord { failure, ..running };
        let report = report(&failed, "10:00:13");
        assert_eq!((report.accounting.due, report.failure.as_deref()), (200, Some("the queue is full")));
    }

    #[test]
    fn a_page_runs_nothing_and_is_there_before_the_test_begins() {
        let reply = page(&record(), None, MEMORY_MB).unwrap();
        assert_eq!(reply.headers["content-type"], "text/html; charset=utf-8");
        let policy = &reply.headers["content-security-policy"];
        for directive in ["default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "sandbox"] {
            assert!(policy.contains(directive), "{policy}");
        }
        assert!(reply.body.starts_with("<!doctype html>") && reply.body.contains("PENDING"));
        let gone = TestRecord { status: TestStatus::Completed, ..record() };
        assert_eq!(page(&gone, None, MEMORY_MB).unwrap_err().reason, Reason::TestNotFound);
    }

    #[test]
    fn a_response_is_json_or_a_page() {
        let format = |name: &str| name.parse::<Format>();
        assert_eq!((format("json"), format("html")), (Ok(Format::Json), Ok(Format::Html)));
        assert!(["HTML", "pdf", ""].into_iter().all(|name| format(name).is_err()));
    }
}
