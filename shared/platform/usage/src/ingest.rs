//! Usage of the ingest, and the form in which the function `batches` is asked for it and for other
//! figures: its database may be in a network of its own.

use std::error::Error;

use jiff::civil::Date;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Path for the usage that the database counts. No route of the API leads there.
pub const USAGE: &str = "/usage";

/// Usage of the ingest, by tenant and day.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngestUsage {
    /// Days of tenants, by tenant and day.
    pub days: Vec<IngestDay>,
    /// False if there are more days of tenants than an answer has.
    pub is_whole: bool,
}

/// Usage of the ingest by a tenant on a day.
#[derive(Clone, Debug, Deserialize)]
pub struct IngestDay {
    /// Id of the tenant.
    pub tenant: String,
    /// Day (UTC) on which the batches were received.
    pub day: Date,
    /// Usage counts of the day.
    #[serde(flatten)]
    pub counts: IngestCounts,
}

/// Numbers of batches, of bytes of their payloads, and of their items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngestCounts {
    /// Number of batches that are final.
    pub batches: u64,
    /// Bytes of the final batches' decoded payloads.
    pub bytes: u64,
    /// Counts of the items in the final batches.
    pub items: ItemCounts,
    /// Bytes of the decoded payloads that were stored at the end of a day, whenever they came, or
    /// the sum over several days. 0 from a function of an earlier version.
    #[serde(default, alias = "storedBytes")]
    pub stored_byte_days: u64,
}

/// Numbers of items by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCounts {
    /// Number of items that inserted a new row.
    pub inserted: u64,
    /// Number of items that updated a row.
    pub updated: u64,
    /// Number of items whose row already had the same content.
    pub unchanged: u64,
    /// Number of items whose row already had a later version.
    pub stale: u64,
    /// Number of items that were not written.
    pub failed: u64,
}

/// Response of an HTTP function to API Gateway.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: u16,
    body: String,
}

impl IngestCounts {
    /// Adds the counts of another day to these.
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
    /// Returns the number of items of every outcome.
    #[must_use]
    pub fn all(&self) -> u64 {
        let Self { inserted, updated, unchanged, stale, failed } = *self;
        [inserted, updated, unchanged, stale, failed].into_iter().fold(0, u64::saturating_add)
    }
}

/// Parses the body of a successful response.
///
/// # Errors
/// If the function responded with another status than 200, or its answer cannot be read.
pub fn content<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Box<dyn Error + Send + Sync>> {
    let Answer { status_code, body } = attempt::malformed::from_slice(answer)?;
    if status_code != 200 {
        return Err(format!("it responded with {status_code}; its log says why").into());
    }
    Ok(attempt::malformed::from_slice(body.as_bytes())?)
}

/// Builds a request as API Gateway hands it over, in payload format 2.0, but of no API: by that the
/// function knows that it does not come from a client.
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
