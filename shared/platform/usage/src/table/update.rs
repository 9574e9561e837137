//! Writes that add to the counters of the usage table.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, CancellationReason, TransactWriteItem, Update};

use super::{UsageTable, key_of, number};
use crate::chunk::Delta;
use crate::error::UsageError;
use crate::key::Key;

/// Maximum number of attempts at a write that conflicts with another write of the same item.
const TRIES: u32 = 5;
/// Minimum pause after the first attempt at a write. The minimum doubles with each attempt.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// DynamoDB update that adds to the counters of an item.
pub(super) struct Addition {
    pub(super) key: HashMap<String, AttributeValue>,
    pub(super) expression: String,
    pub(super) names: HashMap<String, String>,
    pub(super) values: HashMap<String, AttributeValue>,
}

/// Builds the update that adds `delta` to the counters of the item `key`. At least one of the
/// differences must not be 0.
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
    /// Builds the update as one write of a transaction; with a `condition`, the transaction fails
    /// if it does not hold.
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

/// Outcome of one attempt at a DynamoDB transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionOutcome {
    Written,
    /// A write's condition failed. Nothing was written.
    Refused,
    /// Another write to one of the items was in progress. Nothing was written, and a retry may
    /// succeed.
    Conflict,
}

impl UsageTable {
    /// Executes all writes in one transaction. Returns false, and writes nothing, if a condition
    /// fails. Conflicts with other writes are retried. They occur because several functions write
    /// to the items of a day: `metering` counts changes, `audit` adds the approximate counters, and
    /// `load-step` counts load tests.
    ///
    /// # Errors
    /// If the table is unavailable, or if all attempts conflict with other writes.
    pub(super) async fn transact(&self, writes: Vec<TransactWriteItem>) -> Result<bool, UsageError> {
        for tried in 1..TRIES {
            match self.attempt(writes.clone()).await? {
                TransactionOutcome::Written => return Ok(true),
                TransactionOutcome::Refused => return Ok(false),
                TransactionOutcome::Conflict => pause(tried).await,
            }
        }
        match self.attempt(writes).await? {
            TransactionOutcome::Written => Ok(true),
            TransactionOutcome::Refused => Ok(false),
            TransactionOutcome::Conflict => Err(UsageError::unavailable("other writes had the items")),
        }
    }

    async fn attempt(&self, writes: Vec<TransactWriteItem>) -> Result<TransactionOutcome, UsageError> {
        match self.dynamodb.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(TransactionOutcome::Written),
            Err(SdkError::ServiceError(answer)) => match answer.into_err() {
                TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                    let reasons = cancelled.cancellation_reasons().iter();
                    let codes: Vec<_> = reasons.filter_map(CancellationReason::code).collect();
                    outcome(&codes).ok_or_else(|| UsageError::unavailable(cancelled))
                }
                error => Err(UsageError::unavailable(error)),
            },
            Err(error) => Err(UsageError::unavailable(error)),
        }
    }

    /// Adds to the counters of one item without a transaction. The write is repeated if it
    /// conflicts with a transaction, with at most [`TRIES`] attempts.
    pub(super) async fn add(&self, addition: Addition) -> Result<(), UsageError> {
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .set_key(Some(addition.key))
            .update_expression(addition.expression)
            .set_expression_attribute_names(Some(addition.names))
            .set_expression_attribute_values(Some(addition.values));
        for tried in 1..TRIES {
            match update.clone().send().await {
                Ok(_) => return Ok(()),
                Err(SdkError::ServiceError(error)) if error.err().is_transaction_conflict_exception() => {
                    pause(tried).await;
                }
                Err(error) => return Err(UsageError::unavailable(error)),
            }
        }
        update.send().await.map(drop).map_err(UsageError::unavailable)
    }
}

/// Determines the outcome of a cancelled transaction from its cancellation codes; `None` if they
/// contain neither a failed condition nor a conflict. A failed condition has precedence, since a
/// retry cannot help then.
fn outcome(codes: &[&str]) -> Option<TransactionOutcome> {
    if codes.contains(&"ConditionalCheckFailed") {
        return Some(TransactionOutcome::Refused);
    }
    codes.contains(&"TransactionConflict").then_some(TransactionOutcome::Conflict)
}

/// Waits before the next attempt at a write, for a random time that grows with `tried`, the number
/// of attempts so far.
async fn pause(tried: u32) {
    let most = SHORTEST_PAUSE.saturating_mul(2_u32.saturating_pow(tried));
    tokio::time::sleep(most.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;

    #[test]
    fn a_failed_condition_is_final_and_a_conflict_is_not() {
        assert_eq!(outcome(&["None", "TransactionConflict"]), Some(TransactionOutcome::Conflict));
        assert_eq!(
            outcome(&["TransactionConflict", "ConditionalCheckFailed"]),
            Some(TransactionOutcome::Refused)
        );
        assert_eq!(outcome(&["None", "ThrottlingError"]), None);
    }

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
