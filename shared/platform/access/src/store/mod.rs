//! The access table, read through a cache of less than a minute. Its items have one key, `pk`.

mod budgets;

use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use api::{Problem, Reason};
use attempt::{Moment, Remembered};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, Select};
use jiff::civil::Date;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::api_key::KeyHash;
use crate::items::{
    DropGrant, ItemError, KeyItem, LimitsItem, SpentItem, TargetsItem, TenantItem, read_rates,
    without_version,
};
use crate::pk::{self, Pk};
use crate::rates::RateCard;
use crate::token::{TokenSettings, Tokens};

pub use budgets::Account;

/// Time for which an item, or its absence, is cached. A revoked key stops working within a minute:
/// a read takes up to three seconds, and may find the item as it was shortly before.
const REMEMBERED: Duration = Duration::from_secs(55);
/// Seconds after which a profile that was refused may be requested again: a correction takes effect
/// only then.
const PROFILE_REPAIR: u32 = 60;
/// Maximum number of cached items, so that guessed keys do not fill the memory.
const MAX_REMEMBERED: usize = 10_000;
/// Time for which a failure to list the profiles is cached.
const LIST_REPAIR: Duration = Duration::from_secs(5);
/// Items of the table in a page, and the maximum number of pages, in a scan for profiles.
const PAGE: i32 = 1_000;
const MAX_PAGES: usize = 100;
/// Time for which the day of a key's use is remembered: the day is over then.
const NOTED: Duration = Duration::from_secs(86_400);
/// Time after which a key's use that could not be recorded is recorded again.
const NOTE_REPAIR: Duration = Duration::from_secs(3_600);
/// Longest time for which a request waits until its key's use is recorded.
const NOTE_LIMIT: Duration = Duration::from_millis(300);

/// Reason why an item of the access table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The access table cannot be read.
    #[error("the access table cannot be read")]
    Unavailable,
    /// The item is malformed; the log has the member at fault. An operator has to correct it.
    #[error("an item of the access table is malformed")]
    Malformed,
}

/// Items of all profiles, by tenant and name.
type Profiles = BTreeMap<String, BTreeMap<String, Value>>;

/// Content of an item that was read; `None` if there is no item.
type Known<T> = Result<Option<T>, ReadError>;

/// Reader of the access table, with a cache.
#[derive(Debug)]
pub struct AccessStore {
    dynamodb: Client,
    table: String,
    /// Cached items, each a [`Known`] of its type.
    remembered: Remembered<String, Arc<dyn Any + Send + Sync>>,
    /// Result of the last scan of the table. The holder of the lock scans for all requests.
    listed: Mutex<Option<Listed>>,
    /// Day on which the use of a key was last recorded.
    noted: Remembered<KeyHash, Date>,
    /// Keys whose use could not be recorded.
    unnoted: Remembered<KeyHash, ()>,
    /// Verifier of tokens that callers may send in place of an API key.
    tokens: Option<Tokens>,
}

/// Result of a scan of the table.
#[derive(Debug)]
struct Listed {
    since: Moment,
    profiles: Result<Arc<Profiles>, ReadError>,
}

impl Listed {
    /// True if the result may still be used.
    fn holds_at(&self, now: Moment) -> bool {
        self.since.age_at(now) < if self.profiles.is_ok() { REMEMBERED } else { LIST_REPAIR }
    }
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
            noted: Remembered::new(NOTED, MAX_REMEMBERED),
            unnoted: Remembered::new(NOTE_REPAIR, MAX_REMEMBERED),
            tokens: None,
        }
    }

    /// Accepts tokens besides API keys, if token settings are given.
    #[must_use]
    pub fn with_tokens(self, settings: Option<TokenSettings>) -> Self {
        Self { tokens: settings.map(Tokens::new), ..self }
    }

    pub(crate) const fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Reads the item of an API key. Only the key's hash is ever stored or sent.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn key(&self, hash: &KeyHash) -> Result<Option<KeyItem>, ReadError> {
        self.read(&pk::key(hash), KeyItem::read).await
    }

    /// Reads a tenant's item. A tenant without one is enabled: its keys say that it is there.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn tenant(&self, tenant: &str) -> Result<TenantItem, ReadError> {
        Ok(self.known_tenant(tenant).await?.unwrap_or_default())
    }

    /// Reads a tenant's item; `None` if there is none, as for a tenant that was removed.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub(crate) async fn known_tenant(&self, tenant: &str) -> Result<Option<TenantItem>, ReadError> {
        self.read(&pk::tenant(tenant), TenantItem::read).await
    }

    /// Reads a tenant's permission to drop objects into S3; `None` if it has none, or is disabled.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn drop_grant(&self, tenant: &str) -> Result<Option<DropGrant>, ReadError> {
        if !self.tenant(tenant).await?.enabled {
            return Ok(None);
        }
        self.read(&pk::drops(tenant), DropGrant::read).await
    }

    /// Reads a tenant's allow-list of inline targets.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn targets(&self, tenant: &str) -> Result<TargetsItem, ReadError> {
        let item = self.read(&pk::targets(tenant), TargetsItem::read).await?;
        Ok(item.unwrap_or_default())
    }

    /// Reads a tenant's rate limits.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn limits(&self, tenant: &str) -> Result<LimitsItem, ReadError> {
        let item = self.read(&pk::limits(tenant), LimitsItem::read).await?;
        Ok(item.unwrap_or_default())
    }

    /// Reads the rate card; `None` if nothing has a price.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn rates(&self) -> Result<Option<RateCard>, ReadError> {
        self.read(pk::RATES, read_rates).await
    }

    /// Reads what a tenant with a budget has spent; `None` if it is not known.
    ///
    /// # Errors
    /// If the table cannot be read, or an item is malformed. A malformed item is logged.
    pub async fn spent(&self, tenant: &str) -> Result<Option<SpentItem>, ReadError> {
        self.read(&pk::spent(tenant), SpentItem::read).await
    }

    /// Reads a tenant's target profile in the caller's own type.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the table cannot be read, or the item has not the form of that type.
    pub async fn profile<T>(&self, tenant: &str, name: &str) -> Result<Option<T>, Problem>
    where
        T: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        // `acme` with `eu#orders` would be the profile `orders` of the tenant `acme#eu`.
        if name.contains('#') {
            return Ok(None);
        }
        self.read(&pk::profile(tenant, name), read_profile).await.map_err(|error| match error {
            ReadError::Unavailable => error.into(),
            ReadError::Malformed => {
                let detail = format!(
                    "the target profile `{name}` cannot be read; an operator has to correct its item"
                );
                Problem::new(Reason::StoreUnavailable, detail).retry_after(PROFILE_REPAIR)
            }
        })
    }

    /// Lists a tenant's target profiles by name, each with the members `target` and `queues` alone.
    /// A profile of which these cannot be read is left out, and logged.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub async fn profiles<T: DeserializeOwned>(
        &self,
        tenant: &str,
    ) -> Result<BTreeMap<String, T>, ReadError> {
        let all = self.listed().await?;
        let read = |(name, item): (&String, &Value)| match read_profile(item.clone()) {
            Ok(profile) => Some((name.clone(), profile)),
            Err(error) => {
                refused(&pk::profile(tenant, name), &error);
                None
            }
        };
        Ok(all.get(tenant).into_iter().flatten().filter_map(read).collect())
    }

    /// Returns the profiles of all tenants, by one look through the table at a time.
    async fn listed(&self) -> Result<Arc<Profiles>, ReadError> {
        let mut listed = self.listed.lock().await;
        if let Some(known) = listed.as_ref().filter(|known| known.holds_at(Moment::now())) {
            return known.profiles.clone();
        }
        let began = Moment::now();
        let profiles = self.scan_profiles().await.map(Arc::new);
        let since = if profiles.is_ok() { began } else { Moment::now() };
        *listed = Some(Listed { since, profiles: profiles.clone() });
        profiles
    }

    /// Records that a key was used today, in an item beside the key's. A failure is logged, and
    /// hinders nobody.
    pub(crate) async fn note_use(&self, hash: &KeyHash, today: Date) {
        if self.noted.get(hash) == Some(today) || self.unnoted.get(hash).is_some() {
            return;
        }
        // Requests at the same time need not note it as well.
        self.noted.put(*hash, today);
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(pk::used(hash)))
            .update_expression("SET lastUsedOn = :today")
            .condition_expression("attribute_not_exists(lastUsedOn) OR lastUsedOn < :today")
            .expression_attribute_values(":today", AttributeValue::S(today.to_string()));
        // Boxed, as in `read`: a key's use is noted once a day.
        let error = match tokio::time::timeout(NOTE_LIMIT, Box::pin(update.send())).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) if is_noted_already(&error) => return,
            Ok(Err(error)) => DisplayErrorContext(error).to_string(),
            Err(late) => late.to_string(),
        };
        self.noted.forget(hash);
        self.unnoted.put(*hash, ());
        let key_id = hash.id();
        tracing::warn!(
            event_type = "access.use_not_noted",
            key_id,
            error,
            "cannot note that key `{key_id}` was used today"
        );
    }

    /// Checks the access table by reading an item that need not exist, without the cache.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the table cannot be read.
    pub async fn probe(&self) -> Result<(), Problem> {
        self.fetch("PROBE#").await.map(drop).map_err(Problem::from)
    }

    /// Reads an item through the cache. A malformed one is logged once for each read of the table,
    /// and not for each request.
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
            ReadError::Malformed
        });
        self.remembered.put(pk.to_owned(), Arc::new(known.clone()));
        known
    }

    /// Reads an item of the table, and returns it without its key.
    async fn fetch(&self, pk: &str) -> Result<Option<Value>, ReadError> {
        let key = AttributeValue::S(pk.to_owned());
        let output = self.dynamodb.get_item().table_name(&self.table).key("pk", key).send().await;
        let output = output.map_err(|error| unreadable(pk, error))?;
        let item = output.item.map(|mut item| {
            item.remove("pk");
            item
        });
        item.map(attempt::malformed::from_item).transpose().map_err(|error| {
            refused(pk, &error.into());
            ReadError::Unavailable
        })
    }

    /// Finds all profiles. The table has no index of a tenant's, and few items.
    async fn scan_profiles(&self) -> Result<Profiles, ReadError> {
        let prefix = pk::PROFILES;
        let mut pages = self
            .dynamodb
            .scan()
            .table_name(&self.table)
            .filter_expression("begins_with(pk, :prefix)")
            .expression_attribute_values(":prefix", AttributeValue::S(prefix.to_owned()))
            .projection_expression("pk, #target, #queues, #version")
            .expression_attribute_names("#target", "target")
            .expression_attribute_names("#queues", "queues")
            .expression_attribute_names("#version", "version")
            .select(Select::SpecificAttributes)
            .into_paginator()
            .page_size(PAGE)
            .send();
        let mut found = Profiles::new();
        for _ in 0..MAX_PAGES {
            let Some(page) = pages.next().await else { return Ok(found) };
            for mut item in page.map_err(|error| unreadable(prefix, error))?.items.unwrap_or_default() {
                let Some(AttributeValue::S(pk)) = item.remove("pk") else { continue };
                let Some(Pk::Profile { tenant, name }) = pk::parse(&pk) else { continue };
                match attempt::malformed::from_item(item) {
                    Ok(item) => {
                        found.entry(tenant.to_owned()).or_default().insert(name.to_owned(), item);
                    }
                    Err(error) => refused(&pk, &error.into()),
                }
            }
        }
        Err(unreadable(prefix, TooManyItems))
    }
}

/// Error of a table that has more items than are looked through.
#[derive(Debug, thiserror::Error)]
#[error("the table has more items than are looked through for profiles")]
struct TooManyItems;

impl From<ReadError> for Problem {
    /// Builds the problem of a request that needs the item.
    fn from(error: ReadError) -> Self {
        let detail = match error {
            ReadError::Unavailable => "the access store cannot be read",
            ReadError::Malformed => "the access store has a malformed item, which an operator has to correct",
        };
        Self::new(Reason::StoreUnavailable, detail)
    }
}

fn is_noted_already(error: &SdkError<UpdateItemError>) -> bool {
    error.as_service_error().is_some_and(UpdateItemError::is_conditional_check_failed_exception)
}

fn unreadable(pk: &str, error: impl Error) -> ReadError {
    let error = DisplayErrorContext(error).to_string();
    tracing::error!(
        event_type = "access.unavailable",
        pk,
        error,
        "cannot read item `{pk}` of the access table"
    );
    ReadError::Unavailable
}

/// Logs the key of a malformed item. It holds a hash at most, never an API key.
fn refused(pk: &str, error: &ItemError) {
    let error: &dyn Error = error;
    tracing::error!(
        event_type = "access.item_malformed",
        pk,
        error,
        "item `{pk}` of the access table is refused: {error}"
    );
}

fn read_profile<T: DeserializeOwned>(item: Value) -> Result<T, ItemError> {
    Ok(attempt::malformed::from_value(without_version(item)?)?)
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;

    #[test]
    fn a_failure_to_list_is_remembered_for_a_shorter_time_than_a_list() {
        let (monotonic, system) = (Instant::now(), SystemTime::now());
        let at = |seconds| {
            let passed = Duration::from_secs(seconds);
            Moment::on(monotonic + passed, system + passed)
        };
        let listed = |profiles| Listed { since: at(0), profiles };
        let (list, failure) = (listed(Ok(Arc::default())), listed(Err(ReadError::Unavailable)));
        assert_eq!([0, 54, 55].map(|seconds| list.holds_at(at(seconds))), [true, true, false]);
        assert_eq!([0, 4, 5].map(|seconds| failure.holds_at(at(seconds))), [true, true, false]);
    }

    #[tokio::test]
    async fn requests_for_lists_share_one_look_and_its_failure() {
        // Nothing listens there.
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version_latest()
            .endpoint_url("http://127.0.0.1:1")
            .build();
        let store = AccessStore::new(Client::from_conf(config), "table".to_owned());
        let known = Profiles::from([("acme".to_owned(), [("orders".to_owned(), Value::Null)].into())]);
        let profiles = Ok(Arc::new(known));
        *store.listed.lock().await = Some(Listed { since: Moment::now(), profiles });
        assert_eq!(store.listed().await.unwrap()["acme"].len(), 1);
        let failure = Listed { since: Moment::now(), profiles: Err(ReadError::Malformed) };
        *store.listed.lock().await = Some(failure);
        assert_eq!(store.listed().await, Err(ReadError::Malformed), "the table itself is unavailable");
    }
}
