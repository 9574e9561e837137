//! Recorded calls to DynamoDB, made again through the SDK with other keys.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::recorder::Call;

type Attributes = HashMap<String, AttributeValue>;

/// A call in the SDK's own types.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    is_put: bool,
    table: String,
    /// The item of a put, the key of an update.
    subject: Attributes,
    update: Option<String>,
    condition: Option<String>,
    names: Option<HashMap<String, String>>,
    values: Option<Attributes>,
    returned: Option<ReturnValuesOnConditionCheckFailure>,
}

impl Replay {
    pub(crate) fn of(call: &Call) -> Result<Self, Error> {
        let unknown = || Error::Unexpected(format!("{} cannot be made again", call.operation));
        let is_put = match call.operation.as_str() {
            "PutItem" => true,
            "UpdateItem" => false,
            _ => return Err(unknown()),
        };
        let body = call.body.as_object().ok_or_else(unknown)?;
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let map = |name: &str| body.get(name).and_then(Value::as_object);
        let names = map("ExpressionAttributeNames").map(|names| {
            names
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect()
        });
        Ok(Self {
            is_put,
            table: text("TableName").ok_or_else(unknown)?,
            subject: map(if is_put { "Item" } else { "Key" }).and_then(attributes).ok_or_else(unknown)?,
            update: text("UpdateExpression"),
            condition: text("ConditionExpression"),
            names,
            values: map("ExpressionAttributeValues")
                .map(|values| attributes(values).ok_or_else(unknown))
                .transpose()?,
            returned: text("ReturnValuesOnConditionCheckFailure").map(|value| value.as_str().into()),
        })
    }

    /// Makes the call with `key` wherever `recorded` stood.
    pub(crate) async fn send(&self, dynamodb: &Client, recorded: &str, key: &str) -> Result<(), Error> {
        let replaced = |attributes: &Attributes| {
            let mut attributes = attributes.clone();
            attributes.values_mut().for_each(|value| replace(value, recorded, key));
            attributes
        };
        let subject = replaced(&self.subject);
        let values = self.values.as_ref().map(replaced);
        let failed = |error: String| Error::Unexpected(format!("DynamoDB: {error}"));
        if self.is_put {
            let put = dynamodb.put_item().table_name(&self.table).set_item(Some(subject));
            put.set_condition_expression(self.condition.clone())
                .set_expression_attribute_names(self.names.clone())
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(self.returned.clone())
                .send()
                .await
                .map_err(|error| failed(DisplayErrorContext(error).to_string()))?;
        } else {
            let update = dynamodb.update_item().table_name(&self.table).set_key(Some(subject));
            update
                .set_update_expression(self.update.clone())
                .set_condition_expression(self.condition.clone())
                .set_expression_attribute_names(self.names.clone())
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(self.returned.clone())
                .send()
                .await
                .map_err(|error| failed(DisplayErrorContext(error).to_string()))?;
        }
        Ok(())
    }
}

fn replace(value: &mut AttributeValue, from: &str, to: &str) {
    match value {
        AttributeValue::S(text) if text.contains(from) => *text = text.replace(from, to),
        AttributeValue::M(members) => members.values_mut().for_each(|value| replace(value, from, to)),
        _ => {}
    }
}

fn attributes(members: &Map<String, Value>) -> Option<Attributes> {
    members.iter().map(|(name, value)| Some((name.clone(), attribute(value)?))).collect()
}

/// Reads an attribute of the types that records have.
fn attribute(value: &Value) -> Option<AttributeValue> {
    let (kind, value) = value.as_object()?.iter().next()?;
    Some(match kind.as_str() {
        "S" => AttributeValue::S(value.as_str()?.to_owned()),
        "N" => AttributeValue::N(value.as_str()?.to_owned()),
        "BOOL" => AttributeValue::Bool(value.as_bool()?),
        "M" => AttributeValue::M(attributes(value.as_object()?)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_replaced_wherever_it_stands() {
        let item = json!({"pk": {"S": "PRODUCE#t#old"}, "n": {"N": "1"}, "h": {"M": {"key": {"S": "old"}}}});
        let call = Call { operation: "PutItem".to_owned(), body: json!({"TableName": "t", "Item": item}) };
        let mut subject = Replay::of(&call).unwrap().subject;
        subject.values_mut().for_each(|value| replace(value, "old", "new"));
        assert_eq!(subject["pk"], AttributeValue::S("PRODUCE#t#new".to_owned()));
        assert_eq!(subject["n"], AttributeValue::N("1".to_owned()));
        let header = AttributeValue::S("new".to_owned());
        assert_eq!(subject["h"], AttributeValue::M(HashMap::from([("key".to_owned(), header)])));
    }

    #[test]
    fn other_calls_are_refused() {
        let call = Call { operation: "Scan".to_owned(), body: json!({"TableName": "t"}) };
        assert!(Replay::of(&call).is_err());
    }
}
