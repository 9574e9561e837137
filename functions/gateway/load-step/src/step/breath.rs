//! Turns of other work on the one thread of the runtime.

use std::time::{Duration, Instant};

/// Longest time that a worker runs without a pause before it yields the thread to other tasks: the
/// broker's client, the storing of the worker's counts, the order to end.
const TURN: Duration = Duration::from_millis(1);

/// Instant since which a worker has run without a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breath(Instant);

impl Breath {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Records that the worker has just waited, so that other tasks had their turn.
    pub(super) fn waited(&mut self) {
        self.0 = Instant::now();
    }

    /// Yields to other tasks if the worker has run for [`TURN`] without a pause.
    pub(super) async fn take(&mut self) {
        if self.0.elapsed() >= TURN {
            tokio::task::yield_now().await;
            self.waited();
        }
    }
}
