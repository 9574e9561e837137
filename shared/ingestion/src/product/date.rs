//! The dates of an item, which the source writes in its local time.

use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};

/// Forms that the standard ones do not cover: the Brazilian order of day and month, with and
/// without a time.
const BRAZILIAN: [&str; 3] = ["%d/%m/%Y %H:%M:%S%.f", "%d/%m/%Y %H:%M", "%d/%m/%Y"];

/// The year 1. ISO 8601 goes back further than PostgreSQL does, and nobody means a year before it.
const EARLIEST: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// Reads a date: ISO 8601 (`2026-11-21T10:30:00`, a space for the `T`, a fraction, no time at all)
/// or `21/11/2026 10:30:00`.
///
/// With an offset or `Z` it is that instant; without, it is local time of `zone`. An hour that the
/// zone skips counts as the one after, an hour that it has twice as the first. The result has
/// microseconds, as its column does. A time before the year 1 is refused.
pub(crate) fn parse(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let instant = match plain(text) {
        Some(local) => zone.to_timestamp(local).ok()?,
        None => match text.parse::<Timestamp>() {
            Ok(instant) => instant,
            Err(_) => zone.to_timestamp(local(text)?).ok()?,
        },
    };
    if instant < EARLIEST { None } else { to_microseconds(instant) }
}

/// Reads the two forms that nearly all dates have. The general way searches through the other
/// forms, and makes errors on the way.
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

/// Cuts an instant to the microseconds that PostgreSQL keeps, so that both sides compare alike.
pub(crate) fn to_microseconds(instant: Timestamp) -> Option<Timestamp> {
    if instant.subsec_nanosecond() % 1000 == 0 {
        return Some(instant);
    }
    let round = jiff::TimestampRound::new().smallest(Unit::Microsecond).mode(jiff::RoundMode::Floor);
    instant.round(round).ok()
}

fn local(text: &str) -> Option<DateTime> {
    text.parse::<DateTime>().ok().or_else(|| {
        BRAZILIAN.iter().find_map(|format| {
            let parsed = BrokenDownTime::parse(format, text).ok()?;
            let time = parsed.to_time().unwrap_or(jiff::civil::Time::midnight());
            Some(parsed.to_date().ok()?.to_datetime(time))
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn brasilia() -> TimeZone {
        // As São Paulo was until 2019, summer time included.
        TimeZone::posix("BRT3BRST,M11.1.0/0,M2.3.0/0").unwrap()
    }

    #[test]
    fn each_form_is_read() {
        for (text, instant) in [
            ("2026-06-21T10:30:00", "2026-06-21T13:30:00Z"),
            ("2026-06-21 10:30:00", "2026-06-21T13:30:00Z"),
            ("2026-06-21 10:30", "2026-06-21T13:30:00Z"),
            ("2026-06-21T10:30:00.1234567", "2026-06-21T13:30:00.123456Z"),
            ("2026-06-21", "2026-06-21T03:00:00Z"),
            ("2026-06-21T10:30:00Z", "2026-06-21T10:30:00Z"),
            ("2026-06-21T10:30:00-04:00", "2026-06-21T14:30:00Z"),
            ("21/06/2026 10:30:00", "2026-06-21T13:30:00Z"),
            ("21/06/2026 10:30:00.5", "2026-06-21T13:30:00.5Z"),
            ("21/06/2026 10:30", "2026-06-21T13:30:00Z"),
            ("21/06/2026", "2026-06-21T03:00:00Z"),
            ("30/12/1899 00:00:00", "1899-12-30T02:00:00Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            // In summer time; in the hour that its start skips; in the one that its end repeats.
            ("2018-12-01 10:00:00", "2018-12-01T12:00:00Z"),
            ("2018-11-04 00:30:00", "2018-11-04T03:30:00Z"),
            ("2018-02-17 23:30:00", "2018-02-18T01:30:00Z"),
        ] {
            assert_eq!(parse(text, &brasilia()), Some(instant.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "yesterday",
            "2026-02-30",
            "31/02/2026",
            "0000-00-00 00:00:00",
            "2026-06-21T25:00:00",
            "06/21/2026",
            "1750523400",
            "0000-12-31T23:59:59.999999Z",
            "-004713-01-01T00:00:00Z",
            "-009999-01-01 00:00:00",
        ] {
            assert_eq!(parse(text, &brasilia()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_plain_forms_are_read_as_the_general_way_reads_them(
            second in -60_000_000_000_i64..250_000_000_000,
            form in prop::sample::select(vec!["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d/%m/%Y %H:%M:%S"]),
        ) {
            let date = Timestamp::from_second(second).unwrap().to_zoned(TimeZone::UTC).datetime();
            let text = date.strftime(form).to_string();
            prop_assert_eq!(plain(&text), Some(date));
            prop_assert_eq!(local(&text), Some(date));
        }

        #[test]
        fn what_is_read_as_plain_is_no_other_date(text in "[0-2][0-9]{3}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9]") {
            if let Some(date) = plain(&text) {
                prop_assert_eq!(local(&text), Some(date));
            }
        }
    }
}
