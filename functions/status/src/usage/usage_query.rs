//! Query parameters of `GET /v1/usage`: the days of the report, and the periods by which they are
//! summed up.

use std::str::FromStr;

use api::{Problem, Query, invalid_parameter};
use jiff::civil::Date;
use serde::Serialize;

/// Names of the query parameters of the usage report.
pub(super) const PARAMETERS: [&str; 4] = ["from", "to", "group", "tenant"];
/// Maximum number of days that a usage report covers.
const MOST_DAYS: i64 = 366;
const HOURS: i64 = 24;

/// Query of a usage report: the first and the last day, and the period of its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UsageQuery {
    pub(super) from: Date,
    pub(super) to: Date,
    pub(super) group: Group,
}

/// Period over which usage is summed up: a day or a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Group {
    #[default]
    Day,
    Month,
}

/// Day in a query parameter, of the form `2026-11-26`.
struct Day(Date);

impl UsageQuery {
    /// Parses the query parameters. By default `to` is `today`, and `from` the first day of its
    /// month. Fails if `from` is later than `to`, or if the two are too far apart ([`MOST_DAYS`]).
    pub(super) fn read(query: &Query<'_>, today: Date) -> Result<Self, Problem> {
        let day = |name: &str| query.parsed(name).map(|found| found.map(|Day(day)| day));
        let to = day("to")?.unwrap_or(today);
        let from = day("from")?.unwrap_or_else(|| to.first_of_month());
        let group = query.parsed("group")?.unwrap_or_default();
        if from > to {
            return Err(invalid_parameter("from", format!("is later than `to`, {to}")));
        }
        if to.duration_since(from).as_hours() >= MOST_DAYS * HOURS {
            let detail = format!("is too early: from then to {to} are more than {MOST_DAYS} days");
            return Err(invalid_parameter("from", detail));
        }
        Ok(Self { from, to, group })
    }
}

impl Group {
    /// Returns the period that a day belongs to, such as `2026-11-26` or `2026-11`.
    pub(super) fn period(self, day: Date) -> String {
        let mut period = day.to_string();
        if self == Self::Month {
            period.truncate("2026-11".len());
        }
        period
    }
}

impl FromStr for Group {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "day" => Ok(Self::Day),
            "month" => Ok(Self::Month),
            _ => Err("must be `day` or `month`"),
        }
    }
}

impl FromStr for Day {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Other forms of a date, and dates with a time, are parsed too. These are no days in UTC.
        let is_day = |day: &Date| day.year() >= 0 && day.to_string() == text;
        let day = text.parse::<Date>().ok().filter(is_day);
        day.map(Self).ok_or("must be a day, such as 2026-11-26")
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn read(query: &str) -> Result<UsageQuery, Problem> {
        UsageQuery::read(&Query::parse(query, &PARAMETERS)?, date(2026, 11, 27))
    }

    fn days(query: &str) -> (String, String) {
        let asked = read(query).unwrap();
        (asked.from.to_string(), asked.to.to_string())
    }

    #[test]
    fn days_that_are_not_given_are_those_of_this_month_until_today() {
        let of = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(days(""), of("2026-11-01", "2026-11-27"));
        assert_eq!(days("from=2026-10-31"), of("2026-10-31", "2026-11-27"));
        assert_eq!(days("to=2026-10-31"), of("2026-10-01", "2026-10-31"));
        assert_eq!(days("from=2026-11-27&to=2026-11-27"), of("2026-11-27", "2026-11-27"));
        assert_eq!(days("from=2025-11-27"), of("2025-11-27", "2026-11-27"));
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        for (query, parameter, detail) in [
            ("from=2026-13-01", "from", "`from` must be a day, such as 2026-11-26"),
            ("from=2026-11-01T00:00:00Z", "from", "`from` must be a day, such as 2026-11-26"),
            ("from=20261101", "from", "`from` must be a day, such as 2026-11-26"),
            ("to=", "to", "`to` must be a day, such as 2026-11-26"),
            ("to=yesterday", "to", "`to` must be a day, such as 2026-11-26"),
            ("from=2026-11-28", "from", "`from` is later than `to`, 2026-11-27"),
            (
                "from=2025-11-26",
                "from",
                "`from` is too early: from then to 2026-11-27 are more than 366 days",
            ),
            ("group=week", "group", "`group` must be `day` or `month`"),
            ("from=2026-11-01&from=2026-11-02", "from", "`from` is given more than once"),
            (
                "since=2026-11-01",
                "since",
                "`since` is not a parameter of this path, which takes `from`, `to`, `group`, `tenant`",
            ),
        ] {
            let problem = read(query).unwrap_err();
            assert_eq!(
                (&problem.extensions["parameter"], problem.detail.as_str()),
                (&serde_json::json!(parameter), detail)
            );
        }
    }

    #[test]
    fn a_period_is_a_day_or_its_month() {
        let day = date(2026, 11, 26);
        assert_eq!(
            (Group::Day.period(day), Group::Month.period(day)),
            ("2026-11-26".to_owned(), "2026-11".to_owned())
        );
        assert_eq!(read("group=month").unwrap().group, Group::Month);
    }
}
