//! The access table: API keys and target profiles, read through a cache of one minute.
//!
//! Items have one key, `pk`: `KEY#<SHA-256 of the API key, in hex>` and `PROFILE#<tenant>#<name>`.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::problem::Problem;
use crate::reason::Reason;

/// How long an item, or its absence, is remembered. A revoked key stops working within this time.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Guessed keys must not fill the memory.
const MAX_REMEMBERED: usize = 10_000;

/// An API key's owner and rights.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyItem {
    pub tenant_id: String,
    #[serde(default)]
    pub scopes: BTreeSet<String>,
    /// The establishments whose products may be loaded; absent where all may.
    #[serde(default)]
    pub cnpjs: Option<BTreeSet<String>>,
    /// What the key is for, as logs show it.
    #[serde(default)]
    pub name: String,
}

/// Reads items of the access table.
#[derive(Debug)]
pub struct AccessStore {
    dynamodb: Client,
    table: String,
    remembered: Mutex<HashMap<String, (Instant, Option<serde_json::Value>)>>,
}

impl AccessStore {
    pub fn new(dynamodb: Client, table: String) -> Self {
        Self { dynamodb, table, remembered: Mutex::default() }
    }

    /// The item of an API key. Only the key's hash is ever stored or sent.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the table cannot be read.
    pub async fn key(&self, api_key: &str) -> Result<Option<KeyItem>, Problem> {
        self.item(format!("KEY#{}", hex::encode(Sha256::digest(api_key.as_bytes())))).await
    }

    /// A tenant's target profile, in the caller's own type.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the table cannot be read or holds something else at this key.
    pub async fn profile<T: DeserializeOwned>(&self, tenant: &str, name: &str) -> Result<Option<T>, Problem> {
        self.item(format!("PROFILE#{tenant}#{name}")).await
    }

    async fn item<T: DeserializeOwned>(&self, pk: String) -> Result<Option<T>, Problem> {
        let found = match self.recall(&pk) {
            Some(found) => found,
            None => {
                let found = self.fetch(&pk).await?;
                self.remember(pk, found.clone());
                found
            }
        };
        found.map(serde_json::from_value).transpose().map_err(|error| {
            tracing::error!(event_type = "access.item_malformed", error = %error, "an item of the access table has another form");
            unavailable()
        })
    }

    async fn fetch(&self, pk: &str) -> Result<Option<serde_json::Value>, Problem> {
        let output = self
            .dynamodb
            .get_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(pk.to_owned()))
            .send()
            .await
            .map_err(|error| {
                let error = aws_sdk_dynamodb::error::DisplayErrorContext(error).to_string();
                tracing::error!(event_type = "access.unavailable", error, "the access table cannot be read");
                unavailable()
            })?;
        output.item.map(serde_dynamo::from_item).transpose().map_err(|error| {
            tracing::error!(event_type = "access.item_malformed", error = %error, "an item of the access table is not JSON");
            unavailable()
        })
    }

    fn recall(&self, pk: &str) -> Option<Option<serde_json::Value>> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.get(pk).filter(|(since, _)| since.elapsed() < REMEMBERED).map(|(_, found)| found.clone())
    }

    fn remember(&self, pk: String, found: Option<serde_json::Value>) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.retain(|_, (since, _)| since.elapsed() < REMEMBERED);
        }
        if remembered.len() < MAX_REMEMBERED {
            remembered.insert(pk, (Instant::now(), found));
        }
    }

    /// Reads an item that need not exist, past the cache.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the table cannot be read.
    pub async fn probe(&self) -> Result<(), Problem> {
        self.fetch("PROBE#").await.map(|_| ())
    }
}

fn unavailable() -> Problem {
    Problem::new(Reason::StoreUnavailable, "the access store cannot be read")
}
