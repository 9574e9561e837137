//! Budgets of many tenants and the amounts that they have spent, read without the cache.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use serde_json::Value;

use super::{AccessStore, AccessTableError, refused, unreadable};
use crate::items::{BudgetItem, ItemError, SpentItem};
use crate::pk;

/// Maximum number of requests for the same items, if DynamoDB leaves some of them unprocessed.
const ATTEMPTS: u32 = 5;
/// Pause before unprocessed items are requested again. It doubles each time.
const PAUSE: Duration = Duration::from_millis(50);

/// Attributes of a DynamoDB item, by name.
type Attributes = HashMap<String, AttributeValue>;

/// Budget of a tenant, and the amount that the tenant has spent in a month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Budget of the tenant; `None` if the tenant has none.
    pub budget: Option<BudgetItem>,
    /// Amount that the tenant has spent; `None` if no amount is stored.
    pub spent: Option<SpentItem>,
}

/// Error if DynamoDB left items unprocessed in each of five responses.
#[derive(Debug, thiserror::Error)]
#[error("DynamoDB left out some of the keys")]
struct LeftOut;

impl AccessStore {
    /// Maximum number of tenants in a call of [`AccessStore::accounts()`]. Each tenant has two
    /// items, and DynamoDB returns at most 100 at once.
    pub const MOST_ACCOUNTS: usize = 50;

    /// Reads the budget of each tenant and the amount spent, in the order of `tenants`, which must
    /// be distinct. If an item is malformed, this is logged, and only its tenant's result is an
    /// error.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub async fn accounts(
        &self,
        tenants: &[&str],
    ) -> Result<Vec<Result<Account, AccessTableError>>, AccessTableError> {
        let keys = tenants.iter().flat_map(|tenant| [pk::budget(tenant), pk::spent(tenant)]);
        let mut found = self.items(keys.collect()).await?;
        let account = |tenant: &&str| -> Result<Account, AccessTableError> {
            Ok(Account {
                budget: take(&mut found, &pk::budget(tenant), BudgetItem::read)?,
                spent: take(&mut found, &pk::spent(tenant), SpentItem::read)?,
            })
        };
        Ok(tenants.iter().map(account).collect())
    }

    /// Reads items by their partition keys, and returns those that exist. Items that DynamoDB
    /// leaves unprocessed for lack of capacity are requested again.
    async fn items(&self, keys: Vec<String>) -> Result<HashMap<String, Attributes>, AccessTableError> {
        let what = "BUDGET#";
        let keys = keys.into_iter().map(|pk| HashMap::from([("pk".to_owned(), AttributeValue::S(pk))]));
        let left = KeysAndAttributes::builder().set_keys(Some(keys.collect())).build();
        let mut left = left.map_err(|error| unreadable(what, error))?;
        let mut found = HashMap::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE.saturating_mul(1 << (attempt - 1))).await;
            }
            let answer = self.dynamodb.batch_get_item().request_items(&self.table, left).send().await;
            let answer = answer.map_err(|error| unreadable(what, error))?;
            for mut item in answer.responses.unwrap_or_default().into_values().flatten() {
                if let Some(AttributeValue::S(pk)) = item.remove("pk") {
                    found.insert(pk, item);
                }
            }
            let Some(again) = answer.unprocessed_keys.unwrap_or_default().into_values().next() else {
                return Ok(found);
            };
            left = again;
        }
        Err(unreadable(what, LeftOut))
    }

    /// Writes the amount that a tenant has spent, or removes it if the tenant has no budget any
    /// more. Only the function `metering` writes the item, so no condition is needed.
    ///
    /// # Errors
    /// If the table cannot be written. The failure is logged.
    pub async fn put_spent(&self, tenant: &str, spent: Option<&SpentItem>) -> Result<(), AccessTableError> {
        let pk = pk::spent(tenant);
        let key = AttributeValue::S(pk.clone());
        let Some(SpentItem { month, amount, exceeded, refuse, published_percent }) = spent else {
            let sent = self.dynamodb.delete_item().table_name(&self.table).key("pk", key).send().await;
            return sent.map(drop).map_err(|error| unwritten(&pk, error));
        };
        let item = [
            ("pk", key),
            ("month", AttributeValue::S(month.to_string())),
            ("amount", AttributeValue::S(amount.to_string())),
            ("exceeded", AttributeValue::Bool(*exceeded)),
            ("refuse", AttributeValue::Bool(*refuse)),
            ("told", AttributeValue::N(published_percent.to_string())),
        ];
        let item = item.map(|(name, value)| (name.to_owned(), value)).into();
        let put = self.dynamodb.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map(drop).map_err(|error| unwritten(&pk, error))
    }
}

/// Removes the item with this partition key from `found`, and parses it with `read`; `None` if
/// there is no such item.
fn take<T>(
    found: &mut HashMap<String, Attributes>,
    pk: &str,
    read: impl FnOnce(Value) -> Result<T, ItemError>,
) -> Result<Option<T>, AccessTableError> {
    let Some(item) = found.remove(pk) else { return Ok(None) };
    let item: Result<Value, ItemError> = attempt::malformed::from_item(item).map_err(ItemError::from);
    item.and_then(read).map(Some).map_err(|error| {
        refused(pk, &error);
        AccessTableError::Malformed
    })
}

fn unwritten(pk: &str, error: impl Error) -> AccessTableError {
    let error = DisplayErrorContext(error).to_string();
    tracing::error!(
        event_type = "access.not_written",
        pk,
        error,
        "cannot write item `{pk}` of the access table"
    );
    AccessTableError::Unavailable
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::Client;
    use runtime::Sdk;
    use serde_json::json;
    use test_support::dynamodb::FakeTable;

    use super::*;

    const TENANTS: [&str; 3] = ["a", "b", "c"];

    async fn store(most: usize) -> (FakeTable, AccessStore) {
        let table = FakeTable::start(most).await;
        table.put(json!({"pk": {"S": "BUDGET#a"}, "amount": {"S": "100"}}));
        table.put(json!({"pk": {"S": "BUDGET#b"}, "amount": {"S": "a lot"}}));
        table.put(json!({"pk": {"S": "SPENT#c"}, "month": {"S": "2026-11"}, "amount": {"S": "1"},
                         "exceeded": {"BOOL": true}, "refuse": {"BOOL": true}, "told": {"N": "100"}}));
        let sdk = Sdk::at(&table.endpoint(), "us-east-1", "none", "none").await;
        (table, AccessStore::new(Client::new(sdk.standard()), "access".to_owned()))
    }

    #[tokio::test]
    async fn a_malformed_item_is_its_tenants_error_alone() {
        let (table, store) = store(100).await;
        let accounts = store.accounts(&TENANTS).await.unwrap();
        assert_eq!(table.calls(), ["BatchGetItem"]);
        let published = |account: &Account| account.spent.as_ref().map(|spent| spent.published_percent);
        let [a, b, c] = accounts.as_slice() else { panic!("{accounts:?}") };
        assert_eq!(a.as_ref().map(|a| (a.budget.is_some(), published(a))), Ok((true, None)));
        assert_eq!(*b, Err(AccessTableError::Malformed));
        assert_eq!(c.as_ref().map(|c| (c.budget.is_some(), published(c))), Ok((false, Some(100))));
    }

    #[tokio::test]
    async fn keys_that_are_left_out_are_asked_for_again_a_few_times() {
        let (few, store_of_few) = store(4).await;
        assert_eq!(store_of_few.accounts(&TENANTS).await.unwrap()[2].as_ref().unwrap().budget, None);
        assert_eq!(few.calls().len(), 2);
        let (none, store_of_none) = store(0).await;
        assert_eq!(store_of_none.accounts(&TENANTS).await, Err(AccessTableError::Unavailable));
        assert_eq!(none.calls().len(), 5);
    }
}
