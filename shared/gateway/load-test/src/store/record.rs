//! Record of a test in the store.

use jiff::Timestamp;
use mq::{RateLimit, Target};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::{Ending, LoadTest, TestStatus};

/// Stored state of a load test.
#[derive(Clone, Debug, PartialEq)]
pub struct TestRecord {
    /// Id of the tenant that the load test belongs to.
    pub tenant: String,
    /// Id of the test, a UUID of version 7.
    pub test_id: Uuid,
    /// Trace id of the request that made the test.
    pub trace_id: String,
    /// Name of the API key or of the token that made the test; empty in a record of an earlier
    /// version.
    pub key_name: String,
    /// State of the load test.
    pub status: TestStatus,
    /// Definition of the load test.
    pub test: LoadTest,
    /// Target that the test was allowed to use.
    pub target: Target,
    /// Time at which the test was accepted.
    pub created_at: Timestamp,
    /// Runs that began, in order: the probes of a search, or the single run of another test.
    pub runs: Vec<Run>,
    /// Time of the first request to stop the test; `None` if there was none.
    pub stop_requested_at: Option<Timestamp>,
    /// Reason why the test failed; `None` unless it failed.
    pub failure: Option<Failure>,
    /// Time at which the test became final; `None` before.
    pub ended_at: Option<Timestamp>,
    /// First line of the report; `None` before the test is final.
    pub summary: Option<String>,
    /// True if the report meets its criteria; `None` before the test is final, or if there is
    /// nothing to judge.
    pub passed: Option<bool>,
}

/// Key of a run of a test: number 0, or that of the probe of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestRun {
    /// Id of the tenant that the load test belongs to.
    pub tenant: String,
    /// Id of the load test.
    pub test_id: Uuid,
    /// Number of the run, counted within the load test.
    pub run: u32,
}

/// Run of a load test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Rate of the run, if it is a probe of a search.
    pub rate_per_sec: Option<RateLimit>,
    /// Time from which the run's messages are due.
    pub started_at: Timestamp,
    /// Time at which the run's workers were done; `None` before.
    pub ended_at: Option<Timestamp>,
    /// True if the run's report passed; `None` before the run's end, and if it is no probe or was
    /// cut short.
    pub passed: Option<bool>,
    /// True if the run's queues were seen empty after the last message; `None` before the run's
    /// end.
    pub drained: Option<bool>,
}

/// End of a load test's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// True if the run's report passed; `None` if the run is no probe, or was cut short.
    pub passed: Option<bool>,
    /// True if the queues were seen empty after the last message.
    pub drained: bool,
    /// Time at which the workers were done.
    pub ended_at: Timestamp,
}

/// Reason why a test failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Time at which the failure was recorded.
    pub at: Timestamp,
    /// Explanation for the caller.
    pub detail: String,
}

/// State of a test that a worker reads once a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Control {
    /// State of the load test.
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
    /// Creates the record of a test that was accepted and has not begun, without the name of a key.
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

    /// Returns whether the test was stopped, has failed or has ended, from its record.
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
    /// True if the workers have to end: the test was stopped, has failed, or is final.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.failed || self.stop_requested_at.is_some() || self.status.is_final()
    }

    /// Returns the end of a test that ends now.
    #[must_use]
    pub const fn ending(&self) -> Ending {
        if self.failed { Ending::Broken } else { Ending::Orderly }
    }
}
