//! Hours in UTC, by which requests are counted.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};

const SECONDS: i64 = 3_600;

/// Hour in UTC, written as `2026-11-27T02`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(i64);

/// Error for a text that is not an hour such as `2026-11-27T02`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an hour is written as 2026-11-27T02")]
pub struct MalformedHour;

impl Hour {
    /// Returns the hour that contains a time.
    #[must_use]
    pub fn of(time: Timestamp) -> Self {
        Self(time.as_second().div_euclid(SECONDS))
    }

    /// Returns the time at which the hour begins.
    #[must_use]
    pub fn start(self) -> Timestamp {
        Timestamp::from_second(self.0.saturating_mul(SECONDS)).unwrap_or_default()
    }

    /// Returns the time at which the hour is over: the start of the next hour.
    #[must_use]
    pub fn end(self) -> Timestamp {
        self.next().start()
    }

    /// Returns the day (UTC) that contains the hour.
    #[must_use]
    pub fn day(self) -> Date {
        self.start().to_zoned(TimeZone::UTC).date()
    }

    /// Returns the hour after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the hour before this one.
    #[must_use]
    pub const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.start().to_zoned(TimeZone::UTC);
        write!(f, "{}T{:02}", start.date(), start.hour())
    }
}

impl FromStr for Hour {
    type Err = MalformedHour;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let start: Timestamp = format!("{text}:00:00Z").parse().map_err(|_| MalformedHour)?;
        let hour = Self::of(start);
        if hour.to_string() == text { Ok(hour) } else { Err(MalformedHour) }
    }
}

impl Serialize for Hour {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the time at which a day begins in UTC.
pub(crate) fn start_of(day: Date) -> Timestamp {
    day.to_zoned(TimeZone::UTC).map(|start| start.timestamp()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_read_as_it_is_written() {
        let hour = Hour::of("2026-11-27T02:59:59.999Z".parse().unwrap());
        assert_eq!(hour.to_string(), "2026-11-27T02");
        assert_eq!("2026-11-27T02".parse(), Ok(hour));
        assert_eq!(hour.start().to_string(), "2026-11-27T02:00:00Z");
        assert_eq!(hour.end().to_string(), "2026-11-27T03:00:00Z");
        assert_eq!((hour.next().before(), hour.day().to_string().as_str()), (hour, "2026-11-27"));
        for wrong in ["", "2026-11-27", "2026-11-27T24", "2026-11-27 02", "2026-11-27T02:00", "2026-11-27T2"]
        {
            assert_eq!(wrong.parse::<Hour>(), Err(MalformedHour), "{wrong}");
        }
    }
}
