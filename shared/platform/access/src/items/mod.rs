//! Items of the access table: their members, their rules, and what they permit. They are read by
//! the functions, and written by people and the command line.
//!
//! A misspelt member must not make an item permit more, so unknown members are refused, and no
//! default permits much.

mod budget;
mod limits;

use std::collections::BTreeSet;
use std::fmt;

use attempt::Malformed;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub use budget::{BudgetItem, Month, MonthError, Reached, Settled, SpentItem};
pub use limits::{LimitsItem, Rate, RateError, TargetLimits};

use crate::rates::{RateCard, RateCardError};

/// Newest item format that this version reads. Items without a member `version` have format 1.
const VERSION: u64 = 1;
/// Maximum number of entries of a tenant's allow-list of inline targets. The list is parsed again
/// for each request that depends on it.
const MOST_ENTRIES: usize = 200;
/// Maximum number of characters of a tenant's id.
const LONGEST_TENANT: usize = 128;

/// Item of a tenant in the access table. A tenant without one is enabled and has no name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantItem {
    /// Display name of the tenant.
    #[serde(default)]
    pub name: String,
    /// True if the tenant's API keys and tokens work.
    #[serde(default = "enabled")]
    pub enabled: bool,
}

/// Item of an API key in the access table: the key's tenant, name and permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredKey", into = "StoredKey")]
pub struct KeyItem {
    /// Id of the key's tenant. It is a UUID if the key has a scope of the ingest; the gateway also
    /// accepts any text of 1 to 128 characters without `#`.
    pub tenant_id: String,
    /// Display name of the key. During a rotation, the old and the new key have the same name.
    pub name: String,
    /// Names of the key's scopes. Names that this version does not know permit nothing.
    pub scopes: BTreeSet<String>,
    /// Establishments to which the API key is limited when it loads products or reads batches.
    pub establishments: Establishments,
    /// Time at which the API key was created; `None` if it is unknown.
    pub created_at: Option<Timestamp>,
    /// Time from which on the API key is refused; `None` if it never expires.
    pub expires_at: Option<Timestamp>,
    /// True if requests with the API key are refused.
    pub disabled: bool,
}

/// Permission of a tenant to drop objects with catalogues into S3, with limits for the objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredGrant", into = "StoredGrant")]
pub struct DropGrant {
    /// Establishments whose products the dropped objects may contain.
    pub establishments: Establishments,
    /// Names of the buckets for dropped objects besides the stack's own. The template does not
    /// write their bucket policies.
    pub buckets: BTreeSet<String>,
}

/// Allow-list of the inline targets that a tenant may reach, in addition to the deployment's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetsItem {
    /// Entries as in the deployment's parameter `InlineTargets`, without the option `tenant=`.
    pub entries: Vec<String>,
}

/// Set of establishments to which an API key, or a grant to drop objects, is limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Establishments {
    /// Every establishment whose products the tenant may load.
    All,
    /// Only the establishments with these CNPJs (registration numbers).
    Only(BTreeSet<String>),
}

/// Reason why a valid item of an API key does not authenticate a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefusal {
    /// The API key is disabled.
    #[error("the key is disabled")]
    Disabled,
    /// The API key has expired.
    #[error("the key has expired")]
    Expired,
    /// The tenant of the API key is disabled.
    #[error("the key's tenant is disabled")]
    TenantDisabled,
}

/// Fault of an item of the access table. The text repeats no value of the item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// A member of the item is missing, unknown, or of the wrong type.
    #[error("it is malformed")]
    Form(#[from] Malformed),
    /// The item was written for a later version of the functions.
    #[error("it is of a newer version than this deployment reads ({VERSION})")]
    Newer,
    /// The item has both a list of establishments and `allCnpjs`.
    #[error("it has both cnpjs and allCnpjs")]
    Both,
    /// The item has neither a list of establishments nor `allCnpjs`.
    #[error("a key with a scope products:*, and a grant, need cnpjs, or allCnpjs with the value true")]
    Neither,
    /// The tenant's id cannot be part of a partition key, or is not the usual spelling of a UUID.
    #[error(
        "a tenant's id has 1 to {LONGEST_TENANT} characters, no `#` and no control character; a UUID is in lower case with hyphens"
    )]
    TenantId,
    /// The allow-list has more than 200 entries.
    #[error("an allow-list has at most {MOST_ENTRIES} entries")]
    Entries,
    /// The limits name more than 200 targets.
    #[error("a tenant has limits for at most 200 targets")]
    LimitedTargets,
    /// The amount of the budget is zero.
    #[error("a budget's amount is above zero; disable a tenant to refuse all of its requests")]
    Budget,
    /// The budget warns at a percentage that is out of range, or at too many percentages.
    #[error("a budget warns at up to 10 percentages of its amount, each from 1 to 1000")]
    Warnings,
    /// The rate card in the item is invalid.
    #[error("the rate card cannot be used")]
    Rates(#[from] RateCardError),
}

/// JSON members of an API key's item.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredKey {
    tenant_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    scopes: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cnpjs: Option<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all_cnpjs: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
}

/// JSON members of the item with a tenant's grant to drop objects.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredGrant {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cnpjs: Option<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all_cnpjs: Option<bool>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    buckets: BTreeSet<String>,
}

impl Default for TenantItem {
    fn default() -> Self {
        Self { name: String::new(), enabled: true }
    }
}

impl TenantItem {
    /// Parses a tenant's item, given without its partition key.
    ///
    /// # Errors
    /// If the item is malformed or of a newer version.
    pub fn read(item: Value) -> Result<Self, ItemError> {
        read(item)
    }
}

impl TargetsItem {
    /// Parses the item of a tenant's allow-list, given without its partition key.
    ///
    /// # Errors
    /// If the item is malformed, is of a newer version, or has more than 200 entries.
    pub fn read(item: Value) -> Result<Self, ItemError> {
        let targets: Self = read(item)?;
        targets.check()?;
        Ok(targets)
    }

    /// Checks that the allow-list has at most 200 entries.
    ///
    /// # Errors
    /// [`ItemError::Entries`].
    pub const fn check(&self) -> Result<(), ItemError> {
        if self.entries.len() > MOST_ENTRIES { Err(ItemError::Entries) } else { Ok(()) }
    }
}

impl KeyItem {
    /// Parses an API key's item, given without its partition key.
    ///
    /// # Errors
    /// If the item is malformed, is of a newer version, or has another fault: see [`ItemError`].
    pub fn read(item: Value) -> Result<Self, ItemError> {
        read::<StoredKey>(item)?.try_into()
    }

    /// Returns the reason why the API key does not work, although its item is valid; `None` if it
    /// works.
    #[must_use]
    pub fn refusal(&self, tenant: &TenantItem, now: Timestamp) -> Option<KeyRefusal> {
        if self.disabled {
            return Some(KeyRefusal::Disabled);
        }
        if self.expires_at.is_some_and(|end| end <= now) {
            return Some(KeyRefusal::Expired);
        }
        (!tenant.enabled).then_some(KeyRefusal::TenantDisabled)
    }
}

impl DropGrant {
    /// Parses the item of a grant to drop objects, given without its partition key.
    ///
    /// # Errors
    /// If the item is malformed, is of a newer version, or has another fault: see [`ItemError`].
    pub fn read(item: Value) -> Result<Self, ItemError> {
        read::<StoredGrant>(item)?.try_into()
    }
}

impl Establishments {
    /// Returns the CNPJs (registration numbers) of the set; `None` if it is [`Self::All`].
    #[must_use]
    pub const fn only(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::All => None,
            Self::Only(cnpjs) => Some(cnpjs),
        }
    }

    /// Converts the stored members `cnpjs` and `allCnpjs`; `None` for neither, an error for both.
    fn of(cnpjs: Option<BTreeSet<String>>, all_cnpjs: Option<bool>) -> Result<Option<Self>, ItemError> {
        match (cnpjs, all_cnpjs.unwrap_or_default()) {
            (Some(_), true) => Err(ItemError::Both),
            (Some(cnpjs), false) => Ok(Some(Self::Only(cnpjs))),
            (None, true) => Ok(Some(Self::All)),
            (None, false) => Ok(None),
        }
    }

    /// Converts the set to the members `cnpjs` and `allCnpjs` of a stored item.
    fn members(self) -> (Option<BTreeSet<String>>, Option<bool>) {
        match self {
            Self::All => (None, Some(true)),
            Self::Only(cnpjs) => (Some(cnpjs), None),
        }
    }
}

impl fmt::Display for Establishments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Only(cnpjs) => f.write_str(&cnpjs.iter().map(String::as_str).collect::<Vec<_>>().join(",")),
        }
    }
}

impl TryFrom<StoredKey> for KeyItem {
    type Error = ItemError;

    fn try_from(stored: StoredKey) -> Result<Self, ItemError> {
        check_tenant_id(&stored.tenant_id)?;
        let establishments = match Establishments::of(stored.cnpjs, stored.all_cnpjs)? {
            Some(establishments) => establishments,
            None if is_about_products(&stored.scopes) => return Err(ItemError::Neither),
            None => Establishments::Only(BTreeSet::new()),
        };
        Ok(Self {
            tenant_id: stored.tenant_id,
            name: stored.name,
            scopes: stored.scopes,
            establishments,
            created_at: stored.created_at,
            expires_at: stored.expires_at,
            disabled: stored.disabled,
        })
    }
}

impl From<KeyItem> for StoredKey {
    fn from(key: KeyItem) -> Self {
        let (cnpjs, all_cnpjs) = key.establishments.members();
        let says_nothing = |cnpjs: &BTreeSet<String>| cnpjs.is_empty() && !is_about_products(&key.scopes);
        let cnpjs = cnpjs.filter(|cnpjs| !says_nothing(cnpjs));
        Self {
            tenant_id: key.tenant_id,
            name: key.name,
            scopes: key.scopes,
            cnpjs,
            all_cnpjs,
            created_at: key.created_at,
            expires_at: key.expires_at,
            disabled: key.disabled,
        }
    }
}

impl TryFrom<StoredGrant> for DropGrant {
    type Error = ItemError;

    fn try_from(stored: StoredGrant) -> Result<Self, ItemError> {
        let establishments = Establishments::of(stored.cnpjs, stored.all_cnpjs)?;
        Ok(Self { establishments: establishments.ok_or(ItemError::Neither)?, buckets: stored.buckets })
    }
}

impl From<DropGrant> for StoredGrant {
    fn from(grant: DropGrant) -> Self {
        let (cnpjs, all_cnpjs) = grant.establishments.members();
        Self { cnpjs, all_cnpjs, buckets: grant.buckets }
    }
}

/// Checks that a tenant's id can be part of a partition key. A UUID must have its usual spelling:
/// the ingest compares ids as UUIDs, which have several spellings.
///
/// # Errors
/// [`ItemError::TenantId`].
pub fn check_tenant_id(tenant: &str) -> Result<(), ItemError> {
    let is_allowed = |character: char| character != '#' && !character.is_control();
    let length = tenant.chars().take(LONGEST_TENANT + 1).count();
    let is_unusual = |id: Uuid| id.to_string() != tenant;
    let is_well_formed = (1..=LONGEST_TENANT).contains(&length) && tenant.chars().all(is_allowed);
    match is_well_formed && !tenant.parse::<Uuid>().is_ok_and(is_unusual) {
        true => Ok(()),
        false => Err(ItemError::TenantId),
    }
}

/// Checks the format version of an item of any kind, and returns the item without the member
/// `version`.
///
/// # Errors
/// If the item is of a newer version, or its version is not a number.
pub fn without_version(mut item: Value) -> Result<Value, ItemError> {
    let version = item.as_object_mut().and_then(|members| members.remove("version"));
    match version.map_or(Some(VERSION), |version| version.as_u64()) {
        Some(1..=VERSION) => Ok(item),
        _ => Err(ItemError::Newer),
    }
}

/// Parses the rate card's item, given without its partition key.
///
/// # Errors
/// If the item is malformed, is of a newer version, or has a faulty price.
pub fn read_rates(item: Value) -> Result<RateCard, ItemError> {
    Ok(RateCard::from_value(without_version(item)?)?)
}

fn read<T: DeserializeOwned>(item: Value) -> Result<T, ItemError> {
    Ok(attempt::malformed::from_value(without_version(item)?)?)
}

fn is_about_products(scopes: &BTreeSet<String>) -> bool {
    scopes.iter().any(|scope| scope.starts_with("products:"))
}

const fn enabled() -> bool {
    true
}

#[cfg(test)]
mod tests;
