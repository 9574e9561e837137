//! The time of day.

use std::time::SystemTime;

use jiff::{Timestamp, tz::TimeZone};

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// MQMD.PutDate and PutTime: `YYYYMMDD` and `HHMMSSTH`, in UTC.
pub(crate) fn put_date_and_time() -> (String, String) {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let hundredths = now.subsec_nanosecond() / 10_000_000;
    (now.strftime("%Y%m%d").to_string(), format!("{}{hundredths:02}", now.strftime("%H%M%S")))
}

/// A queue's creation or alteration: `YYYY-MM-DD` and `HH.MM.SS`.
pub(crate) fn date_and_time(at: u64) -> (String, String) {
    let milliseconds = i64::try_from(at).unwrap_or(i64::MAX);
    let at = Timestamp::from_millisecond(milliseconds).unwrap_or_default().to_zoned(TimeZone::UTC);
    (at.strftime("%Y-%m-%d").to_string(), at.strftime("%H.%M.%S").to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_have_the_lengths_of_their_fields() {
        let (date, time) = super::put_date_and_time();
        assert_eq!((date.len(), time.len()), (8, 8));
        assert_eq!(super::date_and_time(0), ("1970-01-01".to_owned(), "00.00.00".to_owned()));
    }
}
