//! Ages in a function that freezes.
//!
//! Between invocations a function's machine may be paused. Its monotonic clock may stand still
//! then, so an age that is measured by [`Instant`] alone comes out too small. The age of everything
//! that may be used only for a limited time is measured by a [`Moment`].

use std::time::{Duration, Instant, SystemTime};

/// Point in time on the monotonic and on the system clock. The monotonic clock stops while Lambda
/// freezes a function, and the system clock can be set; the greater age counts, so that nothing
/// seems too young.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    monotonic: Instant,
    system: SystemTime,
}

impl Moment {
    /// Returns the present moment on the monotonic and on the system clock.
    #[must_use]
    pub fn now() -> Self {
        Self { monotonic: Instant::now(), system: SystemTime::now() }
    }

    /// Creates a moment from a time of each clock, for tests in which they differ.
    #[must_use]
    pub const fn on(monotonic: Instant, system: SystemTime) -> Self {
        Self { monotonic, system }
    }

    /// Returns the time that has passed since this moment.
    #[must_use]
    pub fn age(self) -> Duration {
        self.age_at(Self::now())
    }

    /// Returns the time from this moment to `now`, by the clock that shows more. A clock that was
    /// set back counts as zero.
    #[must_use]
    pub fn age_at(self, now: Self) -> Duration {
        let monotonic = now.monotonic.saturating_duration_since(self.monotonic);
        monotonic.max(now.system.duration_since(self.system).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_clock_that_went_further_counts() {
        let start = Moment::now();
        let frozen = Moment::on(start.monotonic, start.system + MINUTE);
        let set_back = Moment::on(start.monotonic + MINUTE, start.system - MINUTE);
        assert_eq!((start.age_at(start), start.age_at(frozen)), (Duration::ZERO, MINUTE));
        assert_eq!(start.age_at(set_back), MINUTE);
        assert_eq!(frozen.age_at(start), Duration::ZERO, "a moment to come has no age");
    }
}
