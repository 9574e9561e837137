//! Reading and listing of stored load tests.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use uuid::Uuid;

use crate::store::item::{self, TestItem, tenant_partition, test_sort, text};
use crate::store::record::TestRecord;
use crate::store::{Item, LONGEST, TestStore, TestStoreError};

/// Maximum number of load tests that one call lists.
const MOST_LISTED: u32 = 1_000;

/// Number of tests whose definitions one call reads concurrently for a list.
const AT_ONCE: usize = 16;

impl TestStore {
    /// Reads a load test with strong consistency; `None` if the tenant has no test with this id.
    ///
    /// # Errors
    /// If the table does not respond, or the test is malformed.
    pub async fn get(&self, tenant: &str, test_id: Uuid) -> Result<Option<TestRecord>, TestStoreError> {
        let Some(item) = self.item(item::test_key(tenant, test_id)).await? else { return Ok(None) };
        let test = TestItem::read(item)?;
        if test.is_expired(Timestamp::now()) { Ok(None) } else { self.whole(test).await }
    }

    /// Lists up to `limit` (at most 1,000) of a tenant's tests, the newest first, starting after
    /// the test `before` if it is given. A result shorter than `limit` is the end of the list.
    ///
    /// # Errors
    /// If the table does not respond. A malformed test is logged and left out.
    pub async fn list(
        &self,
        tenant: &str,
        limit: u32,
        before: Option<Uuid>,
    ) -> Result<Vec<TestRecord>, TestStoreError> {
        let newest = match before {
            None => Uuid::max(),
            Some(before) => match before.as_u128().checked_sub(1) {
                Some(newest) => Uuid::from_u128(newest),
                None => return Ok(Vec::new()),
            },
        };
        let limit = limit.clamp(1, MOST_LISTED);
        let query = self.query(tenant, Uuid::nil(), newest).limit(i32::try_from(limit).unwrap_or(i32::MAX));
        self.pages(query, usize::try_from(limit).unwrap_or(usize::MAX)).await
    }

    /// Lists a tenant's tests that have not ended, the newest first.
    ///
    /// # Errors
    /// If the table does not respond. A malformed test is logged and left out.
    pub async fn unfinished(&self, tenant: &str) -> Result<Vec<TestRecord>, TestStoreError> {
        // Ids begin with the time of the creation, so none of an older test is in the range.
        let since = Timestamp::now().checked_sub(LONGEST).unwrap_or(Timestamp::UNIX_EPOCH);
        let milliseconds = u64::try_from(since.as_millisecond()).unwrap_or_default();
        let oldest = Uuid::from_u128(u128::from(milliseconds) << 80);
        let query =
            self.query(tenant, oldest, Uuid::max()).filter_expression("attribute_not_exists(endedAt)");
        self.pages(query, usize::MAX).await
    }

    fn query(&self, tenant: &str, oldest: Uuid, newest: Uuid) -> QueryFluentBuilder {
        self.dynamodb
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk AND sk BETWEEN :oldest AND :newest")
            .expression_attribute_values(":pk", text(tenant_partition(tenant)))
            .expression_attribute_values(":oldest", text(test_sort(oldest)))
            .expression_attribute_values(":newest", text(test_sort(newest)))
            .consistent_read(true)
            .scan_index_forward(false)
    }

    /// Reads pages of a query for tests' items until it has `limit` tests. Expired and malformed
    /// tests are skipped and do not count.
    async fn pages(
        &self,
        query: QueryFluentBuilder,
        limit: usize,
    ) -> Result<Vec<TestRecord>, TestStoreError> {
        let (mut records, mut pages) = (Vec::new(), query.into_paginator().send());
        while records.len() < limit
            && let Some(page) = pages.try_next().await.map_err(TestStoreError::unavailable)?
        {
            for items in page.items.unwrap_or_default().chunks(AT_ONCE) {
                let read = try_join_all(items.iter().map(|item| self.listed(item.clone()))).await?;
                records.extend(read.into_iter().flatten());
            }
        }
        records.truncate(limit);
        Ok(records)
    }

    /// Reads the test to which an item in the result of a query belongs. `None` if the test is
    /// expired, malformed (which is logged) or being deleted.
    async fn listed(&self, item: Item) -> Result<Option<TestRecord>, TestStoreError> {
        let name = item.get("sk").and_then(|name| name.as_s().ok()).cloned().unwrap_or_default();
        let read = match TestItem::read(item) {
            Ok(test) if test.is_expired(Timestamp::now()) => return Ok(None),
            Ok(test) => self.whole(test).await,
            Err(error) => Err(error),
        };
        match read {
            Err(TestStoreError::Unreadable(cause)) => {
                let error: &(dyn std::error::Error + 'static) = &*cause;
                tracing::error!(
                    event_type = "load_test.item_malformed",
                    test = name,
                    error,
                    "`{name}` is malformed and left out of the list: {cause}"
                );
                Ok(None)
            }
            read => read,
        }
    }

    /// Reads the definition of a test whose item was read, and returns both as the test's record;
    /// `None` if the test is being deleted.
    async fn whole(&self, test: TestItem) -> Result<Option<TestRecord>, TestStoreError> {
        let definition = self.item(item::definition_key(test.test_id)).await?;
        definition.map(|item| Ok(test.into_record(item::definition(&item)?))).transpose()
    }

    pub(crate) async fn item(&self, key: Item) -> Result<Option<Item>, TestStoreError> {
        let get = self.dynamodb.get_item().table_name(&self.table).set_key(Some(key)).consistent_read(true);
        let found = get.send().await.map_err(TestStoreError::unavailable)?;
        Ok(found.item.filter(|item| !item.is_empty()))
    }
}
