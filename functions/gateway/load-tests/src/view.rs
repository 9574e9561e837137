//! Load tests in the form in which responses show them.

use api::Reply;
use jiff::Timestamp;
use load_test::store::{Run, TestRecord};
use load_test::{Report, Series, TestStatus};
use mq::RateLimit;
use serde::Serialize;
use uuid::Uuid;

/// Maximum number of bytes of a response. With every quote escaped, as Lambda sends it, it still
/// fits Lambda's limit of 6 MB.
const MAX_BYTES: usize = 4_000_000;

/// Load test as an entry in the response to `GET /tests`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedTest {
    pub test_id: Uuid,
    pub status: TestStatus,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub target: String,
    pub workers: u32,
    pub summary: Option<String>,
    pub passed: Option<bool>,
}

/// Load test in the response to `GET /tests/{test_id}`, with its runs and its report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownTest {
    #[serde(flatten)]
    pub listed: ListedTest,
    pub stop_requested_at: Option<Timestamp>,
    pub runs: Vec<ShownRun>,
    pub failure: Option<String>,
    /// True if the report includes all counts that the workers stored; false also without a report.
    pub complete: bool,
    pub warnings: Vec<String>,
    pub report: Option<Report>,
}

/// Run of a load test in a response: a probe of a search, or the single run of any other test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownRun {
    pub rate_per_sec: Option<RateLimit>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub passed: Option<bool>,
}

impl ListedTest {
    pub(crate) fn of(record: &TestRecord) -> Self {
        Self {
            test_id: record.test_id,
            status: record.status,
            created_at: record.created_at,
            ended_at: record.ended_at,
            target: record.target.to_string(),
            workers: record.test.worker_count(),
            summary: record.summary.clone(),
            passed: record.passed,
        }
    }
}

impl ShownTest {
    /// Builds the response's form of a test with its report, or with the report so far if the test
    /// has not ended. `report` is `None` before the test has begun, or if the report has expired.
    pub(crate) fn of(record: TestRecord, report: Option<Report>) -> Self {
        let mut listed = ListedTest::of(&record);
        listed.summary = record.summary.or_else(|| report.as_ref().map(|report| report.summary.clone()));
        Self {
            listed,
            stop_requested_at: record.stop_requested_at,
            runs: record.runs.into_iter().map(ShownRun::of).collect(),
            failure: record.failure.map(|failure| failure.detail),
            complete: report.as_ref().is_some_and(|report| report.complete),
            warnings: Vec::new(),
            report,
        }
    }

    /// Builds the JSON response. If it is larger than [`MAX_BYTES`], the report's figures of each
    /// second are left out, and a warning says so.
    pub(crate) fn into_reply(mut self) -> Reply {
        let reply = json(&self);
        match &mut self.report {
            Some(report) if reply.body.len() > MAX_BYTES => {
                report.series = Series::default();
                self.warnings.push("the report is too large for a response: it has no series".to_owned());
                json(&self)
            }
            _ => reply,
        }
    }
}

impl ShownRun {
    fn of(run: Run) -> Self {
        let Run { rate_per_sec, started_at, ended_at, passed, retained: _ } = run;
        Self { rate_per_sec, started_at, ended_at, passed }
    }
}

/// Builds a 200 response with a JSON body that clients must not cache.
pub(crate) fn json(body: &impl Serialize) -> Reply {
    fresh(Reply::json(200, body))
}

/// Sets the header that forbids caches to store the response.
pub(crate) fn fresh(mut reply: Reply) -> Reply {
    reply.set_header("cache-control", "no-store");
    reply
}

#[cfg(test)]
mod tests {
    use load_test::store::Failure;
    use serde_json::{Value, json};

    use super::*;
    use crate::samples::{record, report};

    fn body(shown: ShownTest) -> Value {
        serde_json::from_str(&shown.into_reply().body).unwrap()
    }

    #[test]
    fn a_test_that_has_not_begun_has_no_report() {
        let shown = body(ShownTest::of(record(), None));
        let record = record();
        let expected = json!({
            "testId": record.test_id, "status": "PENDING", "createdAt": "2026-11-22T10:00:00Z",
            "stopRequestedAt": null, "endedAt": null, "target": "/:DEV.QUEUE.1", "workers": 3, "runs": [],
            "failure": null, "summary": null, "passed": null, "complete": false, "warnings": [], "report": null
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_test_under_way_has_the_summary_so_far_and_a_final_one_its_own() {
        let run = Run {
            rate_per_sec: Some(RateLimit::default()),
            started_at: record().created_at,
            ended_at: None,
            passed: Some(false),
            retained: Some(0),
        };
        let detail = "the broker is away".to_owned();
        let failure = Some(Failure { at: record().created_at, detail: detail.clone() });
        let under_way = TestRecord { runs: vec![run], failure, ..record() };
        let shown = body(ShownTest::of(under_way, Some(report())));
        assert_eq!((&shown["summary"], &shown["failure"]), (&json!(report().summary), &json!(detail)));
        let runs =
            json!([{"ratePerSec": 1, "startedAt": "2026-11-22T10:00:00Z", "endedAt": null, "passed": false}]);
        assert_eq!(shown["runs"], runs);
        let summary = Some("first of all".to_owned());
        let last = TestRecord { summary: summary.clone(), passed: Some(true), ..record() };
        assert_eq!(ShownTest::of(last, Some(report())).listed.summary, summary);
    }

    #[test]
    fn a_report_of_some_of_what_was_stored_is_not_complete_also_once_the_test_is_final() {
        let last = TestRecord { status: TestStatus::Completed, ..record() };
        for complete in [true, false] {
            let report = Report { complete, ..report() };
            assert_eq!(ShownTest::of(last.clone(), Some(report)).complete, complete);
        }
    }

    #[test]
    fn a_report_that_no_response_can_carry_is_shown_without_its_seconds() {
        let mut report = report();
        report.series.sent = vec![1_000_000; 700_000];
        let shown = body(ShownTest::of(record(), Some(report)));
        assert_eq!(shown["report"]["series"]["sent"], json!([]));
        assert!(shown["warnings"][0].as_str().unwrap().contains("no series"), "{}", shown["warnings"]);
    }
}
