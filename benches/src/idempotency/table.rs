//! A table of its own, with the primary key that both take.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};

use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Table {
    dynamodb: Client,
    name: String,
}

/// The name of the key's attribute, also for Powertools.
const KEY: &str = "pk";

impl Table {
    pub(crate) async fn create(dynamodb: Client) -> Result<Self, Error> {
        let name = format!("bench-idempotency-{}", jiff::Timestamp::now().as_millisecond());
        let attribute =
            AttributeDefinition::builder().attribute_name(KEY).attribute_type(ScalarAttributeType::S).build();
        let key = KeySchemaElement::builder().attribute_name(KEY).key_type(KeyType::Hash).build();
        let create = dynamodb
            .create_table()
            .table_name(&name)
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(attribute.map_err(failed)?)
            .key_schema(key.map_err(failed)?);
        create.send().await.map_err(failed)?;
        Ok(Self { dynamodb, name })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn delete(self) -> Result<(), Error> {
        self.dynamodb.delete_table().table_name(&self.name).send().await.map_err(failed)?;
        Ok(())
    }
}

fn failed(error: impl std::error::Error) -> Error {
    Error::Unexpected(DisplayErrorContext(error).to_string())
}
