//! Contribution of one idempotency record to the usage counters.
//!
//! The contribution follows from the record's present attributes alone. The counters of an hour are
//! the sum of the contributions of the records that were created in it. So it does not matter how
//! often a record changed, or in how many portions its changes were read.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;

use crate::counts::Counts;
use crate::hour::Hour;

/// Attributes of a DynamoDB item, by name.
pub type Item = HashMap<String, AttributeValue>;

/// Attributes of an idempotency record that this crate reads, for a DynamoDB projection. Some names
/// are reserved words, so the projection needs placeholders.
pub const ATTRIBUTES: [&str; 10] = [
    "operationType",
    "tenantId",
    "target",
    "status",
    "createdAt",
    "updatedAt",
    "keyName",
    "messages",
    "bytes",
    "durationMs",
];

/// Identity of the usage line to which a record contributes: tenant, hour, operation and API key. A
/// usage line has the counters of one API key for one operation, for a day or an hour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineKey {
    /// Id of the tenant that sent the request.
    pub tenant: String,
    /// Hour in which the request was first claimed.
    pub hour: Hour,
    /// Name of the operation in lower case, such as `produce`.
    pub operation: String,
    /// Name of the API key or token of the request; empty if the record has none.
    pub key_name: String,
}

/// Contribution of one idempotency record to the usage counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contribution {
    /// Identity of the usage line to which the record contributes.
    pub line: LineKey,
    /// Target of the work: a queue as `<queueManager>:<queue>`; empty if the operation has none.
    pub target: String,
    /// Numbers that the record adds to the usage counters.
    pub counts: Counts,
}

/// Returns the contribution of an item of the idempotency table to the usage counters; `None` if
/// the item is not a record.
///
/// A record counts as one request once an attempt has ended. It still counts as one while a retry
/// executes the request again.
#[must_use]
pub fn contribution(image: &Item) -> Option<Contribution> {
    let status = text(image, "status")?;
    let is_over = matches!(status, "COMPLETED" | "FAILED");
    let line = LineKey {
        tenant: text(image, "tenantId")?.to_owned(),
        hour: Hour::of(created_at(image)?),
        operation: text(image, "operationType")?.to_ascii_lowercase(),
        key_name: text(image, "keyName").unwrap_or_default().to_owned(),
    };
    let counts = Counts {
        requests: u64::from(is_over || image.contains_key("durationMs")),
        failed: u64::from(status == "FAILED"),
        messages: number(image, "messages"),
        bytes: number(image, "bytes"),
        ..Counts::default()
    };
    Some(Contribution { line, target: text(image, "target").unwrap_or_default().to_owned(), counts })
}

/// Returns the time at which the request of an idempotency record was first claimed. Consecutive
/// requests with the same key have different times. `None` if the item has no such time.
pub(crate) fn created_at(image: &Item) -> Option<Timestamp> {
    time(image, "createdAt")
}

/// Returns the time at which an idempotency record was last written; `None` if the item has no such
/// time.
pub(crate) fn updated_at(image: &Item) -> Option<Timestamp> {
    time(image, "updatedAt")
}

fn text<'a>(image: &'a Item, name: &str) -> Option<&'a str> {
    image.get(name)?.as_s().ok().map(String::as_str)
}

fn time(image: &Item, name: &str) -> Option<Timestamp> {
    text(image, name)?.parse().ok()
}

/// Reads a numeric attribute; 0 if it is missing, as in records of earlier versions.
fn number(image: &Item, name: &str) -> u64 {
    image.get(name).and_then(|value| value.as_n().ok()).and_then(|n| n.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Builds the idempotency record of a produce to `QM1:ORDERS`, with this status and these
    /// numbers.
    pub(crate) fn image(status: &str, created_at: &str, numbers: &[(&str, u64)]) -> Item {
        let texts = [
            ("pk", "PRODUCE#acme#key"),
            ("operationType", "PRODUCE"),
            ("tenantId", "acme"),
            ("target", "QM1:ORDERS"),
            ("status", status),
            ("createdAt", created_at),
            ("updatedAt", created_at),
            ("keyName", "till 1"),
        ];
        let texts = texts.map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())));
        let numbers = numbers.iter().map(|(name, n)| ((*name).to_owned(), AttributeValue::N(n.to_string())));
        texts.into_iter().chain(numbers).collect()
    }

    const CREATED: &str = "2026-11-27T02:59:59.999Z";

    fn of([requests, failed, messages, bytes]: [u64; 4]) -> Counts {
        Counts { requests, failed, messages, bytes, ..Counts::default() }
    }

    #[test]
    fn a_request_counts_once_an_attempt_has_ended_in_the_hour_of_its_creation() {
        let counts = |status: &str, numbers: &[(&str, u64)]| {
            contribution(&image(status, CREATED, numbers)).unwrap().counts
        };
        assert!(counts("IN_PROGRESS", &[]).is_zero());
        assert!(counts("PREPARED", &[]).is_zero());
        let volume = [("messages", 3), ("bytes", 40), ("durationMs", 5)];
        assert_eq!(counts("COMPLETED", &volume), of([1, 0, 3, 40]));
        assert_eq!(counts("FAILED", &volume), of([1, 1, 3, 40]));
        assert_eq!(counts("IN_PROGRESS", &volume), of([1, 0, 3, 40]), "a retry runs");
        let Contribution { line, target, .. } = contribution(&image("COMPLETED", CREATED, &[])).unwrap();
        assert_eq!((line.hour.to_string().as_str(), target.as_str()), ("2026-11-27T02", "QM1:ORDERS"));
        assert_eq!((line.operation.as_str(), line.key_name.as_str()), ("produce", "till 1"));
    }

    #[test]
    fn records_of_earlier_versions_count_without_volume_and_other_items_not_at_all() {
        let mut earlier = image("COMPLETED", CREATED, &[]);
        earlier.remove("keyName");
        earlier.remove("target");
        let found = contribution(&earlier).unwrap();
        assert_eq!((found.line.key_name.as_str(), found.target.as_str()), ("", ""));
        assert_eq!(found.counts, of([1, 0, 0, 0]));
        for missing in ["status", "tenantId", "operationType", "createdAt"] {
            let mut other = image("COMPLETED", CREATED, &[]);
            other.remove(missing);
            assert_eq!(contribution(&other), None, "{missing}");
        }
    }
}
