//! Turns of other work on the one thread of the runtime.

use std::time::{Duration, Instant};

/// Longest time that a worker without a pause works before the rest gets its turn: the client's
/// connection, the tally of each second, the order to end.
const TURN: Duration = Duration::from_millis(1);

/// Time since which a worker has worked without a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breath(Instant);

impl Breath {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Records that the worker has waited.
    pub(super) fn waited(&mut self) {
        self.0 = Instant::now();
    }

    /// Yields to other tasks, if the worker has used up its own turn.
    pub(super) async fn take(&mut self) {
        if self.0.elapsed() >= TURN {
            tokio::task::yield_now().await;
            self.waited();
        }
    }
}
