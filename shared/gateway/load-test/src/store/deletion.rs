//! Deletion of load tests, with everything that is stored of them.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::{DeleteRequest, WriteRequest};
use futures_util::future::try_join_all;
use objects::ObjectError;
use uuid::Uuid;

use crate::store::item::{self, text};
use crate::store::reports::report_key;
use crate::store::steps::partitions;
use crate::store::{Item, TestStore, TestStoreError};

/// Maximum number of items that DynamoDB deletes in one `BatchWriteItem` request.
const BATCH: usize = 25;

/// Maximum number of requests to delete the same items. A busy DynamoDB may leave some of them
/// undeleted.
const ATTEMPTS: u32 = 6;

/// Pause before the second request to delete the same items; it doubles with each further request.
const PAUSE: Duration = Duration::from_millis(50);

impl TestStore {
    /// Deletes a load test: its report, the items of its steps (the workers' attempts at minutes of
    /// the test), its own item, and last its definition. A call that failed may be repeated,
    /// because the test stays readable until its own item is deleted. A definition that is left
    /// over after that is never read, and expires.
    ///
    /// Delete only tests that have ended: the workers of a running test would continue.
    ///
    /// # Errors
    /// If the table or the bucket does not respond.
    pub async fn delete(&self, tenant: &str, test_id: Uuid) -> Result<(), TestStoreError> {
        self.delete_report(tenant, test_id).await?;
        try_join_all(partitions(test_id).map(|partition| self.delete_partition(partition))).await?;
        // A batch is done in any order, and a test without its definition cannot be read.
        self.delete_items(vec![item::test_key(tenant, test_id)]).await?;
        self.delete_items(vec![item::definition_key(test_id)]).await
    }

    async fn delete_report(&self, tenant: &str, test_id: Uuid) -> Result<(), TestStoreError> {
        let key = report_key(tenant, test_id);
        let request = self.s3.delete_object().bucket(self.objects.bucket()).key(&key);
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) => Err(ObjectError::Storage { key, source: error.into() }.into()),
        }
    }

    async fn delete_partition(&self, partition: String) -> Result<(), TestStoreError> {
        let query = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", text(partition))
            .projection_expression("pk, sk")
            .consistent_read(true);
        let mut pages = query.into_paginator().send();
        while let Some(page) = pages.try_next().await.map_err(TestStoreError::unavailable)? {
            for keys in page.items.unwrap_or_default().chunks(BATCH) {
                self.delete_items(keys.to_vec()).await?;
            }
        }
        Ok(())
    }

    /// Deletes the items with these keys, at most [`BATCH`]. Items that do not exist are ignored.
    async fn delete_items(&self, keys: Vec<Item>) -> Result<(), TestStoreError> {
        let mut left = Vec::with_capacity(keys.len());
        for key in keys {
            let request = DeleteRequest::builder().set_key(Some(key)).build();
            let request = request.map_err(TestStoreError::unencodable)?;
            left.push(WriteRequest::builder().delete_request(request).build());
        }
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE.saturating_mul(1 << (attempt - 1))).await;
            }
            let requests = HashMap::from([(self.table.clone(), left)]);
            let done = self.dynamodb.batch_write_item().set_request_items(Some(requests)).send().await;
            let unprocessed = done.map_err(TestStoreError::unavailable)?.unprocessed_items;
            left = unprocessed.unwrap_or_default().remove(&self.table).unwrap_or_default();
            if left.is_empty() {
                return Ok(());
            }
        }
        Err(TestStoreError::Unavailable("the table leaves deletions undone".into()))
    }
}
