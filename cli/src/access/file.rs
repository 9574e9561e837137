//! The access file of `apply` and `export`: the rate card, and tenants with their keys, profiles,
//! allow-lists, limits, budgets, grants and establishments. The file has no API key and no
//! password, so it may be kept with other sources.

use std::collections::{BTreeMap, BTreeSet};

use access::rates::RateCard;
use access::{BudgetItem, Establishments, LimitsItem, TenantItem};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::entry::Entry;
use super::snapshot::Snapshot;
use crate::exit::Failure;

/// Version of the access file's format.
pub(crate) const VERSION: u32 = 1;

/// Name of the JSON schema of the access file.
pub(crate) const SCHEMA: &str = "integrahub.access.v1";

/// Access file: the tenants with their keys, profiles and other entries. If a section or a member
/// is absent, `apply` leaves the table's content for it as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessFile {
    /// Name of the JSON schema, which only a file in JSON contains; `None` in YAML.
    #[serde(skip_serializing)]
    pub(crate) schema: Option<String>,
    /// Version of the access file's format.
    pub(crate) version: u32,
    /// Rate card with the prices of usage. `None` leaves the table's rate card as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rates: Option<RateCard>,
    /// Sections of the tenants, by tenant id.
    #[serde(default)]
    pub(crate) tenants: BTreeMap<String, TenantSection>,
}

/// Section of a tenant in the access file. `apply` leaves the table as it is for a member that is
/// `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TenantSection {
    /// Display name of the tenant, which no other tenant may have. `None` leaves it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// True if the keys of the tenant are refused. `None` leaves the tenant as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disabled: Option<bool>,
    /// API keys of the tenant, without their secret text. `None` leaves the table's keys as they
    /// are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keys: Option<Vec<KeySection>>,
    /// Target profiles by their names. `None` leaves the table's profiles as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profiles: Option<BTreeMap<String, Value>>,
    /// Entries of the tenant's allow-list of targets. `None` leaves the table's list as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) targets: Option<Vec<String>>,
    /// Rate limits of the tenant's requests, in the form of the access table. `None` leaves the
    /// table's limits as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<LimitsItem>,
    /// Monthly budget of the tenant. `None` leaves the table's budget as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) budget: Option<BudgetItem>,
    /// Grant to drop files into S3, in a list of at most one. `None` leaves the table's grant as it
    /// is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grants: Option<Vec<GrantSection>>,
    /// CNPJs of the establishments that the tenant owns. `None` leaves their owners as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) establishments: Option<BTreeSet<String>>,
}

/// Section of an API key in the access file, without the secret text of the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeySection {
    /// Display name of the API key.
    pub(crate) name: String,
    /// Prefix of the key's hash, of at least four characters, that identifies the key. If it is
    /// `None` or matches no key of the table, the key is found by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// Scopes that the API key grants.
    pub(crate) scopes: BTreeSet<String>,
    /// Establishments that the API key covers; `None` for a key without a scope `products:*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cnpjs: Option<Cnpjs>,
    /// Expiry of the API key: a time, or never. `None` leaves the expiry of an existing key as it
    /// is, and lets a new key never expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<Expiry>,
    /// True if the API key is disabled: requests with it are refused. `None` leaves an existing key
    /// as it is, and enables a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disabled: Option<bool>,
}

/// Section of a tenant's grant to drop files into S3, in the access file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GrantSection {
    /// Establishments whose products the dropped files may have.
    pub(crate) cnpjs: Cnpjs,
    /// Names of buckets for dropped files, besides the bucket of the stack.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) buckets: BTreeSet<String>,
}

/// Establishments that a key or a grant covers: `all`, or a list of CNPJs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", expecting = "must be `all`, or a list of CNPJs")]
pub(crate) enum Cnpjs {
    /// Every establishment of the tenant.
    All,
    /// Only these establishments, by CNPJ.
    #[serde(untagged)]
    Only(BTreeSet<String>),
}

/// Expiry of an API key: `never`, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", expecting = "must be `never`, or a time such as 2027-01-31T00:00:00Z")]
pub(crate) enum Expiry {
    /// The API key does not expire.
    Never,
    /// The API key is refused from this time on.
    #[serde(untagged)]
    At(Timestamp),
}

impl From<Option<Timestamp>> for Expiry {
    fn from(time: Option<Timestamp>) -> Self {
        time.map_or(Self::Never, Self::At)
    }
}

impl From<Expiry> for Option<Timestamp> {
    fn from(expiry: Expiry) -> Self {
        match expiry {
            Expiry::Never => None,
            Expiry::At(time) => Some(time),
        }
    }
}

impl From<&Establishments> for Cnpjs {
    fn from(establishments: &Establishments) -> Self {
        match establishments {
            Establishments::All => Self::All,
            Establishments::Only(cnpjs) => Self::Only(cnpjs.clone()),
        }
    }
}

impl AccessFile {
    /// Refuses an access file whose schema or version differs from those that this program writes.
    ///
    /// # Errors
    /// If the file has another schema or another version.
    pub(crate) fn check_version(&self) -> Result<(), Failure> {
        if let Some(schema) = self.schema.as_ref().filter(|schema| *schema != SCHEMA) {
            return Err(Failure::usage(format!("the file has the schema `{schema}`"))
                .why(format!("a file for this command has `{SCHEMA}`"))
                .next("write one: integrahub export"));
        }
        if self.version == VERSION {
            return Ok(());
        }
        Err(Failure::usage(format!("the file has the version {}", self.version))
            .why(format!("this program knows version {VERSION}"))
            .next("use the integrahub that wrote it"))
    }

    /// Builds an access file from the access table: for one tenant, or for all tenants with the
    /// rate card. `owners` has the establishments of each tenant; `None` leaves them out.
    pub(crate) fn of(
        known: &Snapshot,
        tenant: Option<&str>,
        owners: Option<&BTreeMap<String, BTreeSet<String>>>,
    ) -> Self {
        let mut ids: BTreeSet<&str> = known.tenants();
        ids.extend(owners.into_iter().flat_map(BTreeMap::keys).map(String::as_str));
        let ids = ids.into_iter().filter(|id| tenant.is_none_or(|tenant| tenant == *id));
        let section = |id: &str| {
            let establishments = owners.map(|owners| owners.get(id).cloned().unwrap_or_default());
            TenantSection { establishments, ..section(known, id) }
        };
        let card = known.get(access::pk::RATES).map(|held| &held.entry);
        let rates = match card {
            Some(Entry::Rates(card)) if tenant.is_none() => Some(card.clone()),
            _ => None,
        };
        Self {
            schema: None,
            version: VERSION,
            rates,
            tenants: ids.map(|id| (id.to_owned(), section(id))).collect(),
        }
    }
}

fn section(known: &Snapshot, id: &str) -> TenantSection {
    let TenantItem { name, enabled } = known.tenant_item(id);
    let (mut keys, mut profiles) = (Vec::new(), BTreeMap::new());
    let (mut targets, mut limits, mut grants) = (Vec::new(), LimitsItem::default(), Vec::new());
    let mut budget = None;
    for held in known.of_tenant(id) {
        match &held.entry {
            Entry::Tenant(..) | Entry::Rates(_) => {}
            Entry::Key(hash, key) => {
                let says_nothing = key.establishments.only().is_some_and(BTreeSet::is_empty);
                keys.push(KeySection {
                    name: key.name.clone(),
                    id: Some(hash.id()),
                    scopes: key.scopes.clone(),
                    cnpjs: (!says_nothing).then(|| Cnpjs::from(&key.establishments)),
                    expires_at: Some(key.expires_at.into()),
                    disabled: Some(key.disabled),
                });
            }
            Entry::Profile(_, name, profile) => {
                profiles.insert(name.clone(), profile.clone());
            }
            Entry::Targets(_, list) => targets.clone_from(&list.entries),
            Entry::Limits(_, item) => limits.clone_from(item),
            Entry::Budget(_, item) => budget = Some(item.clone()),
            Entry::Grant(_, grant) => grants.push(GrantSection {
                cnpjs: Cnpjs::from(&grant.establishments),
                buckets: grant.buckets.clone(),
            }),
        }
    }
    keys.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    TenantSection {
        name: Some(name).filter(|name| !name.is_empty()),
        disabled: Some(!enabled),
        keys: Some(keys),
        profiles: Some(profiles),
        targets: Some(targets),
        limits: Some(limits),
        budget,
        grants: Some(grants),
        establishments: None,
    }
}

#[cfg(test)]
mod tests {
    use access::ApiKey;

    use super::super::entry::tests::{ACME, budget, card, key, limits, profile};
    use super::super::snapshot::tests::{OTHER, snapshot};
    use super::*;
    use crate::output::Format;
    use crate::output::memory::output;

    fn known() -> Snapshot {
        snapshot(&[
            Entry::Tenant(ACME.to_owned(), TenantItem { name: "Acme".to_owned(), enabled: true }),
            Entry::Key(ApiKey::from("k").hash(), key("orders", &["products:read"])),
            Entry::Profile(ACME.to_owned(), "orders".to_owned(), profile()),
            Entry::Limits(ACME.to_owned(), limits()),
            Entry::Budget(ACME.to_owned(), budget()),
            Entry::Rates(card()),
        ])
    }

    #[test]
    fn a_table_is_written_and_read_back() {
        let owners = BTreeMap::from([(OTHER.to_owned(), BTreeSet::from(["11222333000181".to_owned()]))]);
        let file = AccessFile::of(&known(), None, Some(&owners));
        let text = serde_norway::to_string(&file).unwrap();
        assert_eq!(serde_norway::from_str::<AccessFile>(&text).unwrap(), file);
        let id = ApiKey::from("k").hash().id();
        for part in [
            "cnpjs: all",
            "products:read",
            "perSecond: 100",
            "amount: '100.000000'",
            "price: '4.500000'",
            &id,
            "connName: mq.example.com:5671",
            "11222333000181",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(file.tenants.len(), 2, "an owner without an entry is a tenant too");
        assert_eq!(AccessFile::of(&known(), Some(OTHER), None).tenants.len(), 0);
    }

    #[test]
    fn json_is_read_back_with_its_schema() {
        let file = AccessFile::of(&known(), None, None);
        let (mut out, data, _) = output(Format::Json, None);
        out.json(SCHEMA, &serde_json::to_value(&file).unwrap());
        let read: AccessFile = serde_norway::from_str(&data.text()).unwrap();
        assert_eq!((read.schema.as_deref(), read.check_version()), (Some(SCHEMA), Ok(())));
        assert_eq!(AccessFile { schema: None, ..read }, file);
        let other: AccessFile =
            serde_norway::from_str("{schema: integrahub.keys.v1, version: 1, tenants: {}}").unwrap();
        assert!(other.check_version().is_err());
    }

    #[test]
    fn a_misspelt_section_is_refused() {
        for wrong in [
            "version: 1\ntenant: {}",
            "version: 1\ntenants: {a: {key: []}}",
            "version: 1\ntenants: {a: {keys: [{name: x, scopes: [], cnpjs: every}]}}",
            "version: 1\ntenants: {a: {limits: {requests: {perSecond: 1, bursts: 2}}}}",
            "tenants: {}",
        ] {
            assert!(serde_norway::from_str::<AccessFile>(wrong).is_err(), "{wrong}");
        }
        let key = |member: &str| {
            format!("version: 1\ntenants: {{a: {{keys: [{{name: x, scopes: [], {member}}}]}}}}")
        };
        for (member, says) in
            [("cnpjs: al", "`all`, or a list"), ("cnpjs: all, expiresAt: nevr", "`never`, or a time")]
        {
            let error = serde_norway::from_str::<AccessFile>(&key(member)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let newer: AccessFile = serde_norway::from_str("version: 2").unwrap();
        assert!(newer.check_version().is_err());
    }
}
