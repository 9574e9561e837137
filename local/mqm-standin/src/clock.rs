//! The time of day.

use jiff::{Timestamp, tz::TimeZone};

/// Returns the present time in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// Returns the present time in UTC in the format of MQMD's fields PutDate and PutTime: `YYYYMMDD`
/// and `HHMMSSTH`, where `TH` are hundredths of a second.
pub(crate) fn put_date_and_time() -> (String, String) {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let hundredths = now.subsec_nanosecond() / 10_000_000;
    (now.strftime("%Y%m%d").to_string(), format!("{}{hundredths:02}", now.strftime("%H%M%S")))
}
