//! Records of the idempotency table's DynamoDB stream, in the form in which Lambda delivers them.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_dynamo::Item;

/// Batch of records from the DynamoDB stream of the idempotency table, in order. The crate
/// `aws_lambda_events` has this type too, but depends on chrono.
#[derive(Debug, Deserialize)]
pub(crate) struct Changes {
    #[serde(rename = "Records")]
    pub(crate) records: Vec<Change>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Change {
    dynamodb: Images,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Images {
    sequence_number: String,
    /// Time at which DynamoDB recorded the change, in seconds since 1970; `None` if the stream
    /// record lacks it.
    approximate_creation_date_time: Option<f64>,
    old_image: Option<Item>,
    new_image: Option<Item>,
}

/// DynamoDB item as it was before or after a change; `None` before an insertion and after a
/// deletion. `Value` is the type of the attribute values in the crate that reads the item.
type Image<Value> = Option<HashMap<String, Value>>;

impl Change {
    /// Returns the time at which the item changed. Without a recorded time, returns the current
    /// time, so that the event for the change is retried until the stream drops the change.
    pub(crate) fn made_at(&self) -> Timestamp {
        let seconds = self.dynamodb.approximate_creation_date_time.unwrap_or(f64::INFINITY);
        let since = SignedDuration::try_from_secs_f64(seconds).ok();
        let made_at = since.and_then(|since| Timestamp::UNIX_EPOCH.checked_add(since).ok());
        made_at.unwrap_or_else(Timestamp::now)
    }

    /// Returns the sequence number of the change in the stream, and the item before and after the
    /// change.
    pub(crate) fn into_images<Value: From<serde_dynamo::AttributeValue>>(
        self,
    ) -> (String, Image<Value>, Image<Value>) {
        let Images { sequence_number, old_image, new_image, .. } = self.dynamodb;
        (sequence_number, old_image.map(Into::into), new_image.map(Into::into))
    }
}
