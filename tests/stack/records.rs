//! DynamoDB client with which tests look at the idempotency table.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use uuid::Uuid;

use crate::gateway::TENANT_A;

/// Client that reads and changes tenant A's records in the idempotency table.
#[derive(Debug)]
pub struct Records {
    dynamodb: Client,
    table: String,
}

impl Records {
    pub async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await;
        // A test waits longer than the functions do.
        let sdk = sdk.single_attempt(Duration::from_secs(20));
        Self { dynamodb: Client::new(&sdk), table: crate::variable("IDEMPOTENCY_TABLE") }
    }

    fn key(operation: &str, key: impl Display) -> AttributeValue {
        AttributeValue::S(format!("{operation}#{TENANT_A}#{key}"))
    }

    /// Returns the attributes of a record by operation, such as `PRODUCE`, and idempotency key.
    /// Returns `None` if there is no such record.
    pub async fn find(&self, operation: &str, key: impl Display) -> Option<HashMap<String, AttributeValue>> {
        let get = self.dynamodb.get_item().table_name(&self.table).key("pk", Self::key(operation, key));
        get.consistent_read(true).send().await.unwrap().item
    }

    /// Returns the keys of the records about a target, such as `/:QUEUE`, from the table's index of
    /// targets.
    pub async fn of_target(&self, target: &str) -> Vec<String> {
        let query = self.dynamodb.query().table_name(&self.table).index_name("target-index");
        let query = query.key_condition_expression("target = :target");
        let query = query.expression_attribute_values(":target", AttributeValue::S(target.to_owned()));
        let items = query.send().await.unwrap().items.unwrap_or_default();
        items.iter().map(|item| item["pk"].as_s().unwrap().clone()).collect()
    }

    /// Removes attributes from a record.
    pub async fn remove(&self, operation: &str, key: Uuid, attributes: &[&str]) {
        let update = self.dynamodb.update_item().table_name(&self.table).key("pk", Self::key(operation, key));
        update.update_expression(format!("REMOVE {}", attributes.join(", "))).send().await.unwrap();
    }

    /// Sets attributes of a record, for example to make it look as after a crash of its execution.
    pub async fn set(&self, operation: &str, key: impl Display, attributes: &[(&str, AttributeValue)]) {
        let mut update =
            self.dynamodb.update_item().table_name(&self.table).key("pk", Self::key(operation, key));
        let mut assignments = Vec::new();
        for (index, (name, value)) in attributes.iter().enumerate() {
            assignments.push(format!("#n{index} = :v{index}"));
            update = update
                .expression_attribute_names(format!("#n{index}"), *name)
                .expression_attribute_values(format!(":v{index}"), value.clone());
        }
        update.update_expression(format!("SET {}", assignments.join(", "))).send().await.unwrap();
    }
}
