//! Recorded calls to DynamoDB, made again through the SDK with other keys.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Deserialize;
use serde_dynamo::Item;

use crate::error::Error;
use crate::recorder::Call;

/// Recorded `PutItem` or `UpdateItem` call, to be made again.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Replay {
    table_name: String,
    item: Option<Item>,
    key: Option<Item>,
    update_expression: Option<String>,
    condition_expression: Option<String>,
    expression_attribute_names: Option<HashMap<String, String>>,
    expression_attribute_values: Option<Item>,
    return_values_on_condition_check_failure: Option<String>,
}

impl Replay {
    /// Builds a call from a recorded one, with the idempotency key `recorded` replaced by `key`
    /// everywhere.
    pub(crate) fn of(call: &Call, recorded: &str, key: &str) -> Result<Self, Error> {
        match call.operation.as_str() {
            "PutItem" | "UpdateItem" => {
                Ok(serde_json::from_str(&call.body.to_string().replace(recorded, key))?)
            }
            other => Err(format!("{other} cannot be made again").into()),
        }
    }

    pub(crate) async fn send(self, dynamodb: &Client) -> Result<(), Error> {
        let attributes = |item: Option<Item>| item.map(HashMap::<String, AttributeValue>::from);
        let values = attributes(self.expression_attribute_values);
        let returned = self.return_values_on_condition_check_failure.map(|value| value.as_str().into());
        if let Some(item) = attributes(self.item) {
            let put = dynamodb.put_item().table_name(self.table_name).set_item(Some(item));
            put.set_condition_expression(self.condition_expression)
                .set_expression_attribute_names(self.expression_attribute_names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(returned)
                .send()
                .await?;
        } else {
            let update = dynamodb.update_item().table_name(self.table_name).set_key(attributes(self.key));
            update
                .set_update_expression(self.update_expression)
                .set_condition_expression(self.condition_expression)
                .set_expression_attribute_names(self.expression_attribute_names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(returned)
                .send()
                .await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_replaced_wherever_it_stands() {
        let item = json!({"pk": {"S": "PRODUCE#t#old"}, "n": {"N": "1"}, "h": {"M": {"key": {"S": "old"}}}});
        let body = json!({"TableName": "t", "Item": item});
        let call = Call { operation: "PutItem".to_owned(), body, took: Duration::ZERO };
        let item = Replay::of(&call, "old", "new").unwrap().item.unwrap();
        let item: HashMap<String, AttributeValue> = item.into();
        assert_eq!(item["pk"], AttributeValue::S("PRODUCE#t#new".to_owned()));
        assert_eq!(item["n"], AttributeValue::N("1".to_owned()));
        let header = AttributeValue::S("new".to_owned());
        assert_eq!(item["h"], AttributeValue::M(HashMap::from([("key".to_owned(), header)])));
    }
}
