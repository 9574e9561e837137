//! Pauses of a busy worker, in which it leaves the runtime's only thread to other tasks of the
//! invocation.

use std::time::{Duration, Instant};

/// Longest time that a worker runs without a pause before it yields the thread to other tasks: the
/// broker's client, the storing of the worker's counts, the reading of the test's state.
const LONGEST_RUN: Duration = Duration::from_millis(1);

/// Timer that tells when a worker has to yield the thread. It holds the instant since which the
/// worker has run without a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct YieldTimer(Instant);

impl YieldTimer {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Records that the worker has just waited, and so has let other tasks run.
    pub(super) fn waited(&mut self) {
        self.0 = Instant::now();
    }

    /// Yields to other tasks if the worker has run for [`LONGEST_RUN`] without a pause.
    pub(super) async fn yield_if_due(&mut self) {
        if self.0.elapsed() >= LONGEST_RUN {
            tokio::task::yield_now().await;
            self.waited();
        }
    }
}
