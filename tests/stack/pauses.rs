//! Pauses between looks at what goes on elsewhere.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that grow, because each look takes processor time from what it waits for.
#[derive(Debug)]
pub struct Pauses(Duration);

impl Pauses {
    pub const fn new() -> Self {
        Self(SHORTEST)
    }

    /// Waits half as long again as the last time.
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
