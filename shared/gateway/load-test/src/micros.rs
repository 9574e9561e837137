//! Time in microseconds, as load tests measure it.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Time in microseconds since the start of a load test's run, or between two events of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(u64);

impl Micros {
    /// Zero: the start of the load test's run, or an empty span of time.
    pub const ZERO: Self = Self(0);
    /// Number of microseconds in a second.
    pub const A_SECOND: u64 = 1_000_000;

    /// Creates a time from microseconds.
    #[must_use]
    pub const fn new(microseconds: u64) -> Self {
        Self(microseconds)
    }

    /// Creates a time from whole seconds.
    #[must_use]
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(Self::A_SECOND))
    }

    /// Returns the time from the run's `start` until `at`; zero if `at` is earlier.
    #[must_use]
    pub fn since_start(start: Timestamp, at: Timestamp) -> Self {
        Self(u64::try_from(at.as_microsecond().saturating_sub(start.as_microsecond())).unwrap_or(0))
    }

    /// Converts this time since a run's start to a timestamp, for a run that began at `start`.
    #[must_use]
    pub fn of_day(self, start: Timestamp) -> Timestamp {
        start.checked_add(Duration::from(self)).unwrap_or(Timestamp::MAX)
    }

    /// Returns this time as a number of microseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns this time in whole seconds, rounded down.
    #[must_use]
    pub const fn whole_seconds(self) -> u64 {
        self.0 / Self::A_SECOND
    }

    /// Returns this time in seconds, with a fraction.
    #[must_use]
    pub fn seconds(self) -> f64 {
        Duration::from(self).as_secs_f64()
    }

    /// Returns this time plus `more`.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    /// Returns the time that has passed since `earlier`; zero if `earlier` is later than this time.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Micros {
    /// Converts a duration to microseconds. A duration beyond 500,000 years becomes the longest
    /// time that the type can express.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Micros> for Duration {
    fn from(micros: Micros) -> Self {
        Self::from_micros(micros.0)
    }
}
