//! Record of a load test, as it is stored and read.

use jiff::Timestamp;
use mq::{RateLimit, Target};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::{LoadTest, TestEnding, TestStatus};

/// Stored record of a load test: its definition, its state and its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct TestRecord {
    /// Id of the tenant that the load test belongs to.
    pub tenant: String,
    /// Id of the test, a UUID of version 7.
    pub test_id: Uuid,
    /// Trace id of the request that created the load test.
    pub trace_id: String,
    /// Name of the API key or of the token that created the load test; empty in a record of an
    /// earlier version.
    pub key_name: String,
    /// State of the load test, such as RUNNING.
    pub status: TestStatus,
    /// Definition of the load test: the work that it was asked to do.
    pub test: LoadTest,
    /// Target of the load test, as it was resolved and permitted when the test was created.
    pub target: Target,
    /// Time at which the test was accepted.
    pub created_at: Timestamp,
    /// Runs that began, in order: the probes of a search, or the single run of any other test.
    pub runs: Vec<Run>,
    /// Time of the first request to stop the test; `None` if there was none.
    pub stop_requested_at: Option<Timestamp>,
    /// Reason why the test failed; `None` unless it failed.
    pub failure: Option<Failure>,
    /// Time at which the load test ended; `None` before.
    pub ended_at: Option<Timestamp>,
    /// First line of the report; `None` before the load test has ended.
    pub summary: Option<String>,
    /// True if the load test passed; `None` before it has ended, and if it was stopped.
    pub passed: Option<bool>,
}

/// Key of a run: the load test, and the number of the run in it. The number is 0 unless the test is
/// a search with several probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestRun {
    /// Id of the tenant that the load test belongs to.
    pub tenant: String,
    /// Id of the load test.
    pub test_id: Uuid,
    /// Number of the run within the load test, from 0.
    pub run: u32,
}

/// Run of a load test that has begun: the test's single run, or one probe of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Rate of a probe in messages a second; `None` for the run of a test that is no search.
    pub rate_per_sec: Option<RateLimit>,
    /// Time from which the run's messages are due.
    pub started_at: Timestamp,
    /// Time at which the run was closed, after its workers had ended; `None` before.
    pub ended_at: Option<Timestamp>,
    /// True if the run is a probe of a search and has passed, by its report; `None` before the
    /// probe's end, if it was cut short, and for a run that is no probe.
    pub passed: Option<bool>,
    /// Number of messages on the run's queues after its workers had ended; `None` before the run's
    /// end, and if the number is unknown.
    pub retained: Option<u64>,
}

/// End of a run, as it is stored when the run is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// True if the run is a probe of a search and has passed, by its report; `None` if it is no
    /// probe, or was cut short.
    pub passed: Option<bool>,
    /// Number of messages on the run's queues after its workers had ended; `None` if unknown.
    pub retained: Option<u64>,
    /// Time at which the run was closed, after its workers had ended.
    pub ended_at: Timestamp,
}

/// Reason why a load test failed. If several invocations fail, the first one records its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Time at which the failure of the test was recorded.
    pub at: Timestamp,
    /// Explanation of the failure for the caller of the API.
    pub detail: String,
}

/// Part of a test's state that each worker reads once a second, to know whether to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Control {
    /// State of the load test, such as RUNNING.
    pub status: TestStatus,
    /// Time of the first request to stop the test; `None` if there was none.
    pub stop_requested_at: Option<Timestamp>,
    /// True if the test has failed.
    #[serde(default, rename = "failure", deserialize_with = "is_there")]
    pub failed: bool,
}

fn is_there<'de, D: Deserializer<'de>>(failure: D) -> Result<bool, D::Error> {
    Ok(Option::<Failure>::deserialize(failure)?.is_some())
}

impl TestRecord {
    /// Creates the record of a test that was accepted and has not begun. `key_name` is left empty.
    #[must_use]
    pub fn new(
        tenant: &str,
        test_id: Uuid,
        trace_id: &str,
        test: LoadTest,
        target: Target,
        created_at: Timestamp,
    ) -> Self {
        Self {
            tenant: tenant.to_owned(),
            test_id,
            trace_id: trace_id.to_owned(),
            key_name: String::new(),
            status: TestStatus::Pending,
            test,
            target,
            created_at,
            runs: Vec::new(),
            stop_requested_at: None,
            failure: None,
            ended_at: None,
            summary: None,
            passed: None,
        }
    }

    /// Returns the part of the record that tells workers whether to continue.
    #[must_use]
    pub const fn control(&self) -> Control {
        Control {
            status: self.status,
            stop_requested_at: self.stop_requested_at,
            failed: self.failure.is_some(),
        }
    }

    /// Returns the time at which the test was stopped or failed; `None` if neither happened.
    #[must_use]
    pub fn cut_at(&self) -> Option<Timestamp> {
        let failed_at = self.failure.as_ref().map(|failure| failure.at);
        self.stop_requested_at.into_iter().chain(failed_at).min()
    }
}

impl Control {
    /// True if the workers have to end, because the test was stopped, has failed or has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.failed || self.stop_requested_at.is_some() || self.status.is_final()
    }

    /// Returns the manner in which the test ends if its report is stored now: broken if the test
    /// has failed, otherwise orderly.
    #[must_use]
    pub const fn ending(&self) -> TestEnding {
        if self.failed { TestEnding::Broken } else { TestEnding::Orderly }
    }
}
