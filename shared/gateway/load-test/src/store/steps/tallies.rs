//! Storing of tallies: a worker stores its counts of the current minute about once a second.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use jiff::Timestamp;
use uuid::Uuid;

use super::key::StepKey;
use crate::Tally;
use crate::store::item::{named, number};
use crate::store::update::{self, Updated};
use crate::store::{Item, TestStore, TestStoreError, expiry_of_open};

/// Maximum number of bytes of a tally (counts of a worker in one minute) that are stored in one
/// item. DynamoDB limits an item to 400 KB.
const PART: usize = 350_000;

/// Maximum number of bytes of a tally (counts of a worker in one minute). One transaction writes
/// all its items, and DynamoDB limits a transaction to 4 MB.
const MOST: usize = 3_500_000;

/// DynamoDB condition for writing the counts of a step (a worker's attempt at one minute): the step
/// was claimed, no later attempt at its minute has superseded it, and no later write of its counts
/// was stored before this one.
const IS_NEXT: &str = "attribute_not_exists(supersededBy) AND written < :written";

/// Number of the last write of a worker's counts by this process. Only one process writes the
/// counts of a step (an attempt at one minute), so these numbers order its writes.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

impl TestStore {
    /// Stores the tally of a claimed step (a worker's counts in one minute) under its test, run and
    /// step, in place of the previous tally. A tally that a later call stored stays. Returns the
    /// size of the tally in bytes; `None` if a later attempt has taken over the minute, so that the
    /// invocation has to end.
    ///
    /// A tally above 350 KB is stored in several items by one transaction. Each KB takes one
    /// DynamoDB write unit, or two in a transaction. So a caller with a large tally should store it
    /// less often.
    ///
    /// # Errors
    /// If the table does not respond, or the tally has more than 3.5 MB.
    pub async fn store_tally(
        &self,
        test_id: Uuid,
        run: u32,
        tally: &Tally,
    ) -> Result<Option<usize>, TestStoreError> {
        let key = StepKey::of(test_id, run, tally.step());
        let written = number(WRITTEN.fetch_add(1, Ordering::Relaxed).saturating_add(1));
        let handled = number(tally.handled_count());
        let bytes = encode(tally.clone()).await?;
        let size = bytes.len();
        if size > MOST {
            return Err(TestStoreError::TooLarge { what: "tally", bytes: size });
        }
        if size > PART {
            let is_kept = self.store_in_parts(&key, handled, &written, &bytes).await?;
            return Ok(is_kept.then_some(size));
        }
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key.item()))
            .update_expression("SET handled = :handled, written = :written, tally = :tally REMOVE parts")
            .condition_expression(IS_NEXT)
            .expression_attribute_values(":handled", handled)
            .expression_attribute_values(":written", written)
            .expression_attribute_values(":tally", AttributeValue::B(Blob::new(bytes)));
        let is_kept = match update::send(update).await? {
            Updated::Done(_) => true,
            Updated::Refused(item) => was_overtaken(item.as_ref()),
        };
        Ok(is_kept.then_some(size))
    }

    /// Stores `bytes`, an encoded tally (counts of a worker in one minute), in several items, in
    /// one transaction. `handled` is the number of messages that the tally counts, and `written`
    /// the number of this write. Returns true if the table has this tally or a later one of the
    /// same step, and false if a later attempt has taken over the minute.
    async fn store_in_parts(
        &self,
        key: &StepKey,
        handled: AttributeValue,
        written: &AttributeValue,
        bytes: &[u8],
    ) -> Result<bool, TestStoreError> {
        let parts = bytes.chunks(PART);
        let head = Update::builder()
            .table_name(&self.table)
            .set_key(Some(key.item()))
            .update_expression("SET handled = :handled, written = :written, parts = :parts REMOVE tally")
            .condition_expression(IS_NEXT)
            .expression_attribute_values(":handled", handled)
            .expression_attribute_values(":written", written.clone())
            .expression_attribute_values(":parts", number(parts.len()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(TestStoreError::unencodable)?;
        let mut write = self
            .dynamodb
            .transact_write_items()
            .transact_items(TransactWriteItem::builder().update(head).build());
        for (part, index) in parts.zip(0..) {
            let mut item = key.part(index).item();
            item.extend(named([
                ("tally", AttributeValue::B(Blob::new(part))),
                ("written", written.clone()),
                ("expiresAt", expiry_of_open(Timestamp::now())),
            ]));
            let put = Put::builder().table_name(&self.table).set_item(Some(item)).build();
            let put = put.map_err(TestStoreError::unencodable)?;
            write = write.transact_items(TransactWriteItem::builder().put(put).build());
        }
        match write.send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(answer)) => match answer.into_err() {
                TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                    let mut reasons = cancelled.cancellation_reasons().iter();
                    let refused = reasons.find(|reason| reason.code() == Some("ConditionalCheckFailed"));
                    let refused = refused.map(|reason| was_overtaken(reason.item()));
                    refused.ok_or_else(|| TestStoreError::unavailable(cancelled))
                }
                error => Err(TestStoreError::unavailable(error)),
            },
            Err(error) => Err(TestStoreError::unavailable(error)),
        }
    }
}

/// Encodes a tally (counts of a worker in one minute) on another thread. Compressing its histograms
/// takes milliseconds, which would delay messages that are due.
async fn encode(tally: Tally) -> Result<Vec<u8>, TestStoreError> {
    let encoded = tokio::task::spawn_blocking(move || tally.to_bytes()).await;
    encoded.map_err(TestStoreError::unencodable)?.map_err(TestStoreError::unencodable)
}

/// True if the table refused a tally (counts of a worker in one minute) because `item` already has
/// a later tally of the same step. False if the step was superseded or never claimed.
fn was_overtaken(item: Option<&Item>) -> bool {
    item.is_some_and(|item| item.contains_key("written") && !item.contains_key("supersededBy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_that_was_overtaken_is_kept_and_one_of_an_earlier_attempt_is_not() {
        let item = |names: &[&'static str]| named(names.iter().map(|name| (*name, number(1))));
        for (item, expected) in [
            (Some(item(&["sk", "written"])), true),
            (Some(item(&["sk", "written", "supersededBy"])), false),
            (Some(item(&["sk", "supersededBy"])), false),
            (Some(Item::new()), false),
            (None, false),
        ] {
            assert_eq!(was_overtaken(item.as_ref()), expected, "{item:?}");
        }
    }
}
