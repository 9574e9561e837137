//! The access table: API keys and target profiles, read through a cache of one minute.
//!
//! Items have one key, `pk`: `KEY#<SHA-256 of the API key, in hex>`, `PROFILE#<tenant>#<name>` and
//! `DROPS#<tenant>`.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use api::{Problem, Reason};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use clock::Remembered;
use failure::Malformed;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

/// Time for which an item, or its absence, is remembered. A revoked key stops working within it.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Seconds after which a profile that was refused may be requested again: a correction takes effect
/// only then.
const PROFILE_REPAIR: u32 = 60;
/// Most remembered items, so that guessed keys do not fill the memory.
const MAX_REMEMBERED: usize = 10_000;

/// An API key's owner and rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyItem {
    /// Tenant of the key: a UUID if the key has a scope of the ingest; the gateway accepts any
    /// text.
    pub tenant_id: String,
    /// Names of scopes. Names that this version does not know permit nothing.
    pub scopes: BTreeSet<String>,
    /// Establishments to which the key is limited; `None` if it may use every establishment,
    /// including those whose products other tenants load.
    pub cnpjs: Option<BTreeSet<String>>,
    /// Name that people gave the key. No code uses it.
    pub name: String,
}

/// An API key's item as an operator writes it. A misspelt member must not make the key permit more,
/// so unknown members are refused, and no default permits much.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredKey {
    tenant_id: String,
    #[serde(default)]
    scopes: BTreeSet<String>,
    cnpjs: Option<BTreeSet<String>>,
    all_cnpjs: Option<bool>,
    #[serde(default)]
    name: String,
}

/// A tenant's permission to drop objects into S3, with the limits of the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropGrant {
    /// Establishments whose products the objects may have; `None` if it is every establishment,
    /// including those whose products other tenants load.
    pub cnpjs: Option<BTreeSet<String>>,
    /// Buckets for the objects beside the stack's own. The stack does not write their policy.
    pub buckets: BTreeSet<String>,
}

/// A grant's item as an operator writes it. As with keys, no default permits much.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredGrant {
    cnpjs: Option<BTreeSet<String>>,
    all_cnpjs: Option<bool>,
    #[serde(default)]
    buckets: BTreeSet<String>,
}

/// Reason why it is unknown whether a tenant may drop objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The table cannot be read.
    #[error("the access table cannot be read")]
    Unavailable,
    /// The grant's item is malformed; the log has the member at fault. An operator has to correct
    /// it.
    #[error("the tenant's item DROPS# is malformed")]
    Malformed,
}

/// Reason why an item is neither an API key nor a grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum KeyItemError {
    #[error("it is malformed")]
    Form(#[from] Malformed),
    #[error("it has both cnpjs and allCnpjs")]
    Both,
    #[error("a key with a scope products:*, and a grant, need cnpjs, or allCnpjs with the value true")]
    Neither,
}

impl TryFrom<StoredGrant> for DropGrant {
    type Error = KeyItemError;

    fn try_from(stored: StoredGrant) -> Result<Self, KeyItemError> {
        match (stored.cnpjs, stored.all_cnpjs.unwrap_or_default()) {
            (Some(_), true) => Err(KeyItemError::Both),
            (None, false) => Err(KeyItemError::Neither),
            (cnpjs, _) => Ok(Self { cnpjs, buckets: stored.buckets }),
        }
    }
}

impl TryFrom<StoredKey> for KeyItem {
    type Error = KeyItemError;

    fn try_from(stored: StoredKey) -> Result<Self, KeyItemError> {
        let is_about_products = stored.scopes.iter().any(|scope| scope.starts_with("products:"));
        let cnpjs = match (stored.cnpjs, stored.all_cnpjs.unwrap_or_default()) {
            (Some(_), true) => return Err(KeyItemError::Both),
            (Some(cnpjs), false) => Some(cnpjs),
            (None, true) => None,
            (None, false) if is_about_products => return Err(KeyItemError::Neither),
            (None, false) => Some(BTreeSet::new()),
        };
        Ok(Self { tenant_id: stored.tenant_id, scopes: stored.scopes, cnpjs, name: stored.name })
    }
}

/// Reads items of the access table.
#[derive(Debug)]
pub struct AccessStore {
    dynamodb: Client,
    table: String,
    remembered: Remembered<String, Option<Arc<serde_json::Value>>>,
}

impl AccessStore {
    /// A store with an empty cache.
    #[must_use]
    pub fn new(dynamodb: Client, table: String) -> Self {
        Self { dynamodb, table, remembered: Remembered::new(REMEMBERED, MAX_REMEMBERED) }
    }

    /// Returns the key of an API key's item in the table. Only the API key's hash is ever stored or
    /// sent.
    pub(crate) fn pk(api_key: &str) -> String {
        format!("KEY#{}", hex::encode(Sha256::digest(api_key.as_bytes())))
    }

    /// Reads the item of an API key by its [`pk`](Self::pk). A malformed item is logged and refused.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the table cannot be read.
    pub(crate) async fn key(&self, pk: &str) -> Result<Option<KeyItem>, Problem> {
        let Some(item) = self.item(pk).await? else { return Ok(None) };
        Ok(read_key(&item).map_err(|error| refused(pk, &error)).ok())
    }

    /// Reads a tenant's target profile in the caller's own type.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the table cannot be read, or the item has not the form of that type.
    pub async fn profile<T: DeserializeOwned>(&self, tenant: &str, name: &str) -> Result<Option<T>, Problem> {
        // `acme` with `eu#orders` would be the profile `orders` of the tenant `acme#eu`.
        if name.contains('#') {
            return Ok(None);
        }
        let pk = format!("PROFILE#{tenant}#{name}");
        let Some(item) = self.item(&pk).await? else { return Ok(None) };
        failure::malformed::read(&*item).map(Some).map_err(|error| {
            refused(&pk, &error);
            let detail =
                format!("the target profile `{name}` cannot be read; an operator has to correct its item");
            Problem::new(Reason::StoreUnavailable, detail).retry_after(PROFILE_REPAIR)
        })
    }

    /// Reads a tenant's permission to drop objects into S3; `None` if it has none.
    ///
    /// # Errors
    /// If the table cannot be read, or the item is malformed, which is logged.
    pub async fn drop_grant(&self, tenant: &str) -> Result<Option<DropGrant>, GrantError> {
        let pk = format!("DROPS#{tenant}");
        let Some(item) = self.item(&pk).await.map_err(|_| GrantError::Unavailable)? else { return Ok(None) };
        let grant = read_grant(&item).map_err(|error| {
            refused(&pk, &error);
            GrantError::Malformed
        });
        grant.map(Some)
    }

    async fn item(&self, pk: &str) -> Result<Option<Arc<serde_json::Value>>, Problem> {
        if let Some(found) = self.remembered.get(pk) {
            return Ok(found);
        }
        let found = self.fetch(pk).await?.map(Arc::new);
        self.remembered.put(pk.to_owned(), found.clone());
        Ok(found)
    }

    /// Reads an item of the table, and returns it without its key.
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
                tracing::error!(
                    event_type = "access.unavailable",
                    pk,
                    error,
                    "cannot read item `{pk}` of the access table"
                );
                unavailable()
            })?;
        let item = output.item.map(|mut item| {
            item.remove("pk");
            item
        });
        item.map(failure::malformed::from_item).transpose().map_err(|error| {
            refused(pk, &error);
            unavailable()
        })
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

/// Logs the key of a malformed item. It holds a hash at most, never an API key.
fn refused(pk: &str, error: &(dyn Error + 'static)) {
    tracing::error!(
        event_type = "access.item_malformed",
        pk,
        error,
        "item `{pk}` of the access table is refused: {error}"
    );
}

fn read_grant(item: &serde_json::Value) -> Result<DropGrant, KeyItemError> {
    failure::malformed::read::<StoredGrant, _>(item)?.try_into()
}

fn read_key(item: &serde_json::Value) -> Result<KeyItem, KeyItemError> {
    failure::malformed::read::<StoredKey, _>(item)?.try_into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TENANT: &str = "11111111-1111-4111-8111-111111111111";

    #[expect(clippy::needless_pass_by_value, reason = "the tests write members where they are used")]
    fn key(members: Value) -> Result<KeyItem, KeyItemError> {
        let mut item = json!({"tenantId": TENANT});
        item.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        read_key(&item)
    }

    #[test]
    fn a_key_about_products_says_which_establishments_it_is_about() {
        let some = json!({"scopes": ["products:read"], "cnpjs": ["11222333000181"]});
        assert_eq!(key(some).unwrap().cnpjs, Some(BTreeSet::from(["11222333000181".to_owned()])));
        let none = json!({"scopes": ["products:write"], "cnpjs": []});
        assert_eq!(key(none).unwrap().cnpjs, Some(BTreeSet::new()));
        let all = json!({"scopes": ["products:write", "mq:read"], "allCnpjs": true});
        assert_eq!(key(all).unwrap().cnpjs, None);
        for unclear in [
            json!({"scopes": ["products:read"]}),
            json!({"scopes": ["products:write"], "allCnpjs": false}),
            json!({"scopes": ["products:later"]}),
            json!({"scopes": ["products:read"], "cnpjs": ["11222333000181"], "allCnpjs": true}),
        ] {
            assert!(key(unclear.clone()).is_err(), "{unclear}");
        }
    }

    #[test]
    fn a_key_about_something_else_is_about_no_establishment() {
        assert_eq!(key(json!({"scopes": ["mq:read"]})).unwrap().cnpjs, Some(BTreeSet::new()));
        assert_eq!(key(json!({})).unwrap().scopes, BTreeSet::new());
    }

    #[test]
    fn a_grant_says_which_establishments_it_is_about() {
        let some = read_grant(&json!({"cnpjs": ["11222333000181"]})).unwrap();
        assert_eq!(some.cnpjs, Some(BTreeSet::from(["11222333000181".to_owned()])));
        assert_eq!(
            (some.buckets, read_grant(&json!({"allCnpjs": true})).unwrap().cnpjs),
            (BTreeSet::new(), None)
        );
        let elsewhere = read_grant(&json!({"allCnpjs": true, "buckets": ["partner-files"]})).unwrap();
        assert_eq!(elsewhere.buckets, BTreeSet::from(["partner-files".to_owned()]));
        for unclear in [
            json!({}),
            json!({"allCnpjs": false}),
            json!({"allCnpjs": true, "cnpjs": ["11222333000181"]}),
            json!({"allCnpjs": true, "cnpj": ["11222333000181"]}),
        ] {
            assert!(read_grant(&unclear).is_err(), "{unclear}");
        }
    }

    #[test]
    fn an_error_repeats_no_value_of_the_item() {
        for members in
            [json!({"name": ["hunter2"]}), json!({"scopes": "hunter2"}), json!({"allCnpjs": "hunter2"})]
        {
            let error = key(members).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn a_misspelt_member_makes_no_wider_key() {
        for member in ["cnpj", "CNPJs", "allcnpjs", "scope", "ttl"] {
            let item = json!({"scopes": ["products:write"], "allCnpjs": true, member: ["11222333000181"]});
            let refused = key(item).unwrap_err();
            let KeyItemError::Form(refused) = refused else { panic!("{refused}") };
            assert_eq!(refused.to_string(), format!("/{member}: the member is not known"));
        }
    }
}
