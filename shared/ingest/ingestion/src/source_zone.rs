use std::str::FromStr;

use jiff::tz::TimeZone;

/// Time zone of the sources' clocks, which the dates of a payload do not name.
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
