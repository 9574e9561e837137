//! Creation of load tests, within the number of workers that a tenant's unfinished tests may have.
//!
//! Each tenant has an item that counts the tests that it has created. A creation reads the tenant's
//! unfinished tests, and then writes the new test together with the increased count. The condition
//! of the write is that the count has not changed since before the read. So of several concurrent
//! creations, each has read the tests that were created before it.

use std::time::Duration;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, Put, TransactWriteItem, Update};

use crate::store::item::{self, number};
use crate::store::{TestRecord, TestStore, TestStoreError, expiry_of_open};

/// Maximum number of times that one creation reads the tenant's unfinished tests. It reads them
/// again if another test of the tenant was created meanwhile. The pauses between the reads take
/// four seconds in total, six at most.
const LOOKS: u32 = 20;

/// Mean pause before the second read of a tenant's tests; each further pause is longer by the same
/// time.
const PAUSE: Duration = Duration::from_millis(20);

/// Result of storing a new load test.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// The load test is stored, by this call or by an earlier call with the same id.
    Stored,
    /// The load test would exceed the number of workers that the tenant's unfinished tests may have
    /// together. It was not stored.
    NoRoom {
        /// Other unfinished tests of the tenant, the newest first.
        others: Vec<TestRecord>,
        /// Total number of workers of the tests in `others`.
        other_workers: u32,
    },
}

impl TestStore {
    /// Stores a load test under its tenant and id, unless it exists already. The tenant's
    /// unfinished tests, this one included, may have at most `most_workers` workers together. An
    /// existing test keeps its content.
    ///
    /// # Errors
    /// If the table does not respond, if another test of the tenant was created during each of 20
    /// reads, or if the test's definition is too large.
    pub async fn create(&self, record: &TestRecord, most_workers: u32) -> Result<Created, TestStoreError> {
        for look in 0..LOOKS {
            tokio::time::sleep(pause(look)).await;
            let before = self.created(&record.tenant).await?;
            // Boxed: the compiler cannot lay out a deep nest of futures.
            let mut others = Box::pin(self.unfinished(&record.tenant)).await?;
            others.retain(|other| other.test_id != record.test_id);
            let other_workers =
                others.iter().map(|other| other.test.worker_count()).fold(0, u32::saturating_add);
            if other_workers.saturating_add(record.test.worker_count()) > most_workers {
                return Ok(Created::NoRoom { others, other_workers });
            }
            if self.put_next(record, before).await? {
                return Ok(Created::Stored);
            }
        }
        Err(TestStoreError::Unavailable("other tests of the tenant were created at each look".into()))
    }

    /// Reads the stored number of tests that a tenant has created so far.
    async fn created(&self, tenant: &str) -> Result<u64, TestStoreError> {
        let item = self.item(item::created_key(tenant)).await?.unwrap_or_default();
        let count = item.get("createdTests").and_then(|count| count.as_n().ok()?.parse().ok());
        Ok(count.unwrap_or_default())
    }

    /// Stores a test with its definition, on the condition that the tenant's number of created
    /// tests is still `before`. True if the test is stored, by this call or before; false if
    /// another test was created meanwhile.
    async fn put_next(&self, record: &TestRecord, before: u64) -> Result<bool, TestStoreError> {
        let expires_at = expiry_of_open(record.created_at);
        let put = || Put::builder().table_name(&self.table);
        let test = put()
            .set_item(Some(item::of_test(record, expires_at.clone())))
            .condition_expression("attribute_not_exists(pk)");
        // Nobody reads a definition whose test is not there, so one that a deletion left may go.
        let definition = put().set_item(Some(item::of_definition(record, expires_at.clone())?));
        let count = Update::builder()
            .table_name(&self.table)
            .set_key(Some(item::created_key(&record.tenant)))
            .update_expression("SET createdTests = :next, expiresAt = :expiresAt")
            .condition_expression("attribute_not_exists(createdTests) OR createdTests = :before")
            .expression_attribute_values(":before", number(before))
            .expression_attribute_values(":next", number(before.saturating_add(1)))
            .expression_attribute_values(":expiresAt", expires_at);
        let [test, definition] =
            [test, definition].map(|put| put.build().map_err(TestStoreError::unencodable));
        let count = count.build().map_err(TestStoreError::unencodable)?;
        let write = self
            .dynamodb
            .transact_write_items()
            .transact_items(TransactWriteItem::builder().put(test?).build())
            .transact_items(TransactWriteItem::builder().put(definition?).build())
            .transact_items(TransactWriteItem::builder().update(count).build());
        match write.send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(answer)) => match answer.into_err() {
                TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                    let reasons = cancelled.cancellation_reasons().iter();
                    let codes: Vec<_> = reasons.map(CancellationReason::code).collect();
                    was_there(&codes).ok_or_else(|| TestStoreError::unavailable(cancelled))
                }
                error => Err(TestStoreError::unavailable(error)),
            },
            Err(error) => Err(TestStoreError::unavailable(error)),
        }
    }
}

/// Returns the pause before the read with number `look` (from 0) of the tenant's tests. It is
/// random, so that concurrent creations that conflicted do not conflict again.
fn pause(look: u32) -> Duration {
    PAUSE.saturating_mul(look).mul_f64(0.5 + fastrand::f64())
}

/// Interprets the cancellation codes of the transaction that creates a test; the first code belongs
/// to the test's own item. True if the test exists already; false if another test of the tenant was
/// created meanwhile; `None` for any other reason.
fn was_there(codes: &[Option<&str>]) -> Option<bool> {
    const REFUSED: Option<&str> = Some("ConditionalCheckFailed");
    if codes.first() == Some(&REFUSED) {
        return Some(true);
    }
    let is_overtaken = codes.iter().any(|code| *code == REFUSED || *code == Some("TransactionConflict"));
    is_overtaken.then_some(false)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn creations_that_met_look_again_at_different_times() {
        assert_eq!(pause(0), Duration::ZERO);
        let pauses: BTreeSet<Duration> = (0..100).map(|_| pause(LOOKS)).collect();
        assert!(pauses.len() > 10, "{pauses:?}");
        let bounds = PAUSE * LOOKS / 2..=PAUSE * LOOKS * 3 / 2;
        assert!(pauses.iter().all(|pause| bounds.contains(pause)), "{pauses:?}");
    }

    #[test]
    fn a_test_that_is_there_is_created_and_one_that_another_overtook_is_tried_again() {
        let (none, refused) = (Some("None"), Some("ConditionalCheckFailed"));
        let conflict = Some("TransactionConflict");
        for (codes, expected) in [
            ([refused, none, none], Some(true)),
            ([refused, none, refused], Some(true)),
            ([none, none, refused], Some(false)),
            ([none, none, conflict], Some(false)),
            ([conflict, none, conflict], Some(false)),
            ([none, Some("ThrottlingError"), none], None),
            ([None; 3], None),
        ] {
            assert_eq!(was_there(&codes), expected, "{codes:?}");
        }
    }
}
