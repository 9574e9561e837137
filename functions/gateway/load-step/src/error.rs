//! Reasons why an invocation fails. The state machine repeats it then.

use load_test::store::TestStoreError;
use load_test::{Lane, Window};
use usage::UsageError;
use uuid::Uuid;

/// Reason why an action of a load test failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadStepError {
    /// The store did not answer for as long as there was time, or has something that cannot be
    /// read.
    #[error("the store of load tests did not do its part")]
    Store(#[from] TestStoreError),
    /// The end of the test was not counted. A further close counts it.
    #[error("the end of the load test was not counted")]
    Usage(#[from] UsageError),
    /// The event is about a run that never began.
    #[error("the load test {test_id} has no run {run}")]
    NoRun { test_id: Uuid, run: u32 },
    /// The event is about a window that the plan of the run does not have.
    #[error("the lane {lane} has no window {}", .window.number())]
    NoWindow { lane: Lane, window: Window },
    /// The store did not report whether this invocation claimed the step. A later attempt takes the
    /// step over.
    #[error("the claim of window {} of lane {lane} was not answered", .window.number())]
    ClaimInDoubt { lane: Lane, window: Window },
}
