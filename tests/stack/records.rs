//! The idempotency table, looked at from outside.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use uuid::Uuid;

use crate::gateway::TENANT_A;

/// Reads and changes records of tenant A.
#[derive(Debug)]
pub struct Records {
    dynamodb: Client,
    table: String,
}

impl Records {
    pub async fn open() -> Self {
        let sdk = aws::Sdk::from_environment().await;
        // A test waits longer than the functions do.
        let sdk = sdk.single_attempt(Duration::from_secs(20));
        Self { dynamodb: Client::new(&sdk), table: crate::variable("IDEMPOTENCY_TABLE") }
    }

    fn key(operation: &str, key: Uuid) -> AttributeValue {
        AttributeValue::S(format!("{operation}#{TENANT_A}#{key}"))
    }

    /// The record's attributes, or `None`.
    pub async fn find(&self, operation: &str, key: Uuid) -> Option<HashMap<String, AttributeValue>> {
        let get = self.dynamodb.get_item().table_name(&self.table).key("pk", Self::key(operation, key));
        get.consistent_read(true).send().await.unwrap().item
    }

    /// Puts the record back into the state of an execution that never ended, as a crash would have left it.
    pub async fn set(&self, operation: &str, key: Uuid, attributes: &[(&str, AttributeValue)]) {
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
