//! States of a load test, and the events that change them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// State of a load test, which the store records and the API shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TestStatus {
    /// The load test was accepted, and none of its runs has begun yet.
    Pending,
    /// The load test runs: its first run has begun, nobody asked to stop it, and its report is not
    /// stored yet.
    Running,
    /// A caller asked to stop the load test, and its report is not stored yet.
    Stopping,
    /// The load test was stopped by a caller, and its report is stored.
    Stopped,
    /// The load test ran to its end, and its report is stored. The test may have missed its pass
    /// criteria.
    Completed,
    /// The load test failed, and its report gives the reason.
    Failed,
}

/// Event that changes the state of a load test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestEvent {
    /// A run of the load test begins: its start time is recorded.
    Began,
    /// A caller asked to stop the load test.
    StopRequested,
    /// The workers of the load test have ended, and its report is stored.
    ReportStored(TestEnding),
}

/// Manner in which the work of a load test ended: in order, or by a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestEnding {
    /// The workers did all of the test's work, or a caller stopped the test.
    Orderly,
    /// The test failed, for example because the target was lost or refused the test.
    Broken,
}

/// Error for an event that cannot happen to a load test in its current state. The caller assumed
/// another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} cannot happen to a test that is {status}")]
pub struct IllegalTransition {
    /// State of the load test when the event came.
    pub status: TestStatus,
    /// Event that cannot happen to a load test in the state `status`.
    pub event: TestEvent,
}

impl TestStatus {
    /// All states, in the order in which a load test passes through them.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Stopping, Self::Stopped, Self::Completed, Self::Failed];

    /// Returns the state of a load test after an event. A repeated event leaves the state
    /// unchanged, and so does a stop request for a test that has ended.
    ///
    /// # Errors
    /// If the event cannot happen in this state.
    pub const fn after(self, event: TestEvent) -> Result<Self, IllegalTransition> {
        use TestEvent as On;
        Ok(match (self, event) {
            (Self::Pending | Self::Running, On::Began) => Self::Running,
            // The stop came while the workers got ready.
            (Self::Stopping, On::Began) => Self::Stopping,
            (Self::Pending | Self::Running | Self::Stopping, On::StopRequested) => Self::Stopping,
            (final_status, On::StopRequested) => final_status,
            (Self::Pending | Self::Running | Self::Stopping, On::ReportStored(TestEnding::Broken)) => {
                Self::Failed
            }
            (Self::Running, On::ReportStored(TestEnding::Orderly)) => Self::Completed,
            (Self::Stopping, On::ReportStored(TestEnding::Orderly)) => Self::Stopped,
            (Self::Completed | Self::Stopped, On::ReportStored(TestEnding::Orderly)) => self,
            (Self::Failed, On::ReportStored(TestEnding::Broken)) => self,
            (status, event) => return Err(IllegalTransition { status, event }),
        })
    }

    /// True for STOPPED, COMPLETED and FAILED, the states that a load test does not leave.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Stopped | Self::Completed | Self::Failed)
    }

    /// Returns the state's name in the API, such as `RUNNING`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Stopping => "STOPPING",
            Self::Stopped => "STOPPED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }
}

impl fmt::Display for TestStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: TestEvent = TestEvent::ReportStored(TestEnding::Orderly);
    const BROKEN: TestEvent = TestEvent::ReportStored(TestEnding::Broken);

    #[test]
    fn a_test_goes_its_way() {
        use TestEvent as On;
        use TestStatus::*;
        for (events, expected) in [
            (&[On::Began, On::Began, STORED, STORED][..], Completed),
            (&[On::Began, On::StopRequested, On::StopRequested, STORED, On::StopRequested], Stopped),
            (&[On::StopRequested, On::Began, STORED, STORED], Stopped),
            (&[BROKEN, BROKEN, On::StopRequested], Failed),
            (&[On::Began, On::StopRequested, BROKEN], Failed),
            (&[On::Began, STORED, On::StopRequested], Completed),
        ] {
            let end = events.iter().try_fold(Pending, |status, event| status.after(*event));
            assert_eq!(end, Ok(expected), "{events:?}");
        }
    }

    #[test]
    fn each_state_takes_only_what_can_happen_to_it() {
        use TestStatus::*;
        for (event, allowed) in [
            (TestEvent::Began, &[Pending, Running, Stopping][..]),
            (TestEvent::StopRequested, &TestStatus::ALL),
            (STORED, &[Running, Stopping, Completed, Stopped]),
            (BROKEN, &[Pending, Running, Stopping, Failed]),
        ] {
            for status in TestStatus::ALL {
                assert_eq!(status.after(event).is_ok(), allowed.contains(&status), "{event:?} in {status}");
            }
        }
    }

    #[test]
    fn the_names_are_the_contract_s() {
        for status in TestStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
