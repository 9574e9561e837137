//! Additions to counters.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};

use super::{UsageTable, key_of, number};
use crate::chunk::Delta;
use crate::error::UsageError;
use crate::key::Key;

/// An update that adds to counters.
pub(super) struct Addition {
    pub(super) key: HashMap<String, AttributeValue>,
    pub(super) expression: String,
    pub(super) names: HashMap<String, String>,
    pub(super) values: HashMap<String, AttributeValue>,
}

/// Makes the update that adds `delta`, which is not all 0.
pub(super) fn addition(key: &Key, delta: Delta) -> Addition {
    let (mut added, mut names, mut values) = (Vec::new(), HashMap::new(), HashMap::new());
    for (name, count) in delta.named() {
        added.push(format!("#{name} :{name}"));
        names.insert(format!("#{name}"), name.to_owned());
        values.insert(format!(":{name}"), number(count));
    }
    let mut expression = format!("ADD {}", added.join(", "));
    if let Some(ttl) = key.ttl {
        expression.push_str(" SET #ttl = :ttl");
        names.insert("#ttl".to_owned(), "ttl".to_owned());
        values.insert(":ttl".to_owned(), number(ttl));
    }
    Addition { key: key_of(&key.pk, &key.sk), expression, names, values }
}

impl Addition {
    /// Makes a write of a transaction, with a condition if there is one.
    pub(super) fn write(
        self,
        table: &str,
        condition: Option<String>,
    ) -> Result<TransactWriteItem, UsageError> {
        let update = Update::builder()
            .table_name(table)
            .set_key(Some(self.key))
            .update_expression(self.expression)
            .set_condition_expression(condition)
            .set_expression_attribute_names(Some(self.names))
            .set_expression_attribute_values(Some(self.values))
            .build()
            .map_err(UsageError::unavailable)?;
        Ok(TransactWriteItem::builder().update(update).build())
    }
}

impl UsageTable {
    /// Writes all items or none of them. False if a condition fails.
    pub(super) async fn transact(&self, writes: Vec<TransactWriteItem>) -> Result<bool, UsageError> {
        match self.dynamodb.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(answer)) => match answer.into_err() {
                TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                    let mut reasons = cancelled.cancellation_reasons().iter();
                    if reasons.any(|reason| reason.code() == Some("ConditionalCheckFailed")) {
                        return Ok(false);
                    }
                    Err(UsageError::unavailable(cancelled))
                }
                error => Err(UsageError::unavailable(error)),
            },
            Err(error) => Err(UsageError::unavailable(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;

    #[test]
    fn only_counters_that_change_are_written() {
        let counts = Counts { requests: 2, bytes: 30, ..Counts::default() };
        let day = "2026-11-27".parse().unwrap();
        let written = addition(&Key::of_day(day, "acme", "produce", "till 1"), Delta::adding(&counts));
        assert_eq!(written.expression, "ADD #requests :requests, #bytes :bytes SET #ttl = :ttl");
        assert_eq!((written.names.len(), written.values.len()), (3, 3));
        assert_eq!(written.values[":bytes"], number(30));
        let total = addition(&Key::total("produce", ""), Delta::adding(&counts));
        assert_eq!(total.expression, "ADD #requests :requests, #bytes :bytes");
    }
}
