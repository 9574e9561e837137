//! Awaited uploads: the DynamoDB index of batch items whose payload has not arrived yet, because a
//! client uploads it by itself, or it is copied from a dropped object. Items are in the order of
//! the time at which to check whether the payload arrived.
//!
//! Only such items have the index's attributes, so the index is as small as the number of uploads
//! in progress. Its partition key is one of [`SHARDS`] numbers, chosen by the batch's id, so that a
//! flood of uploads is not in one partition.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use ingestion::batch::BatchStatus;
use ingestion::payload::payload_key;
use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use crate::item::{readable, text, time};
use crate::{BatchItemError, BatchItems, Item};

/// Name of the DynamoDB index of batches whose payload is awaited: a client uploads it, or it is
/// copied from a dropped object.
pub const AWAITED_INDEX: &str = "awaited-index";

/// Number of partition keys over which the index of awaited uploads is spread, by the batch's id.
pub const SHARDS: u8 = 16;

/// Maximum number of pages that one call reads of a shard (one partition key of the index of
/// awaited uploads).
const PAGES: u8 = 8;

/// Payload that a client uploads, or that is copied from a dropped object, and whose arrival is not
/// recorded yet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedUpload {
    /// Id of the batch's tenant, the partition key of the batch's item.
    pub tenant_id: Uuid,
    /// Id of the batch, the sort key of the batch's item.
    pub batch_id: Uuid,
    received_at: Timestamp,
    /// Time until which the payload may be uploaded or copied.
    pub upload_expires_at: Timestamp,
    /// Time at which to check whether the payload was uploaded.
    awaited_until: Timestamp,
}

impl AwaitedUpload {
    /// Returns the S3 key under which the upload stores its payload.
    #[must_use]
    pub fn key(&self) -> String {
        payload_key(self.received_at, self.batch_id)
    }
}

/// Result of an attempt to claim the notification of a batch's payload, which one caller at a time
/// may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationClaim {
    /// The caller has the claim and must send the notification.
    Granted,
    /// Another caller claimed the notification recently, so it must not be sent now.
    Refused,
    /// The table has no item of the batch: it was never accepted, or its item has expired.
    NotAccepted,
}

/// Returns the attributes by which the index of awaited uploads finds a batch's item: the shard of
/// the batch's id, and `expires_at`, the time until which the upload is awaited and at which its
/// first check is due.
pub(crate) fn attributes(batch_id: Uuid, expires_at: Timestamp) -> [(&'static str, AttributeValue); 2] {
    [
        ("awaited", shard(batch_id.as_bytes().last().copied().unwrap_or_default())),
        ("awaitedUntil", time(expires_at)),
    ]
}

fn shard(number: u8) -> AttributeValue {
    text(number % SHARDS)
}

impl BatchItems {
    /// Returns uploads whose check was due before `before`, the oldest first: up to `limit` from
    /// each of the [`SHARDS`] shards of the index.
    ///
    /// # Errors
    /// If the table does not respond. A malformed item is logged and left out.
    pub async fn awaited(&self, before: Timestamp, limit: u16) -> Result<Vec<AwaitedUpload>, BatchItemError> {
        let mut awaited = Vec::new();
        for number in 0..SHARDS {
            let query = self
                .dynamodb
                .query()
                .table_name(&self.table)
                .index_name(AWAITED_INDEX)
                .key_condition_expression("awaited = :awaited AND awaitedUntil < :before")
                .expression_attribute_values(":awaited", shard(number))
                .expression_attribute_values(":before", time(before))
                .limit(i32::from(limit.max(1)));
            awaited.extend(of_shard(query, limit).await?);
        }
        awaited.sort_by_key(|upload| upload.awaited_until);
        Ok(awaited)
    }

    /// Marks the batch of an upload that never arrived as expired, and takes it out of the index of
    /// awaited uploads. Returns false if another call changed the item first, or if the client was
    /// given more time since `upload` was read.
    pub async fn expire(&self, upload: &AwaitedUpload) -> Result<bool, BatchItemError> {
        let update = self
            .of_awaited(upload)
            .update_expression("SET #status = :expired REMOVE awaited, awaitedUntil")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":expired", text(BatchStatus::Expired));
        Ok(done(update).await? == NotificationClaim::Granted)
    }

    /// Records that an awaited upload arrived, and takes its batch out of the index. A repeated
    /// call changes nothing.
    pub async fn arrived(&self, upload: &AwaitedUpload) -> Result<(), BatchItemError> {
        done(received(self.of_awaited(upload))).await.map(drop)
    }

    /// Records that a batch's payload arrived, so that no further upload is offered for it. A
    /// repeated call changes nothing.
    pub async fn note_arrival(&self, tenant_id: Uuid, batch_id: Uuid) -> Result<(), BatchItemError> {
        let update = self.update(tenant_id, batch_id).condition_expression("attribute_exists(batchId)");
        done(received(update)).await.map(drop)
    }

    /// Schedules another check at `until` of an upload whose payload arrived but whose batch is not
    /// in the database yet, or of an upload that could not be marked as expired.
    pub async fn look_again(&self, upload: &AwaitedUpload, until: Timestamp) -> Result<(), BatchItemError> {
        let update = self
            .of_awaited(upload)
            .update_expression("SET awaitedUntil = :until")
            .expression_attribute_values(":until", time(until));
        done(update).await.map(drop)
    }

    /// Claims the right to send the notification of a batch's payload, unless it was claimed at
    /// `told_before` or later. The write is conditional, so of concurrent callers only one gets the
    /// claim.
    pub async fn claim_notification(
        &self,
        tenant_id: Uuid,
        batch_id: Uuid,
        told_before: Timestamp,
    ) -> Result<NotificationClaim, BatchItemError> {
        let update = self
            .update(tenant_id, batch_id)
            .update_expression("SET toldAt = :now")
            .condition_expression(
                "attribute_exists(batchId) AND (attribute_not_exists(toldAt) OR toldAt < :toldBefore)",
            )
            .expression_attribute_values(":now", time(Timestamp::now()))
            .expression_attribute_values(":toldBefore", time(told_before));
        done(update).await
    }

    /// Releases the claim on a batch's notification that was not sent after all.
    pub async fn release_claim(&self, tenant_id: Uuid, batch_id: Uuid) -> Result<(), BatchItemError> {
        let update = self
            .update(tenant_id, batch_id)
            .update_expression("REMOVE toldAt")
            .condition_expression("attribute_exists(batchId)");
        done(update).await.map(drop)
    }

    pub(crate) fn update(&self, tenant_id: Uuid, batch_id: Uuid) -> UpdateItemFluentBuilder {
        self.dynamodb
            .update_item()
            .table_name(&self.table)
            .key("tenantId", text(tenant_id))
            .key("batchId", text(batch_id))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }

    /// Builds an update of the item of an awaited upload, on the condition that the time of its
    /// next check and its expiry are still those in `upload`.
    fn of_awaited(&self, upload: &AwaitedUpload) -> UpdateItemFluentBuilder {
        self.update(upload.tenant_id, upload.batch_id)
            .condition_expression("awaitedUntil = :awaitedUntil AND uploadExpiresAt = :uploadExpiresAt")
            .expression_attribute_values(":awaitedUntil", time(upload.awaited_until))
            .expression_attribute_values(":uploadExpiresAt", time(upload.upload_expires_at))
    }
}

/// Reads the first `limit` uploads of one shard of the index. Malformed items stay in the index, so
/// further pages are read, at most [`PAGES`] in all, until enough readable items are found.
async fn of_shard(query: QueryFluentBuilder, limit: u16) -> Result<Vec<AwaitedUpload>, BatchItemError> {
    let (mut found, mut from) = (Vec::new(), None);
    for _ in 0..PAGES {
        let page = query.clone().set_exclusive_start_key(from).send().await;
        let page = page.map_err(BatchItemError::unavailable)?;
        found.extend(readable(page.items.unwrap_or_default(), read));
        from = page.last_evaluated_key;
        if from.is_none() || found.len() >= usize::from(limit) {
            break;
        }
    }
    found.truncate(usize::from(limit.max(1)));
    Ok(found)
}

fn read(item: Item) -> Result<AwaitedUpload, BatchItemError> {
    attempt::malformed::from_item(item).map_err(BatchItemError::unreadable)
}

/// Completes an update that marks the batch as received, and takes it out of the index of awaited
/// uploads.
fn received(update: UpdateItemFluentBuilder) -> UpdateItemFluentBuilder {
    update
        .update_expression("SET #status = :received REMOVE awaited, awaitedUntil")
        .expression_attribute_names("#status", "status")
        .expression_attribute_values(":received", text(BatchStatus::Received))
}

/// Sends a conditional update. Returns [`NotificationClaim::Granted`] if its condition held,
/// [`NotificationClaim::Refused`] if it did not, and [`NotificationClaim::NotAccepted`] if the item
/// does not exist.
async fn done(update: UpdateItemFluentBuilder) -> Result<NotificationClaim, BatchItemError> {
    let error = match update.send().await {
        Ok(_) => return Ok(NotificationClaim::Granted),
        Err(error) => error,
    };
    match error {
        SdkError::ServiceError(ref answer) => match answer.err() {
            UpdateItemError::ConditionalCheckFailedException(failed) => {
                let there = failed.item().is_some_and(|item| !item.is_empty());
                Ok(if there { NotificationClaim::Refused } else { NotificationClaim::NotAccepted })
            }
            _ => Err(BatchItemError::unavailable(error)),
        },
        error => Err(BatchItemError::unavailable(error)),
    }
}
