//! Target profiles: one of a tenant, or all of them by a scan of the table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Problem, Reason};
use attempt::Moment;
use aws_sdk_dynamodb::types::{AttributeValue, Select};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{AccessStore, AccessTableError, REMEMBERED, refused, unreadable};
use crate::items::{ItemError, without_version};
use crate::pk::{self, Pk};

/// Seconds after which a client may repeat a request whose profile was refused. Profiles are
/// cached, so a corrected profile takes effect only after this time.
const PROFILE_REPAIR: u32 = 60;
/// Time for which a failure to scan for target profiles is cached.
const LIST_REPAIR: Duration = Duration::from_secs(5);
/// Maximum number of items on a page of a scan for target profiles.
const PAGE: i32 = 1_000;
/// Maximum number of pages of a scan for target profiles.
const MAX_PAGES: usize = 100;

/// Items of all target profiles, by tenant and name.
type Profiles = BTreeMap<String, BTreeMap<String, Value>>;

/// Result of a scan for target profiles, with its time.
#[derive(Debug)]
pub(super) struct Listed {
    since: Moment,
    profiles: Result<Arc<Profiles>, AccessTableError>,
}

impl Listed {
    /// Returns whether the result of the scan is recent enough to be used.
    fn holds_at(&self, now: Moment) -> bool {
        self.since.age_at(now) < if self.profiles.is_ok() { REMEMBERED } else { LIST_REPAIR }
    }
}

impl AccessStore {
    /// Reads a tenant's target profile as a value of type `T`; `None` if there is no such profile.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the table cannot be read, or the item does not have the form of `T`.
    pub async fn profile<T>(&self, tenant: &str, name: &str) -> Result<Option<T>, Problem>
    where
        T: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        // `acme` with `eu#orders` would be the profile `orders` of the tenant `acme#eu`.
        if name.contains('#') {
            return Ok(None);
        }
        self.read(&pk::profile(tenant, name), read_profile).await.map_err(|error| match error {
            AccessTableError::Unavailable => error.into(),
            AccessTableError::Malformed => {
                let detail = format!(
                    "the target profile `{name}` cannot be read; an operator has to correct its item"
                );
                Problem::new(Reason::StoreUnavailable, detail).retry_after(PROFILE_REPAIR)
            }
        })
    }

    /// Lists a tenant's target profiles by name, with only their members `target` and `queues`. A
    /// profile in which these are malformed is left out, and logged.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub async fn profiles<T: DeserializeOwned>(
        &self,
        tenant: &str,
    ) -> Result<BTreeMap<String, T>, AccessTableError> {
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

    /// Returns the target profiles of all tenants, from the last scan or from a new one. Only one
    /// request scans at a time.
    async fn listed(&self) -> Result<Arc<Profiles>, AccessTableError> {
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

    /// Scans the table for all target profiles. The table has few items, and no index by tenant.
    async fn scan_profiles(&self) -> Result<Profiles, AccessTableError> {
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

/// Error if the scan for target profiles does not end within its maximum of pages.
#[derive(Debug, thiserror::Error)]
#[error("the table has more items than are looked through for profiles")]
struct TooManyItems;

fn read_profile<T: DeserializeOwned>(item: Value) -> Result<T, ItemError> {
    Ok(attempt::malformed::from_value(without_version(item)?)?)
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use aws_sdk_dynamodb::Client;

    use super::*;

    #[test]
    fn a_failure_to_list_is_remembered_for_a_shorter_time_than_a_list() {
        let (monotonic, system) = (Instant::now(), SystemTime::now());
        let at = |seconds| {
            let passed = Duration::from_secs(seconds);
            Moment::on(monotonic + passed, system + passed)
        };
        let listed = |profiles| Listed { since: at(0), profiles };
        let (list, failure) = (listed(Ok(Arc::default())), listed(Err(AccessTableError::Unavailable)));
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
        let failure = Listed { since: Moment::now(), profiles: Err(AccessTableError::Malformed) };
        *store.listed.lock().await = Some(failure);
        assert_eq!(store.listed().await, Err(AccessTableError::Malformed), "the table itself is unavailable");
    }
}
