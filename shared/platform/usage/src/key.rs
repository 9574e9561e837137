//! Primary keys and TTLs of the usage table's items.

use jiff::Timestamp;
use jiff::civil::Date;

use crate::contribution::LineKey;
use crate::counts::Line;
use crate::hour::{Hour, start_of};

pub(crate) const TOTAL: &str = "TOTAL";
pub(crate) const MARK: &str = "MARK";
pub(crate) const STATE: &str = "STATE";
pub(crate) const READER: &str = "reader";
pub(crate) const GAP: &str = "GAP";
pub(crate) const ENDED: &str = "ended";
pub(crate) const CORRECTION: &str = "CORRECTION";

const SECONDS_OF_DAY: i64 = 86_400;
/// Number of days for which the usage counters of a day are kept. Counters of an hour are kept for
/// [`DAYS_OF_HOUR`] days.
const DAYS_OF_DAY: i64 = 400;
const DAYS_OF_HOUR: i64 = 4;

/// True if, at the time `now`, DynamoDB may have deleted the counters of the day that begins at
/// `start`.
pub(crate) fn may_be_deleted(start: Timestamp, now: Timestamp) -> bool {
    let kept_until = start.as_second().saturating_add(DAYS_OF_DAY.saturating_mul(SECONDS_OF_DAY));
    kept_until <= now.as_second()
}

/// Primary key of an item with counters, and its TTL (the epoch second after which DynamoDB deletes
/// the item).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) pk: String,
    pub(crate) sk: String,
    pub(crate) ttl: Option<i64>,
}

impl Key {
    pub(crate) fn day(key: &LineKey) -> Self {
        let LineKey { tenant, hour, operation, key_name } = key;
        Self::of_day(hour.day(), tenant, operation, key_name)
    }

    pub(crate) fn of_day(day: Date, tenant: &str, operation: &str, key_name: &str) -> Self {
        let ttl = Some(start_of(day).as_second().saturating_add(DAYS_OF_DAY.saturating_mul(SECONDS_OF_DAY)));
        Self { pk: day_pk(day), sk: line(tenant, operation, key_name), ttl }
    }

    pub(crate) fn hour(key: &LineKey) -> Self {
        let LineKey { tenant, hour, operation, key_name } = key;
        let ttl = hour.start().as_second().saturating_add(DAYS_OF_HOUR.saturating_mul(SECONDS_OF_DAY));
        Self { pk: hour_pk(*hour), sk: line(tenant, operation, key_name), ttl: Some(ttl) }
    }

    /// Builds the key of the usage that a recount added to an hour's line, and that is still to be
    /// published.
    pub(crate) fn correction(key: &LineKey) -> Self {
        let Self { sk, ttl, .. } = Self::hour(key);
        Self { pk: CORRECTION.to_owned(), sk: format!("{}#{sk}", key.hour), ttl }
    }

    /// Builds the key of the totals of an operation on a target, which have no TTL.
    pub(crate) fn total(operation: &str, target: &str) -> Self {
        Self { pk: TOTAL.to_owned(), sk: format!("{operation}#{target}"), ttl: None }
    }
}

pub(crate) fn day_pk(day: Date) -> String {
    format!("DAY#{day}")
}

pub(crate) fn hour_pk(hour: Hour) -> String {
    format!("HOUR#{hour}")
}

/// Returns the TTL (in epoch seconds) of a stored gap (a period of lost changes) that ends at
/// `until`. The gap is kept as long as the counters of its days.
pub(crate) fn ttl_of_gap(until: Timestamp) -> i64 {
    until.as_second().saturating_add(DAYS_OF_DAY.saturating_mul(SECONDS_OF_DAY))
}

/// Returns the partition key of the item which records that a load test is counted.
pub(crate) fn test_pk(id: &str) -> String {
    format!("TEST#{id}")
}

/// Returns the TTL (in epoch seconds) of a stream shard's position, up to which its changes are
/// counted: 7 days after `at`. The stream itself keeps a shard for a day after its last change.
pub(crate) fn ttl_of_position(at: Timestamp) -> i64 {
    at.as_second().saturating_add(SECONDS_OF_DAY.saturating_mul(7))
}

/// Returns the prefix with which the sort keys of all usage lines of a tenant begin.
pub(crate) fn tenant_prefix(tenant: &str) -> String {
    format!("{}#", escaped(tenant))
}

fn line(tenant: &str, operation: &str, key_name: &str) -> String {
    format!("{}{}#{}", tenant_prefix(tenant), escaped(operation), escaped(key_name))
}

/// Parses the sort key of a usage line, and returns the line with all counters at 0; `None` if the
/// key is malformed.
pub(crate) fn read_line(sk: &str, day: Date) -> Option<Line> {
    let mut parts = sk.splitn(3, '#').map(unescaped);
    let (tenant, operation, key_name) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Line { tenant, day, operation, key_name, counts: crate::counts::Counts::default() })
}

/// Percent-encodes `#`, which separates the parts of a sort key, and `%`.
fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('#', "%23")
}

fn unescaped(text: &str) -> String {
    text.replace("%23", "#").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_whatever_its_names() {
        let day = "2026-11-27".parse().unwrap();
        for (tenant, key_name) in [("acme", "till 1"), ("a#b%23", "#%25#"), ("t", "")] {
            let key = Key::of_day(day, tenant, "produce", key_name);
            let line = read_line(&key.sk, day).unwrap();
            assert_eq!((line.tenant.as_str(), line.key_name.as_str()), (tenant, key_name));
            assert!(key.sk.starts_with(&tenant_prefix(tenant)));
        }
        assert_eq!(read_line("acme#produce", day), None);
        assert_eq!(Key::of_day(day, "acme", "produce", "till 1").pk, "DAY#2026-11-27");
    }

    #[test]
    fn days_are_kept_for_400_days_and_hours_for_4() {
        let line = LineKey {
            tenant: "acme".to_owned(),
            hour: "2026-11-27T02".parse().unwrap(),
            operation: "produce".to_owned(),
            key_name: String::new(),
        };
        let start = line.hour.start().as_second() - 7_200;
        assert_eq!(Key::day(&line).ttl, Some(start + 400 * 86_400));
        assert_eq!(Key::hour(&line).ttl, Some(start + 7_200 + 4 * 86_400));
        assert_eq!(Key::hour(&line).pk, "HOUR#2026-11-27T02");
    }
}
