//! Errors of an invocation, after which the state machine repeats it.

use load_test::store::TestStoreError;
use load_test::{Lane, Window};
use usage::UsageError;
use uuid::Uuid;

/// Reason why an action of a load test (prepare, step or close) failed. The state machine then
/// repeats the action.
#[derive(Debug, thiserror::Error)]
pub enum LoadStepError {
    /// The store of load tests failed with an error that no retry can help, or until no time was
    /// left for a retry.
    #[error("the store of load tests did not do its part")]
    Store(#[from] TestStoreError),
    /// The usage table failed, so the end of the load test was not added to the tenant's usage.
    /// Closing the test again adds it.
    #[error("the end of the load test was not counted")]
    Usage(#[from] UsageError),
    /// The event names a run that has not begun in its load test.
    #[error("the load test {test_id} has no run {run}")]
    NoRun { test_id: Uuid, run: u32 },
    /// The event names a window (minute of the test) in which this lane (a worker's series of
    /// invocations) has no work by the run's plan.
    #[error("the lane {lane} has no window {}", .window.number())]
    NoWindow { lane: Lane, window: Window },
    /// The store's response was lost, so it is unknown whether this invocation claimed its minute
    /// of the test. A later attempt takes over the work.
    #[error("the claim of window {} of lane {lane} was not answered", .window.number())]
    ClaimInDoubt { lane: Lane, window: Window },
}
