//! Batch items: DynamoDB's record of a batch from its acceptance on, so that the batch can be read
//! before PostgreSQL has it.
//!
//! There is one item a batch, by `tenantId` and `batchId`. Ids are UUIDs of version 7, so a
//! tenant's items are in the order of their receipt. This code never deletes an item: DynamoDB's
//! TTL removes it 30 days after it was written, when PostgreSQL has long had its batch, or will
//! never have it.
//!
//! Every call fails if the table does not respond, also where the call's documentation names only
//! other reasons.

mod awaited;
mod item;
mod recent;

pub use awaited::{AWAITED_INDEX, AwaitedUpload, NotificationClaim, SHARDS};
pub use recent::{MAX_PAGE, Recent, Wanted};

use std::collections::HashMap;
use std::error::Error;

use attempt::{Retry, Retryable};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::payload::{AcceptedBatch, PayloadMetadata};
use jiff::Timestamp;
use uuid::Uuid;

type Item = HashMap<String, AttributeValue>;

/// Client of the DynamoDB table with an item for each accepted batch.
#[derive(Clone, Debug)]
pub struct BatchItems {
    dynamodb: Client,
    table: String,
}

/// Reason why a batch's DynamoDB item was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum BatchItemError {
    /// The table did not respond, so it is unknown whether a write was done.
    #[error("the table of batch items is unavailable")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The DynamoDB item of the batch is malformed.
    #[error("a batch item cannot be read")]
    Unreadable(#[source] Box<dyn Error + Send + Sync>),
}

/// State of a batch's item after [`BatchItems::put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The item holds the batch as it was first stored. If the batch awaits an upload, the time for
    /// the upload ends no earlier than that of the batch passed to [`BatchItems::put`].
    Written,
    /// The payload has arrived, so it may not be uploaded again.
    Arrived,
    /// The item no longer exists, because the request for the upload is more than 30 days old.
    /// PostgreSQL has the outcome of the batch.
    Gone,
}

/// Update expression for a batch that is stored again: only its retention begins again.
const KEEP: &str = "SET #ttl = :ttl";

/// Update expression for a batch whose upload is offered for longer.
const OFFER_AGAIN: &str = "SET #ttl = :ttl, #status = :waiting, uploadExpiresAt = :uploadExpiresAt, \
    awaited = :awaited, awaitedUntil = :awaitedUntil";

/// Condition for offering an upload for longer: its payload has not arrived, and the new time is
/// later.
const IS_OPEN: &str =
    "uploadExpiresAt < :uploadExpiresAt AND (attribute_exists(awaited) OR #status = :expired)";

impl Retryable for BatchItemError {
    fn retry(&self) -> Retry {
        match self {
            Self::Unavailable(_) => Retry::Later,
            Self::Unreadable(_) => Retry::Never,
        }
    }
}

impl BatchItemError {
    fn unavailable(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(cause.into())
    }

    fn unreadable(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unreadable(cause.into())
    }
}

impl BatchItems {
    /// Creates a client of the table of batch items, which must have the index [`AWAITED_INDEX`].
    #[must_use]
    pub fn new(dynamodb: Client, table: String) -> Self {
        Self { dynamodb, table }
    }

    /// Stores a batch under its tenant and id. An existing item keeps its content, such as the
    /// establishments that the payload may load. Only its retention is extended, and the time for
    /// its upload if the payload has not arrived.
    pub async fn put(&self, batch: &AcceptedBatch) -> Result<Stored, BatchItemError> {
        let now = Timestamp::now();
        // By then TTL may have removed an item of a payload that arrived.
        let may_be_gone = batch.upload_expires_at.is_some()
            && now.duration_since(batch.metadata.received_at).unsigned_abs() >= item::KEPT;
        if !may_be_gone && self.create(batch, now).await? {
            return Ok(Stored::Written);
        }
        self.extend(batch, now).await
    }

    /// Creates a batch's item; returns true if the batch had no item.
    async fn create(&self, batch: &AcceptedBatch, now: Timestamp) -> Result<bool, BatchItemError> {
        let put = self.dynamodb.put_item().table_name(&self.table).set_item(Some(item::of(batch, now)));
        match put.condition_expression("attribute_not_exists(batchId)").send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(answer)) if answer.err().is_conditional_check_failed_exception() => {
                Ok(false)
            }
            Err(error) => Err(BatchItemError::unavailable(error)),
        }
    }

    async fn extend(&self, batch: &AcceptedBatch, now: Timestamp) -> Result<Stored, BatchItemError> {
        let PayloadMetadata { tenant_id, batch_id, .. } = batch.metadata;
        let mut update = self
            .update(tenant_id, batch_id)
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":ttl", item::ttl(now));
        update = match batch.upload_expires_at {
            None => update.update_expression(KEEP).condition_expression("attribute_exists(batchId)"),
            Some(expires_at) => {
                let awaited = awaited::attributes(batch_id, expires_at);
                let awaited = awaited.map(|(name, value)| (format!(":{name}"), value));
                awaited
                    .into_iter()
                    .fold(update, |update, (name, value)| update.expression_attribute_values(name, value))
                    .update_expression(OFFER_AGAIN)
                    .condition_expression(IS_OPEN)
                    .expression_attribute_names("#status", "status")
                    .expression_attribute_values(":waiting", item::text(BatchStatus::AwaitingUpload))
                    .expression_attribute_values(":expired", item::text(BatchStatus::Expired))
                    .expression_attribute_values(":uploadExpiresAt", item::time(expires_at))
            }
        };
        match update.send().await {
            Ok(_) => Ok(Stored::Written),
            Err(SdkError::ServiceError(answer)) => match answer.into_err() {
                UpdateItemError::ConditionalCheckFailedException(failed) => instead(failed.item),
                error => Err(BatchItemError::unavailable(error)),
            },
            Err(error) => Err(BatchItemError::unavailable(error)),
        }
    }

    /// Reads a batch with strong consistency; `None` if no batch has this id, or the viewer may not
    /// see it.
    ///
    /// # Errors
    /// If the table does not respond, or the item is malformed.
    pub async fn get(
        &self,
        viewer: &Viewer,
        batch_id: Uuid,
    ) -> Result<Option<AcceptedBatch>, BatchItemError> {
        let get = self
            .dynamodb
            .get_item()
            .table_name(&self.table)
            .key("tenantId", item::text(viewer.tenant_id()))
            .key("batchId", item::text(batch_id))
            .consistent_read(true);
        let found = get.send().await.map_err(BatchItemError::unavailable)?;
        let batch = found.item.map(item::read).transpose()?;
        Ok(batch.filter(|batch| viewer.sees(batch)))
    }

    /// Reads the batch to which a stored payload belongs, with strong consistency; `None` if the
    /// batch has no item any more.
    ///
    /// # Errors
    /// If the table does not respond, or the item is malformed.
    pub async fn of_payload(
        &self,
        metadata: &PayloadMetadata,
    ) -> Result<Option<AcceptedBatch>, BatchItemError> {
        self.get(&Viewer::whole(metadata.tenant_id), metadata.batch_id).await
    }
}

/// Determines the state of a batch's item after DynamoDB refused its conditional update. `item` is
/// the item that DynamoDB returned with the refusal, `None` or empty if the batch has none.
fn instead(item: Option<Item>) -> Result<Stored, BatchItemError> {
    let Some(item) = item.filter(|item| !item.is_empty()) else { return Ok(Stored::Gone) };
    // A later time stands there if the payload has not arrived.
    let is_open = item::read(item)?.upload_expires_at.is_some();
    Ok(if is_open { Stored::Written } else { Stored::Arrived })
}
