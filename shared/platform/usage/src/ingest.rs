//! Usage of the ingest, and the internal requests by which `metering` and `status` ask the function
//! `batches` for it and for other figures. Unlike them, `batches` reaches the ingest's database,
//! which may be in a network of its own.

use std::error::Error;

use jiff::civil::Date;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Path of an internal request to the function `batches` for the ingest's usage, which the ingest's
/// database counts. No route of the API leads to this path.
pub const USAGE: &str = "/usage";

/// Usage of the ingest: one entry for each tenant and day.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngestUsage {
    /// Usage of each tenant on each day, ordered by tenant and day.
    pub days: Vec<IngestDay>,
    /// True if `days` is complete. False if there were more entries than a response may have, so
    /// that some are left out.
    pub is_whole: bool,
}

/// Usage of the ingest by one tenant on one day.
#[derive(Clone, Debug, Deserialize)]
pub struct IngestDay {
    /// Id of the tenant.
    pub tenant: String,
    /// Day (UTC) on which the batches were received.
    pub day: Date,
    /// Usage of the ingest by the tenant on this day.
    #[serde(flatten)]
    pub counts: IngestCounts,
}

/// Usage of the ingest by one tenant, on one day or summed over several days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngestCounts {
    /// Number of batches whose processing has ended.
    pub batches: u64,
    /// Bytes of the decoded payloads of the batches whose processing has ended.
    pub bytes: u64,
    /// Number of items in the batches whose processing has ended, by their outcome.
    pub items: ItemCounts,
    /// Bytes of all decoded payloads that were stored at the end of the day, whenever they were
    /// received; over several days, the sum in byte-days. 0 in the response of a function of an
    /// earlier version.
    #[serde(default, alias = "storedBytes")]
    pub stored_byte_days: u64,
}

/// Numbers of items of ended batches, by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCounts {
    /// Number of items that inserted a row.
    pub inserted: u64,
    /// Number of items that updated an existing row.
    pub updated: u64,
    /// Number of items whose row already had the same content.
    pub unchanged: u64,
    /// Number of items that are older than the existing row, and did not change it.
    pub stale: u64,
    /// Number of items that failed: they were invalid, or their chunk could not be written.
    pub failed: u64,
}

/// HTTP response in the form in which a Lambda function returns it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: u16,
    body: String,
}

impl IngestCounts {
    /// Adds the counts of `other` to these.
    pub fn add(&mut self, other: &Self) {
        let sum = u64::saturating_add;
        let (own, added) = (self.items, other.items);
        *self = Self {
            batches: sum(self.batches, other.batches),
            bytes: sum(self.bytes, other.bytes),
            stored_byte_days: sum(self.stored_byte_days, other.stored_byte_days),
            items: ItemCounts {
                inserted: sum(own.inserted, added.inserted),
                updated: sum(own.updated, added.updated),
                unchanged: sum(own.unchanged, added.unchanged),
                stale: sum(own.stale, added.stale),
                failed: sum(own.failed, added.failed),
            },
        };
    }
}

impl ItemCounts {
    /// Returns the total number of items of all outcomes.
    #[must_use]
    pub fn all(&self) -> u64 {
        let Self { inserted, updated, unchanged, stale, failed } = *self;
        [inserted, updated, unchanged, stale, failed].into_iter().fold(0, u64::saturating_add)
    }
}

/// Parses the body of a successful HTTP response that a Lambda function returned.
///
/// # Errors
/// If the status is not 200, or if the response or its body is malformed.
pub fn content<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Box<dyn Error + Send + Sync>> {
    let Answer { status_code, body } = attempt::malformed::from_slice(answer)?;
    if status_code != 200 {
        return Err(format!("it responded with {status_code}; its log says why").into());
    }
    Ok(attempt::malformed::from_slice(body.as_bytes())?)
}

/// Builds the event of an internal request to another function, in the form of API Gateway's HTTP
/// requests (payload format 2.0). The empty API id tells the function that the request is internal.
#[must_use]
pub fn request(path: &str, query: &str) -> Value {
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {"host": "status"},
        "requestContext": {
            "accountId": "", "apiId": "", "domainName": "status", "domainPrefix": "",
            "http": {
                "method": "GET", "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1",
                "userAgent": "status",
            },
            "requestId": "", "routeKey": "$default", "stage": "$default",
            "time": "", "timeEpoch": 0,
        },
        "isBase64Encoded": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_from_an_answer_that_cannot_be_read() {
        let read = |status: u16, body: &str| {
            let answer = json!({"statusCode": status, "headers": {}, "body": body}).to_string();
            content::<Value>(answer.as_bytes()).map_err(|error| error.to_string())
        };
        assert_eq!(read(200, "[1]"), Ok(json!([1])));
        assert_eq!(read(503, "{}"), Err("it responded with 503; its log says why".to_owned()));
        assert_ne!(read(200, "<html>"), read(503, "<html>"));
    }

    #[test]
    fn a_question_comes_from_no_api() {
        assert_eq!(request(USAGE, "from=2026-11-21")["requestContext"]["apiId"], "");
    }

    #[test]
    fn the_answer_of_the_other_function_is_read_and_added_up() {
        let line = json!({
            "tenant": "t", "day": "2026-11-21", "batches": 2, "bytes": 30,
            "items": {"inserted": 1, "updated": 2, "unchanged": 3, "stale": 4, "failed": 5},
        });
        let mut latest = line.clone();
        latest["storedBytes"] = json!(70);
        let days = json!({"days": [line, latest], "isWhole": true});
        let usage: IngestUsage = serde_json::from_value(days).unwrap();
        let mut counts = usage.days[0].counts;
        counts.add(&usage.days[1].counts);
        assert_eq!((counts.batches, counts.bytes, counts.items.failed), (4, 60, 10));
        assert_eq!(counts.stored_byte_days, 70, "an earlier version says nothing of it");
        assert_eq!((usage.days[0].counts.items.all(), usage.is_whole), (15, true));
    }
}
