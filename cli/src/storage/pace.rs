//! Rate limit of uploads.

use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::BLOCK;

/// Rate limit that all uploads of a command share. The next bytes may be sent once the bytes before
/// have taken the time that they need at this rate.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) per_second: NonZeroU64,
    free_at: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(per_second: NonZeroU64) -> Self {
        Self { per_second, free_at: Mutex::new(Instant::now()) }
    }

    /// Returns the maximum number of bytes that an upload sends at once: those of one second, so
    /// that even a slow rate shows progress, but at most [`BLOCK`].
    pub(super) fn block(&self) -> usize {
        usize::try_from(self.per_second.get()).unwrap_or(BLOCK).min(BLOCK)
    }

    /// Waits until the rate limit permits sending this number of bytes.
    pub(super) async fn wait(&self, bytes: u64) {
        tokio::time::sleep_until(self.turn(bytes, Instant::now()).into()).await;
    }

    /// Returns the time, `now` or later, at which this number of bytes may be sent, and reserves
    /// the time that sending them takes at the limited rate.
    fn turn(&self, bytes: u64, now: Instant) -> Instant {
        let cost = Duration::from_micros(bytes.saturating_mul(1_000_000) / self.per_second);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*free_at).max(now);
        *free_at = turn.checked_add(cost).unwrap_or(turn);
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_share_a_pace() {
        let now = Instant::now();
        let pace = Pace { per_second: NonZeroU64::new(1000).unwrap(), free_at: Mutex::new(now) };
        let turns = [500, 500, 1000, 10].map(|bytes| pace.turn(bytes, now).duration_since(now));
        assert_eq!(turns, [0, 500, 1000, 2000].map(Duration::from_millis));
        let later = now + Duration::from_secs(60);
        assert_eq!(pace.turn(10, later), later, "nothing is saved up");
        assert_eq!(pace.block(), 1000);
        let fast = Pace { per_second: NonZeroU64::MAX, free_at: Mutex::new(now) };
        assert_eq!((fast.block(), fast.turn(u64::MAX, now)), (BLOCK, now));
    }
}
