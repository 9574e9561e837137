//! The dates of an item, which the source writes in its local time.

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit, Zoned};

/// Earliest date that is accepted: the beginning of 1981. Systems without a date write the zero of
/// their calendar: 1899 (Delphi, Excel), 1900 (SQL Server), 1970 (Unix) or 1980 (DOS). No date of a
/// product is that old.
const EARLIEST: Timestamp = Timestamp::constant(347_155_200, 0);

/// Instant of the day that is meant by a date without a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Day {
    /// Beginning of the day, for a date that is not compared with others.
    Begin,
    /// Last microsecond of the day, for the date of a change, which may be the last change of that
    /// day.
    End,
}

/// Reason why a text is not a valid date of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DateError {
    /// The text is not in a known form, or its year does not have four digits.
    #[error(
        "it is no date of a known form: write 2026-11-21 10:30:00, 2026-11-21 or 21/11/2026 10:30, or with \
         its offset 2026-11-21T10:30:00-03:00"
    )]
    Form,
    /// The date's time zone is unknown, or has another offset at that time than the date states.
    #[error("its time zone is not known, or its offset is not the zone's")]
    Zone,
    /// The date is before 1981, which stands for a date that is not set.
    #[error("it is before 1981, which dates mean that are not set; leave it empty if there is none")]
    TooEarly,
    /// The date is too late to be stored. Systems write 31/12/9999 for "never".
    #[error("it is after 9999-12-30, which dates mean that are not set; leave it empty if there is none")]
    TooLate,
}

/// Parses a date: ISO 8601 (`2026-11-21T10:30:00`, with a space instead of `T`, with a fraction, or
/// without a time) or `21/11/2026 10:30:00`. The year must have four digits.
///
/// A date with an offset or `Z` is that instant. A date with the name of a zone, such as
/// `2026-11-21T10:30:00-03:00[America/Sao_Paulo]`, is local time of that zone, and must have a
/// time. Any other date is local time of `zone`. An hour that the zone skips counts as the
/// following hour; of an hour that the zone has twice, the first counts. The result is cut to
/// microseconds, as in its column.
pub(crate) fn parse(text: &str, zone: &TimeZone, day: Day) -> Result<Timestamp, DateError> {
    let instant = match plain(text) {
        Some(local) => at(local, zone)?,
        None => in_any_form(text, zone, day)?,
    };
    if instant < EARLIEST {
        return Err(DateError::TooEarly);
    }
    to_microseconds(instant).ok_or(DateError::Form)
}

/// Parses the forms of dates that [`plain`] does not know.
fn in_any_form(text: &str, zone: &TimeZone, day: Day) -> Result<Timestamp, DateError> {
    // The name of a zone has slashes, too.
    let before_zone = text.split_once('[').map(|(local, _)| local);
    if text.contains('/') && before_zone.is_none() {
        return at(brazilian(text, day).ok_or(DateError::Form)?, zone);
    }
    let [y1, y2, y3, y4, rest @ ..] = text.as_bytes() else { return Err(DateError::Form) };
    if ![y1, y2, y3, y4].into_iter().all(u8::is_ascii_digit) {
        return Err(DateError::Form);
    }
    if let Some(local) = before_zone {
        // A zone is that of a time. A day alone would get its beginning, also where its end counts.
        if !local.contains(['T', 't', ' ']) || Pieces::parse(local).is_err() {
            return Err(DateError::Form);
        }
        let zoned: Zoned = text.parse().map_err(|_| DateError::Zone)?;
        return Ok(zoned.timestamp());
    }
    // Behind year, month and day, with hyphens or without.
    let has_offset = rest.iter().skip(4).any(|byte| matches!(byte, b'+' | b'-' | b'Z' | b'z'));
    if has_offset {
        return text.parse().map_err(|_| DateError::Form);
    }
    let local: DateTime = text.parse().map_err(|_| DateError::Form)?;
    let is_day = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    at(if is_day { of_day(local.date(), day) } else { local }, zone)
}

fn at(local: DateTime, zone: &TimeZone) -> Result<Timestamp, DateError> {
    zone.to_timestamp(local).map_err(|_| DateError::TooLate)
}

fn of_day(date: Date, day: Day) -> DateTime {
    let time = match day {
        Day::Begin => Time::midnight(),
        Day::End => Time::constant(23, 59, 59, 999_999_000),
    };
    date.to_datetime(time)
}

/// Parses a date in the Brazilian order of day, month and year, with or without a time.
fn brazilian(text: &str, day: Day) -> Option<DateTime> {
    let (date, time) = text.split_once(' ').map_or((text, None), |(date, time)| (date, Some(time)));
    let mut parts = date.split('/');
    let (day_of_month, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let date = Date::new(
        digits(year, 4..=4)?,
        i8::try_from(digits(month, 1..=2)?).ok()?,
        i8::try_from(digits(day_of_month, 1..=2)?).ok()?,
    )
    .ok()?;
    let Some(time) = time else { return Some(of_day(date, day)) };
    let (hour, rest) = time.split_once(':')?;
    let is_time = rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
    let hour = digits(hour, 1..=2).filter(|_| is_time)?;
    // Minutes and seconds may have one digit, too.
    let is_short = |part: &str| part.split('.').next().is_some_and(|whole| whole.len() == 1);
    let padded = |part: &str| if is_short(part) { format!("0{part}") } else { part.to_owned() };
    let rest = rest.split(':').map(padded).collect::<Vec<_>>().join(":");
    Some(date.to_datetime(format!("{hour:02}:{rest}").parse().ok()?))
}

/// Parses a number of `count` digits, without a sign or blanks.
fn digits(text: &str, count: std::ops::RangeInclusive<usize>) -> Option<i16> {
    let is_number = count.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Parses the two forms that nearly all dates have, `2026-11-21 10:30:00` and `21/11/2026
/// 10:30:00`; `None` for any other form. This is faster than [`in_any_form`].
fn plain(text: &str) -> Option<DateTime> {
    let (year, month, day, time) = match text.as_bytes() {
        [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b' ' | b'T', time @ ..]
        | [d1, d2, b'/', m1, m2, b'/', y1, y2, y3, y4, b' ', time @ ..] => {
            (number([*y1, *y2, *y3, *y4])?, number([*m1, *m2])?, number([*d1, *d2])?, time)
        }
        _ => return None,
    };
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let small = |number: i16| i8::try_from(number).ok();
    DateTime::new(
        year,
        small(month)?,
        small(day)?,
        small(number([*h1, *h2])?)?,
        small(number([*m1, *m2])?)?,
        small(number([*s1, *s2])?)?,
        0,
    )
    .ok()
}

fn number<const N: usize>(digits: [u8; N]) -> Option<i16> {
    digits.into_iter().try_fold(0_i16, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i16::from(digit - b'0'))
    })
}

/// Cuts an instant to the microseconds that PostgreSQL keeps, so that comparisons here and in the
/// database agree; `None` if the result is out of range.
pub(crate) fn to_microseconds(instant: Timestamp) -> Option<Timestamp> {
    if instant.subsec_nanosecond() % 1000 == 0 {
        return Some(instant);
    }
    let round = jiff::TimestampRound::new().smallest(Unit::Microsecond).mode(jiff::RoundMode::Floor);
    instant.round(round).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn brasilia() -> TimeZone {
        // São Paulo's time zone as it was until 2019, summer time included.
        TimeZone::posix("BRT3BRST,M11.1.0/0,M2.3.0/0").unwrap()
    }

    fn read(text: &str) -> Result<Timestamp, DateError> {
        parse(text, &brasilia(), Day::Begin)
    }

    #[test]
    fn each_form_is_read() {
        for (text, instant) in [
            ("2026-06-21T10:30:00", "2026-06-21T13:30:00Z"),
            ("2026-06-21 10:30:00", "2026-06-21T13:30:00Z"),
            ("2026-06-21t10:30:00", "2026-06-21T13:30:00Z"),
            ("2026-06-21 10:30", "2026-06-21T13:30:00Z"),
            ("2026-06-21T10:30:00.1234567", "2026-06-21T13:30:00.123456Z"),
            ("2026-06-21T10:30:00,5", "2026-06-21T13:30:00.5Z"),
            ("20260621T103000", "2026-06-21T13:30:00Z"),
            ("2026-06-21", "2026-06-21T03:00:00Z"),
            ("20260621", "2026-06-21T03:00:00Z"),
            ("2026-06-21T10:30:00Z", "2026-06-21T10:30:00Z"),
            ("2026-06-21 10:30:00z", "2026-06-21T10:30:00Z"),
            ("2026-06-21T10:30:00-04:00", "2026-06-21T14:30:00Z"),
            ("2026-06-21T10:30:00-0400", "2026-06-21T14:30:00Z"),
            ("2026-06-21T10:30:00.000+0000", "2026-06-21T10:30:00Z"),
            ("2026-06-21T10:30:00-04", "2026-06-21T14:30:00Z"),
            ("2026-06-21T10:30:00-03:00[America/Sao_Paulo]", "2026-06-21T13:30:00Z"),
            ("2026-06-21T10:30:00[Europe/London]", "2026-06-21T09:30:00Z"),
            ("2026-06-21T10:30:00Z[Europe/London]", "2026-06-21T10:30:00Z"),
            ("2026-06-21T10:30:00Z[UTC]", "2026-06-21T10:30:00Z"),
            ("20260621T1030[Europe/London]", "2026-06-21T09:30:00Z"),
            ("2026-06-21T10", "2026-06-21T13:00:00Z"),
            ("21/06/2026 10:30:00", "2026-06-21T13:30:00Z"),
            ("21/06/2026 10:30:00.5", "2026-06-21T13:30:00.5Z"),
            ("21/06/2026 10:30", "2026-06-21T13:30:00Z"),
            ("21/06/2026 9:05", "2026-06-21T12:05:00Z"),
            ("21/06/2026 9:5", "2026-06-21T12:05:00Z"),
            ("21/06/2026 9:5:3", "2026-06-21T12:05:03Z"),
            ("21/06/2026 10:30:5.25", "2026-06-21T13:30:05.25Z"),
            ("21/06/2026", "2026-06-21T03:00:00Z"),
            ("1/6/2026", "2026-06-01T03:00:00Z"),
            ("1981-01-01T00:00:00Z", "1981-01-01T00:00:00Z"),
            // In summer time; in the hour that its start skips; in the one that its end repeats.
            ("2018-12-01 10:00:00", "2018-12-01T12:00:00Z"),
            ("2018-11-04 00:30:00", "2018-11-04T03:30:00Z"),
            ("2018-02-17 23:30:00", "2018-02-18T01:30:00Z"),
        ] {
            assert_eq!(read(text), Ok(instant.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_day_without_a_time_is_its_beginning_or_its_end() {
        for text in ["2026-06-21", "20260621", "21/06/2026"] {
            for (day, instant) in
                [(Day::Begin, "2026-06-21T03:00:00Z"), (Day::End, "2026-06-22T02:59:59.999999Z")]
            {
                assert_eq!(parse(text, &brasilia(), day), Ok(instant.parse().unwrap()), "{text}");
            }
        }
        for text in ["2026-06-21 00:00:00", "2026-06-21T00:00", "21/06/2026 00:00"] {
            assert_eq!(parse(text, &brasilia(), Day::End), Ok("2026-06-21T03:00:00Z".parse().unwrap()));
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        use DateError::*;
        for (text, error) in [
            ("", Form),
            ("yesterday", Form),
            ("2026-02-30", Form),
            ("31/02/2026", Form),
            ("0000-00-00 00:00:00", Form),
            ("2026-06-21T25:00:00", Form),
            ("06/21/2026", Form),
            ("1750523400", Form),
            ("1750523400000", Form),
            ("21.06.2026", Form),
            ("21-06-2026", Form),
            ("2026/06/21", Form),
            ("Sun, 21 Jun 2026 10:30:00 -0300", Form),
            ("21/06/2026 10:30 -0300", Form),
            ("2026-06-21T10:30:00 -0300", Form),
            ("2026-06-21T10:30:00-99:00", Form),
            ("2026-06-21T", Form),
            // Years that do not have four digits.
            ("24/11/26", Form),
            ("24/11/26 10:00:00", Form),
            ("24/11/26 10:00", Form),
            ("24/11/6", Form),
            ("24/11/026", Form),
            ("24/11/99", Form),
            ("24/11/02026", Form),
            ("26-11-24", Form),
            ("026-11-24", Form),
            ("+002026-11-24", Form),
            ("-002026-11-24T10:00:00", Form),
            // Signs and blanks.
            ("24/11/+2026", Form),
            ("24/+11/2026", Form),
            ("-24/11/2026", Form),
            ("20/ 11/2026", Form),
            (" 20/11/2026", Form),
            ("20/11/ 2026", Form),
            ("20/11/2026  10:00", Form),
            ("20/11/2026 +10:00", Form),
            ("20/11/2026 10: 00", Form),
            ("20/11/2026 10", Form),
            ("20/11/2026 ", Form),
            ("20/11/2026/1", Form),
            ("2026-11-20  10:00:00", Form),
            ("+2026-11-20", Form),
            // Zones.
            ("2026-11-20T10:00:00-05:00[America/Sao_Paulo]", Zone),
            ("2026-11-20T10:00:00[Mars/Phobos]", Zone),
            ("2026-11-20T10:00:00-03:00[Mars/Phobos]", Zone),
            ("2026-11-20T10:00:00[u-ca=hebrew]", Zone),
            ("2026-11-20[America/Sao_Paulo]", Form),
            ("20261120[UTC]", Form),
            ("2026-11-20Z[UTC]", Form),
            ("20/11/2026 10:00[America/Sao_Paulo]", Form),
            ("2026/11/20 10:00[America/Sao_Paulo]", Form),
            ("2026-02-30T10:00:00[America/Sao_Paulo]", Form),
            ("2026-11-20T25:00:00Z[UTC]", Form),
            ("2026-11-20T10:00:00 [UTC]", Form),
            ("2026-11-20T[UTC]", Form),
            // Texts that stand for no date.
            ("30/12/1899 00:00:00", TooEarly),
            ("30/12/1899", TooEarly),
            ("1899-12-30T00:00:00", TooEarly),
            ("1900-01-01", TooEarly),
            ("01/01/1900 00:00", TooEarly),
            ("0001-01-01T00:00:00Z", TooEarly),
            ("1970-01-01T00:00:00Z", TooEarly),
            ("1980-01-01", TooEarly),
            ("1980-12-31T23:59:59.999999Z", TooEarly),
            ("9999-12-31", TooLate),
            ("99991231", TooLate),
            ("31/12/9999", TooLate),
            ("9999-12-31 00:00:00", TooLate),
            ("9999-12-31T23:59:59.9999999", TooLate),
        ] {
            for day in [Day::Begin, Day::End] {
                assert_eq!(parse(text, &brasilia(), day), Err(error), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_plain_forms_are_read_as_the_general_way_reads_them(
            second in 400_000_000_i64..250_000_000_000,
            form in prop::sample::select(vec!["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d/%m/%Y %H:%M:%S"]),
        ) {
            let date = Timestamp::from_second(second).unwrap().to_zoned(TimeZone::UTC).datetime();
            let text = date.strftime(form).to_string();
            prop_assert_eq!(plain(&text), Some(date));
            prop_assert_eq!(in_any_form(&text, &TimeZone::UTC, Day::End), Ok(Timestamp::from_second(second).unwrap()));
        }

        #[test]
        fn what_is_read_as_plain_is_no_other_date(text in "[0-2][0-9]{3}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9]") {
            if let Some(date) = plain(&text) {
                prop_assert_eq!(Ok(at(date, &TimeZone::UTC).unwrap()), in_any_form(&text, &TimeZone::UTC, Day::End));
            }
        }

        #[test]
        fn a_date_has_four_digits_for_its_year(
            text in "[-+ ]?[0-9]{1,5}[-/][-+ ]?[0-9]{1,3}[-/][-+ ]?[0-9]{1,5}( 10:00:00)?",
        ) {
            if read(&text).is_ok() {
                let digits: Vec<&str> = text.trim_end_matches(" 10:00:00").split(['-', '/']).collect();
                prop_assert_eq!(digits.iter().filter(|part| part.len() == 4).count(), 1, "{}", text);
                prop_assert!(digits.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit())));
            }
        }
    }
}
