//! Deadlines of operations, such as the work of an invocation.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tokio::time::error::Elapsed;

/// Maximum duration of a deadline: a year, which is longer than any operation, and cannot overflow
/// a clock.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Point in time at which an operation has to end.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// Creates a deadline `duration` from now, but at most a year.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        let now = Instant::now();
        Self(now.checked_add(duration.min(FOREVER)).unwrap_or(now))
    }

    /// Creates a deadline at an instant of tokio's clock.
    #[must_use]
    pub const fn at(instant: Instant) -> Self {
        Self(instant)
    }

    /// Creates the deadline for the work of an invocation, `reserve` before `ends_at`, when Lambda
    /// ends it. The deadline has passed already if less time than `reserve` is left.
    #[must_use]
    pub fn of_invocation(ends_at: SystemTime, reserve: Duration) -> Self {
        let left = ends_at.duration_since(SystemTime::now()).unwrap_or_default();
        Self::after(left.saturating_sub(reserve))
    }

    /// Returns the deadline as an instant of tokio's clock.
    #[must_use]
    pub const fn instant(self) -> Instant {
        self.0
    }

    /// Returns the time that is left; zero once it has passed.
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Returns whether the deadline has passed.
    #[must_use]
    pub fn has_passed(self) -> bool {
        self.remaining().is_zero()
    }

    /// Returns the earlier of this deadline and `duration` from now.
    #[must_use]
    pub fn min(self, duration: Duration) -> Self {
        Self(self.0.min(Self::after(duration).0))
    }

    /// Returns a deadline `duration` before this one.
    #[must_use]
    pub fn earlier_by(self, duration: Duration) -> Self {
        Self(self.0.checked_sub(duration).unwrap_or_else(Instant::now))
    }

    /// Runs `future`, at most until the deadline.
    ///
    /// # Errors
    /// If the deadline passes first; `future` is dropped.
    pub async fn run<F: Future>(self, future: F) -> Result<F::Output, Elapsed> {
        tokio::time::timeout_at(self.0, future).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_invocation_keeps_its_reserve_free() {
        let now = SystemTime::now();
        let left = Deadline::of_invocation(now + 30 * SECOND, 2 * SECOND).remaining();
        assert!(left > 27 * SECOND && left <= 28 * SECOND, "{left:?}");
        for (ends_at, reserve) in [(now + SECOND, 2 * SECOND), (now - SECOND, Duration::ZERO)] {
            assert!(Deadline::of_invocation(ends_at, reserve).has_passed());
        }
    }

    #[test]
    fn no_time_is_too_long_or_too_far_away() {
        for duration in [Duration::MAX, FOREVER] {
            assert!(Deadline::after(duration).remaining() > FOREVER - SECOND);
            assert!(Deadline::after(SECOND).min(duration).remaining() <= SECOND);
            assert!(Deadline::after(SECOND).earlier_by(duration).remaining() <= SECOND);
        }
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(u32::MAX) * 100);
        assert!(!Deadline::of_invocation(far, SECOND).has_passed());
    }

    #[tokio::test]
    async fn work_that_outlasts_its_deadline_is_dropped() {
        let never = std::future::pending::<()>();
        assert!(Deadline::after(Duration::ZERO).run(never).await.is_err());
        assert_eq!(Deadline::after(SECOND).run(async { 1 }).await.unwrap(), 1);
    }
}
