use std::str::FromStr;

use jiff::tz::TimeZone;

/// The time zone of the sources' clocks, which no date of a payload names.
///
/// UTC stands in for a missing or unknown zone, with which no function starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceZone(pub TimeZone);

impl Default for SourceZone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl FromStr for SourceZone {
    type Err = jiff::Error;

    fn from_str(name: &str) -> Result<Self, jiff::Error> {
        TimeZone::get(name).map(Self)
    }
}
