use serde::Serialize;

/// Partial batch response: the messages that Lambda must deliver again.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    /// Messages that failed; empty if every record is done. Records of Kafka are never named: see
    /// [`ServeError::Unsettled`](crate::ServeError::Unsettled).
    pub batch_item_failures: Vec<ItemFailure>,
}

/// A message that failed.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemFailure {
    /// Id of the message.
    pub item_identifier: String,
}
