use serde::Serialize;

use crate::RecordId;

/// The partial batch response: the records that are to be delivered again.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    /// Empty if every record is done.
    pub batch_item_failures: Vec<ItemFailure>,
}

/// A record that failed.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemFailure {
    /// The message's id for SQS, the offset for Kafka.
    pub item_identifier: RecordId,
}
