//! Point in time as message headers and properties carry it.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Point in time from 1970 on, with nanoseconds. Its text is RFC 3339 in UTC. A time after
/// [`Self::LATEST_TEXT`], which is possible in AMQP, is written as the number of seconds since
/// 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time {
    seconds: u64,
    nanoseconds: u32,
}

impl Time {
    /// Latest time that is written as RFC 3339.
    pub const LATEST_TEXT: &str = "9999-12-30T22:00:00Z";

    /// Maximum length in bytes of a time as text: RFC 3339 with a fraction of nine digits and an
    /// offset.
    pub const MAX_BYTES: usize = "2026-09-21T14:13:20.123456789+00:00".len();

    /// Creates the time that is `seconds` whole seconds after 1970 began.
    #[must_use]
    pub const fn from_seconds(seconds: u64) -> Self {
        Self { seconds, nanoseconds: 0 }
    }

    /// Returns the number of whole seconds since 1970, for AMQP, which carries no fractions.
    #[must_use]
    pub const fn as_seconds(self) -> u64 {
        self.seconds
    }

    /// Returns the time as a timestamp; `None` if it is after [`Self::LATEST_TEXT`].
    #[must_use]
    pub fn as_timestamp(self) -> Option<Timestamp> {
        let seconds = i64::try_from(self.seconds).ok()?;
        Timestamp::new(seconds, i32::try_from(self.nanoseconds).ok()?).ok()
    }
}

impl TryFrom<Timestamp> for Time {
    type Error = String;

    fn try_from(at: Timestamp) -> Result<Self, String> {
        let seconds = u64::try_from(at.as_second());
        let nanoseconds = u32::try_from(at.subsec_nanosecond());
        match (seconds, nanoseconds) {
            (Ok(seconds), Ok(nanoseconds)) => Ok(Self { seconds, nanoseconds }),
            _ => Err("must not be before 1970".to_owned()),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_timestamp() {
            Some(at) => write!(f, "{at}"),
            None => write!(f, "{}", self.seconds),
        }
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let time = text.parse().map(Self::from_seconds).map_err(|_| "is beyond 64 bits".to_owned())?;
            return match time.as_timestamp() {
                None => Ok(time),
                Some(_) => {
                    Err(format!("is a number of seconds; write it as RFC 3339 up to {}", Self::LATEST_TEXT))
                }
            };
        }
        let malformed = || "is not a time of RFC 3339, as 2026-09-21T14:13:20Z".to_owned();
        if text.len() > Self::MAX_BYTES {
            return Err(malformed());
        }
        // RFC 3339 lets T and Z be written in lower case.
        let text = text.to_ascii_uppercase();
        let text = text.as_str();
        if !is_rfc_3339(text) {
            return Err(malformed());
        }
        let beyond = |_| if is_in_the_last_days(text) { beyond_the_latest() } else { malformed() };
        text.parse::<Timestamp>().map_err(beyond)?.try_into()
    }
}

fn beyond_the_latest() -> String {
    format!("must not be after {}", Time::LATEST_TEXT)
}

/// True if an RFC 3339 text names 30 or 31 December 9999. Such a time, with its offset from UTC,
/// may be outside the range of [`Timestamp`].
fn is_in_the_last_days(text: &str) -> bool {
    let local = text.split_at_checked(FORM.len()).map(|(local, _)| local);
    let local = local.and_then(|local| local.parse::<jiff::civil::DateTime>().ok());
    local.is_some_and(|local| (local.year(), local.month()) == (9999, 12) && local.day() >= 30)
}

/// Date and time of RFC 3339 as `YYYY-MM-DDTHH:MM:SS`, with `0` in place of each digit.
const FORM: &[u8] = b"0000-00-00T00:00:00";

/// True if `text` has the form of a date and time in RFC 3339, section 5.6. The parser of `jiff`
/// accepts other forms, too.
fn is_rfc_3339(text: &str) -> bool {
    let Some((date_time, rest)) = text.as_bytes().split_at_checked(FORM.len()) else { return false };
    let has_form = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        separator => byte == separator,
    };
    let offset = match rest.strip_prefix(b".") {
        None => rest,
        Some(fraction) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=9).contains(&digits) {
                return false;
            }
            fraction.get(digits..).unwrap_or_default()
        }
    };
    let is_offset = match offset {
        b"Z" => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].into_iter().all(u8::is_ascii_digit),
        _ => false,
    };
    date_time.iter().zip(FORM).all(has_form) && is_offset
}

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Time> for String {
    fn from(time: Time) -> Self {
        time.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_value_in_every_spelling_of_rfc_3339() {
        let expected = "2026-01-01T10:00:00Z".parse::<Time>().unwrap();
        for text in [
            "2026-01-01t10:00:00z",
            "2026-01-01T10:00:00z",
            "2026-01-01t10:00:00Z",
            "2026-01-01t10:00:00.000z",
            "2026-01-01t12:00:00+02:00",
            "2026-01-01T10:00:00-00:00",
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert_eq!(text.parse::<Time>().unwrap().to_string(), "2026-01-01T10:00:00Z");
        }
        // A leap second counts as the second before it.
        assert_eq!("2016-12-31t23:59:60z".parse(), "2016-12-31T23:59:59Z".parse::<Time>());
        let long = format!("2026-01-01T10:00:00.{}Z", "0".repeat(20));
        for text in ["2026-01-01 10:00:00z", "2026-01-01_10:00:00z", "2026-01-01T10:00:00y", "t", &long] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_beyond_the_latest_is_refused_for_that_and_not_for_its_form() {
        assert!(Time::LATEST_TEXT.parse::<Time>().is_ok());
        for late in ["9999-12-30T22:00:01Z", "9999-12-31T23:59:59Z", "9999-12-30T21:00:00.5-02:00"] {
            assert_eq!(late.parse::<Time>(), Err(beyond_the_latest()), "{late}");
        }
        for malformed in ["9999-12-32T00:00:00Z", "9999-02-30T00:00:00Z", "9999-12-31 00:00:00Z", "late"] {
            let why = malformed.parse::<Time>().unwrap_err();
            assert!(why.contains("is not a time"), "{malformed}: {why}");
        }
        // AMQP's times go on, as numbers.
        let next = Time::LATEST_TEXT.parse::<Time>().unwrap().as_seconds() + 1;
        assert_eq!(next.to_string().parse::<Time>(), Ok(Time::from_seconds(next)));
        assert_eq!(Time::from_seconds(next).to_string(), next.to_string());
        assert!((next - 1).to_string().parse::<Time>().unwrap_err().contains("RFC 3339"));
    }
}
