//! Reader of the access table in DynamoDB, with a cache of less than a minute. The table's only key
//! attribute is `pk`.

mod budgets;
mod key_uses;
mod profiles;

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use api::{Problem, Reason};
use attempt::Remembered;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;
use tokio::sync::Mutex;

use self::key_uses::KeyUses;
use self::profiles::Listed;
use crate::api_key::KeyHash;
use crate::items::{
    DropGrant, ItemError, KeyItem, LimitsItem, SpentItem, TargetsItem, TenantItem, read_rates,
};
use crate::pk;
use crate::rates::RateCard;
use crate::token::{TokenSettings, Tokens};

pub use budgets::Account;

/// Time for which an item, or its absence, is cached. A read takes up to three seconds, and may
/// return an item as it was shortly before. So a revoked key stops working within a minute.
const REMEMBERED: Duration = Duration::from_secs(55);
/// Maximum number of cached items, so that guessed keys do not exhaust the memory.
const MAX_REMEMBERED: usize = 10_000;

/// Reason why an item of the access table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessTableError {
    /// The access table cannot be read or written.
    #[error("the access table cannot be read or written")]
    Unavailable,
    /// The item is malformed. The log names the faulty member, which an operator has to correct.
    #[error("an item of the access table is malformed")]
    Malformed,
}

/// Result of reading an item of the access table; `Ok(None)` if there is no item.
type Known<T> = Result<Option<T>, AccessTableError>;

/// Reader of the access table, with a cache.
#[derive(Debug)]
pub struct AccessStore {
    dynamodb: Client,
    table: String,
    /// Cached items by partition key. Each value is a [`Known`] of the item's type.
    remembered: Remembered<String, Arc<dyn Any + Send + Sync>>,
    /// Result of the last scan for target profiles. One request scans and holds the lock; requests
    /// that wait for the lock use its result.
    listed: Mutex<Option<Listed>>,
    key_uses: KeyUses,
    /// Verifier of tokens; `None` if the deployment accepts only API keys.
    tokens: Option<Tokens>,
}

impl AccessStore {
    /// Creates a store with an empty cache.
    #[must_use]
    pub fn new(dynamodb: Client, table: String) -> Self {
        Self {
            dynamodb,
            table,
            remembered: Remembered::new(REMEMBERED, MAX_REMEMBERED),
            listed: Mutex::new(None),
            key_uses: KeyUses::new(),
            tokens: None,
        }
    }

    /// Sets the issuer whose tokens are accepted besides API keys; `None` accepts API keys only.
    #[must_use]
    pub fn with_tokens(self, settings: Option<TokenSettings>) -> Self {
        Self { tokens: settings.map(Tokens::new), ..self }
    }

    pub(crate) const fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Reads the item of an API key; `None` if there is no such key. Only the key's hash is ever
    /// stored or sent.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn key(&self, hash: &KeyHash) -> Result<Option<KeyItem>, AccessTableError> {
        self.read(&pk::key(hash), KeyItem::read).await
    }

    /// Reads a tenant's item. A tenant without an item counts as enabled, because an operator may
    /// create API keys for a tenant and no item of the tenant itself.
    ///
    /// # Errors
    /// If the table cannot be read, or the item is malformed. A malformed item is logged.
    pub async fn tenant(&self, tenant: &str) -> Result<TenantItem, AccessTableError> {
        Ok(self.known_tenant(tenant).await?.unwrap_or_default())
    }

    /// Reads a tenant's item; `None` if the tenant has none, for example because it was removed.
    ///
    /// # Errors
    /// If the table cannot be read, or the item is malformed. A malformed item is logged.
    pub(crate) async fn known_tenant(&self, tenant: &str) -> Result<Option<TenantItem>, AccessTableError> {
        self.read(&pk::tenant(tenant), TenantItem::read).await
    }

    /// Reads a tenant's permission to drop objects into S3; `None` if the tenant has none, or is
    /// disabled.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn drop_grant(&self, tenant: &str) -> Result<Option<DropGrant>, AccessTableError> {
        if !self.tenant(tenant).await?.enabled {
            return Ok(None);
        }
        self.read(&pk::drops(tenant), DropGrant::read).await
    }

    /// Reads a tenant's allow-list of inline targets; empty if the tenant has none.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn targets(&self, tenant: &str) -> Result<TargetsItem, AccessTableError> {
        let item = self.read(&pk::targets(tenant), TargetsItem::read).await?;
        Ok(item.unwrap_or_default())
    }

    /// Reads a tenant's own rate limits. They are all unset if the tenant has none.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn limits(&self, tenant: &str) -> Result<LimitsItem, AccessTableError> {
        let item = self.read(&pk::limits(tenant), LimitsItem::read).await?;
        Ok(item.unwrap_or_default())
    }

    /// Reads the rate card; `None` if nothing has a price.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn rates(&self) -> Result<Option<RateCard>, AccessTableError> {
        self.read(pk::RATES, read_rates).await
    }

    /// Reads the amount that a tenant with a budget has spent; `None` if no amount is stored.
    ///
    /// # Errors
    /// If the table cannot be read, or the item is malformed. A malformed item is logged.
    pub async fn spent(&self, tenant: &str) -> Result<Option<SpentItem>, AccessTableError> {
        self.read(&pk::spent(tenant), SpentItem::read).await
    }

    /// Checks that the access table can be read, by reading an item, which need not exist. The
    /// cache is not used.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the table cannot be read.
    pub async fn probe(&self) -> Result<(), Problem> {
        self.fetch("PROBE#").await.map(drop).map_err(Problem::from)
    }

    /// Reads an item through the cache, and parses it with `read`. A malformed item is logged when
    /// it is read from the table, not for each request.
    async fn read<T: Clone + Send + Sync + 'static>(
        &self,
        pk: &str,
        read: impl FnOnce(Value) -> Result<T, ItemError>,
    ) -> Known<T> {
        let remembered = self.remembered.get(pk);
        if let Some(known) = remembered.as_deref().and_then(<dyn Any + Send + Sync>::downcast_ref::<Known<T>>)
        {
            return known.clone();
        }
        // Boxed: a call's future takes kilobytes, which every future around it would have room for,
        // and move, although most requests make no call here.
        let item = Box::pin(self.fetch(pk)).await?;
        let known: Known<T> = item.map(read).transpose().map_err(|error| {
            refused(pk, &error);
            AccessTableError::Malformed
        });
        self.remembered.put(pk.to_owned(), Arc::new(known.clone()));
        known
    }

    /// Reads an item from the table, not from the cache, and returns it without its partition key;
    /// `None` if there is no such item.
    async fn fetch(&self, pk: &str) -> Result<Option<Value>, AccessTableError> {
        let key = AttributeValue::S(pk.to_owned());
        let output = self.dynamodb.get_item().table_name(&self.table).key("pk", key).send().await;
        let output = output.map_err(|error| unreadable(pk, error))?;
        let item = output.item.map(|mut item| {
            item.remove("pk");
            item
        });
        item.map(attempt::malformed::from_item).transpose().map_err(|error| {
            refused(pk, &error.into());
            AccessTableError::Unavailable
        })
    }
}

impl From<AccessTableError> for Problem {
    /// Returns the problem of a request that needs an item which cannot be used.
    fn from(error: AccessTableError) -> Self {
        let detail = match error {
            AccessTableError::Unavailable => "the access store cannot be read",
            AccessTableError::Malformed => {
                "the access store has a malformed item, which an operator has to correct"
            }
        };
        Self::new(Reason::StoreUnavailable, detail)
    }
}

fn unreadable(pk: &str, error: impl Error) -> AccessTableError {
    let error = DisplayErrorContext(error).to_string();
    tracing::error!(
        event_type = "access.unavailable",
        pk,
        error,
        "cannot read item `{pk}` of the access table"
    );
    AccessTableError::Unavailable
}

/// Logs the partition key and the fault of a malformed item. The key contains at most a hash, never
/// an API key.
fn refused(pk: &str, error: &ItemError) {
    let error: &dyn Error = error;
    tracing::error!(
        event_type = "access.item_malformed",
        pk,
        error,
        "item `{pk}` of the access table is refused: {error}"
    );
}
