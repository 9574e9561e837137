//! Growing pauses for tests that poll.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses of a test that polls, from 100 ms up to 1 s. They grow, because each poll takes processor
/// time from the work that the test waits for.
#[derive(Debug)]
pub struct Pauses(Duration);

impl Pauses {
    pub const fn new() -> Self {
        Self(SHORTEST)
    }

    /// Waits, and makes the next pause half as long again.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 3 / 2).min(LONGEST);
    }
}

impl Default for Pauses {
    fn default() -> Self {
        Self::new()
    }
}
