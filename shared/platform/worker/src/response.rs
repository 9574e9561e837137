use serde::Serialize;

/// The partial batch response: the messages that are to be delivered again.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    /// Empty if every record is done. Records of Kafka are never named: see
    /// [`ServeError::Unsettled`](crate::ServeError::Unsettled).
    pub batch_item_failures: Vec<ItemFailure>,
}

/// A message that failed.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemFailure {
    /// The message's id.
    pub item_identifier: String,
}
