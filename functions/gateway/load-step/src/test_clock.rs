//! Clock of a load test's run, and the times that messages carry.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use load_test::Micros;

/// Number of readings of the time of day when a clock is set. The most precise of them is used.
const READINGS: usize = 5;

/// Clock that measures time since the start of a load test's run. It is set once from the time of
/// day, and follows the monotonic clock from then on, so that a correction of the time of day does
/// not move messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestClock {
    start: Timestamp,
    set_at: Instant,
    /// Microseconds between the run's start and the moment when the clock was set; negative if it
    /// was set before the start.
    then: i64,
}

impl TestClock {
    /// Creates a clock for a run that starts, or has started, at the time of day `start`.
    pub(crate) fn of(start: Timestamp) -> Self {
        let reading = (1..READINGS).fold(Reading::now(), |best, _| best.narrower(Reading::now()));
        Self::set(start, reading.time, reading.after)
    }

    fn set(start: Timestamp, now: Timestamp, set_at: Instant) -> Self {
        Self { start, set_at, then: now.as_microsecond().saturating_sub(start.as_microsecond()) }
    }

    /// Returns the time since the run's start; zero before the start.
    pub(crate) fn now(&self) -> Micros {
        self.at(Instant::now())
    }

    /// Converts a monotonic instant to the time since the run's start; zero before the start.
    pub(crate) fn at(&self, instant: Instant) -> Micros {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        let since = match instant.checked_duration_since(self.set_at) {
            Some(later) => self.then.saturating_add(micros(later)),
            None => self.then.saturating_sub(micros(self.set_at.saturating_duration_since(instant))),
        };
        Micros::new(u64::try_from(since).unwrap_or(0))
    }

    /// Converts a time since the run's start to a monotonic instant for timers. A time before the
    /// clock was set becomes the instant at which it was set, which has passed.
    pub(crate) fn instant(&self, at: Micros) -> tokio::time::Instant {
        let ahead = i64::try_from(at.get()).unwrap_or(i64::MAX).saturating_sub(self.then);
        let ahead = Duration::from_micros(u64::try_from(ahead).unwrap_or(0));
        self.set_at.checked_add(ahead).unwrap_or(self.set_at).into()
    }

    /// Returns the stamp that a message carries: the time of day at which it is due, in
    /// microseconds since 1970. `due` is the same time, counted from the run's start.
    pub(crate) fn stamp(&self, due: Micros) -> u64 {
        u64::try_from(due.of_day(self.start).as_microsecond()).unwrap_or(0)
    }

    /// Returns the time since the run's start at which a message with this stamp was due; `None` if
    /// it was due before the start, and so belongs to an earlier run of the test.
    pub(crate) fn of_stamp(&self, stamp: u64) -> Option<Micros> {
        let start = u64::try_from(self.start.as_microsecond()).ok()?;
        stamp.checked_sub(start).map(Micros::new)
    }
}

/// Reading of the time of day, with the monotonic instants just before and after it. A clock that
/// is set from the reading is the less precise the further these instants lie apart, for example
/// because the thread lost the processor. An invocation uses its clock for a whole minute of the
/// test.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    before: Instant,
    time: Timestamp,
    after: Instant,
}

impl Reading {
    fn now() -> Self {
        let before = Instant::now();
        let time = Timestamp::now();
        Self { before, time, after: Instant::now() }
    }

    fn width(&self) -> Duration {
        self.after.saturating_duration_since(self.before)
    }

    /// Returns the more precise of two readings: the one with the shorter time between its
    /// instants.
    fn narrower(self, other: Self) -> Self {
        if other.width() < self.width() { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock(second: i64) -> (TestClock, Instant) {
        let at = |second: i64| Timestamp::from_second(1_795_000_000 + second).unwrap();
        let instant = Instant::now();
        (TestClock::set(at(0), at(second), instant), instant)
    }

    #[test]
    fn time_goes_on_by_the_monotonic_clock() {
        let (clock, set_at) = clock(100);
        assert_eq!(clock.at(set_at), Micros::from_seconds(100));
        assert_eq!(clock.at(set_at + SECOND), Micros::from_seconds(101));
        assert_eq!(clock.instant(Micros::from_seconds(103)).into_std(), set_at + 3 * SECOND);
        assert_eq!(clock.instant(Micros::from_seconds(50)).into_std(), set_at);
    }

    #[test]
    fn of_several_readings_the_one_that_took_the_least_time_counts() {
        let (before, time) = (Instant::now(), Timestamp::now());
        let narrow = Reading { before, time, after: before + Duration::from_millis(1) };
        let wide = Reading { before, time, after: before + Duration::from_millis(40) };
        assert_eq!((narrow.narrower(wide), wide.narrower(narrow)), (narrow, narrow));
        let read = Reading::now();
        assert!(read.before <= read.after);
    }

    #[test]
    fn no_time_has_passed_before_the_start() {
        let (clock, set_at) = clock(-3);
        assert_eq!(clock.at(set_at + 2 * SECOND), Micros::ZERO);
        assert_eq!(clock.at(set_at + 5 * SECOND), Micros::from_seconds(2));
        assert_eq!(clock.instant(Micros::ZERO).into_std(), set_at + 3 * SECOND);
    }

    #[test]
    fn a_message_says_when_it_was_due() {
        let (clock, _) = clock(100);
        let due = Micros::new(12_345_678);
        assert_eq!(clock.stamp(due), 1_795_000_012_345_678);
        assert_eq!(clock.of_stamp(clock.stamp(due)), Some(due));
        assert_eq!(clock.of_stamp(clock.stamp(Micros::ZERO) - 1), None);
    }
}
