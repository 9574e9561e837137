//! Parser of times on the command line, such as `7d`, `2027-06-30` and `2027-06-30T12:00:00Z`.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use crate::exit::Failure;

/// Word on the command line that stands for no expiry, in place of a time.
const NEVER: &str = "never";

/// Returns the current time in whole seconds, which is precise enough for people.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Reads the time at which a key stops working; `None` if it never does.
///
/// # Errors
/// If the text is not a time, or the time is in the past.
pub(crate) fn expiry(text: &str, now: Timestamp) -> Result<Option<Timestamp>, Failure> {
    if text == NEVER {
        return Ok(None);
    }
    let time = absolute(text).map_or_else(|| after(text, now), Ok)?;
    if time <= now {
        return Err(Failure::usage(format!("`{text}` is in the past"))
            .next("to stop a key at once: integrahub key disable"));
    }
    Ok(Some(time))
}

/// Parses a span of time such as `90d`, and returns the time that is this span after `now`.
///
/// # Errors
/// If the text is not a span of time, or the span is negative.
pub(crate) fn after(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let wrong = || {
        Failure::usage(format!("`{text}` is no time"))
            .next("write 90d, 12h, 2027-06-30 (UTC) or 2027-06-30T12:00:00Z")
    };
    let span: Span = text.parse().map_err(|_| wrong())?;
    if span.is_negative() {
        return Err(wrong());
    }
    now.to_zoned(TimeZone::UTC).checked_add(span).map(|time: Zoned| time.timestamp()).map_err(|_| wrong())
}

fn absolute(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    if text.contains(['T', ' ']) {
        return None;
    }
    let date: Date = text.parse().ok()?;
    date.to_zoned(TimeZone::UTC).ok().map(|midnight| midnight.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-27T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_time_is_a_span_a_date_or_an_instant() {
        for (text, time) in [
            ("90d", "2027-02-25T10:00:00Z"),
            ("12h", "2026-11-27T22:00:00Z"),
            ("1y", "2027-11-27T10:00:00Z"),
            ("2027-06-30", "2027-06-30T00:00:00Z"),
            ("2027-06-30T12:00:00-03:00", "2027-06-30T15:00:00Z"),
        ] {
            assert_eq!(expiry(text, now()).unwrap(), Some(time.parse().unwrap()), "{text}");
        }
        assert_eq!(expiry("never", now()), Ok(None));
    }

    #[test]
    fn a_time_that_is_counted_from_now_has_whole_seconds() {
        let end = after("7d", super::now()).unwrap();
        assert_eq!(end.subsec_nanosecond(), 0);
    }

    #[test]
    fn what_is_no_time_or_past_is_refused() {
        for text in ["", "soon", "-7d", "2026-11-26", "2020-01-01T00:00:00Z", "0d", "99999999y"] {
            assert!(expiry(text, now()).is_err(), "{text}");
        }
    }
}
