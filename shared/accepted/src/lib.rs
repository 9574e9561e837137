//! Batch items: what DynamoDB knows of a batch from its acceptance on, so that it can be asked for before PostgreSQL knows it.
//!
//! One item a batch, by `tenantId` and `batchId`. Ids are UUIDs of version 7, so a tenant's items are in the order of their receipt. An item is never
//! deleted by us: DynamoDB's TTL removes it 30 days after it was written, when PostgreSQL has long known its batch or nobody ever will.

mod awaited;
mod item;

pub use awaited::{AWAITED_INDEX, AwaitedUpload, SHARDS, Taken};

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use ingestion::payload::AcceptedBatch;
use jiff::Timestamp;
use uuid::Uuid;

type Item = HashMap<String, AttributeValue>;

/// The most that [`Accepted::recent`] reads at a time.
pub const MAX_PAGE: u16 = 1000;

/// The table of batch items.
#[derive(Clone, Debug)]
pub struct Accepted {
    dynamodb: Client,
    table: String,
}

/// Why an item was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum AcceptedError {
    /// The table did not answer; whether a write was done is not known.
    #[error("the table of batch items is unavailable: {0}")]
    Unavailable(String),
    /// An item has another form.
    #[error("a batch item cannot be read: {0}")]
    Unreadable(String),
}

impl AcceptedError {
    fn unavailable(error: impl std::error::Error) -> Self {
        Self::Unavailable(DisplayErrorContext(error).to_string())
    }
}

impl Accepted {
    pub fn new(dynamodb: Client, table: String) -> Self {
        Self { dynamodb, table }
    }

    /// Writes a batch's item, by tenant and batch. Written again it says the same, except that an upload's time is only ever extended.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn put(&self, batch: &AcceptedBatch) -> Result<(), AcceptedError> {
        let mut put = self
            .dynamodb
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item::of(batch, Timestamp::now())));
        if let Some(expires_at) = batch.upload_expires_at {
            put = put
                .condition_expression("attribute_not_exists(batchId) OR uploadExpiresAt < :uploadExpiresAt")
                .expression_attribute_values(":uploadExpiresAt", item::time(expires_at));
        }
        match put.send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(error)) if is_older(error.err()) => Ok(()),
            Err(error) => Err(AcceptedError::unavailable(error)),
        }
    }

    /// Reads a tenant's batch, as it was written last.
    ///
    /// # Errors
    /// When the table does not answer, or the item has another form.
    pub async fn get(&self, tenant_id: Uuid, batch_id: Uuid) -> Result<Option<AcceptedBatch>, AcceptedError> {
        let get = self
            .dynamodb
            .get_item()
            .table_name(&self.table)
            .key("tenantId", item::text(tenant_id))
            .key("batchId", item::text(batch_id))
            .consistent_read(true);
        let found = get.send().await.map_err(AcceptedError::unavailable)?;
        found.item.map(item::read).transpose()
    }

    /// Reads up to `limit` (at most [`MAX_PAGE`]) of a tenant's batches, the newest first, from the one before `before` on.
    ///
    /// # Errors
    /// When the table does not answer, or an item has another form.
    pub async fn recent(
        &self,
        tenant_id: Uuid,
        before: Option<Uuid>,
        limit: u16,
    ) -> Result<Vec<AcceptedBatch>, AcceptedError> {
        let mut query = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .key_condition_expression("tenantId = :tenantId")
            .expression_attribute_values(":tenantId", item::text(tenant_id))
            .consistent_read(true)
            .scan_index_forward(false)
            .limit(i32::from(limit.clamp(1, MAX_PAGE)));
        if let Some(before) = before {
            query = query
                .key_condition_expression("tenantId = :tenantId AND batchId < :before")
                .expression_attribute_values(":before", item::text(before));
        }
        let page = query.send().await.map_err(AcceptedError::unavailable)?;
        page.items.unwrap_or_default().into_iter().map(item::read).collect()
    }
}

/// Whether a later time stands in the table already.
fn is_older(error: &PutItemError) -> bool {
    error.is_conditional_check_failed_exception()
}
