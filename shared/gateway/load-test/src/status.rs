//! States of a test.

use std::fmt;

use serde::{Deserialize, Serialize};

/// State of a load test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TestStatus {
    /// The test was accepted, and its workers are not ready yet.
    Pending,
    /// The workers of the load test produce and consume.
    Running,
    /// A caller stopped the test, and its workers have not all ended.
    Stopping,
    /// The test was stopped, and its report is stored.
    Stopped,
    /// The test ran to its end, and its report is stored. It may have failed its criteria.
    Completed,
    /// The test failed, and its report gives the reason.
    Failed,
}

/// Event in the life of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestEvent {
    /// The start was set, and the workers begin.
    Began,
    /// A caller asked to stop the test.
    StopRequested,
    /// The workers have ended, and the report is durable.
    ReportStored(Ending),
}

/// End of a test's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// The work was done, or stopped on request.
    Orderly,
    /// The work failed: the target is gone, or refuses the test.
    Broken,
}

/// Error of an event that cannot happen in this state, so the caller's view of the test is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} cannot happen to a test that is {status}")]
pub struct IllegalTransition {
    /// State of the load test.
    pub status: TestStatus,
    /// Event that cannot happen in the state.
    pub event: TestEvent,
}

impl TestStatus {
    /// All states, in the order in which a test has them.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Stopping, Self::Stopped, Self::Completed, Self::Failed];

    /// Returns the state after an event. A repeated event leaves the state as it is, and so does a
    /// stop that comes after the end.
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
            (Self::Pending | Self::Running | Self::Stopping, On::ReportStored(Ending::Broken)) => {
                Self::Failed
            }
            (Self::Running, On::ReportStored(Ending::Orderly)) => Self::Completed,
            (Self::Stopping, On::ReportStored(Ending::Orderly)) => Self::Stopped,
            (Self::Completed | Self::Stopped, On::ReportStored(Ending::Orderly)) => self,
            (Self::Failed, On::ReportStored(Ending::Broken)) => self,
            (status, event) => return Err(IllegalTransition { status, event }),
        })
    }

    /// True if nothing changes the test any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Stopped | Self::Completed | Self::Failed)
    }

    /// Returns the state's name in the API.
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

    const STORED: TestEvent = TestEvent::ReportStored(Ending::Orderly);
    const BROKEN: TestEvent = TestEvent::ReportStored(Ending::Broken);

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
