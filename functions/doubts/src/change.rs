//! The events of a table's stream, as Lambda delivers them.

use std::collections::HashMap;

use serde::Deserialize;
use serde_dynamo::Item;

/// A batch of changes, in their order. `aws_lambda_events` has the form too, and brings chrono.
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
    old_image: Option<Item>,
    new_image: Option<Item>,
}

/// An item as the store's crate reads it.
type Image<Value> = Option<HashMap<String, Value>>;

impl Change {
    /// The change's sequence number, and the item before and after it.
    pub(crate) fn into_images<Value: From<serde_dynamo::AttributeValue>>(
        self,
    ) -> (String, Image<Value>, Image<Value>) {
        let Images { sequence_number, old_image, new_image } = self.dynamodb;
        (sequence_number, old_image.map(Into::into), new_image.map(Into::into))
    }
}
