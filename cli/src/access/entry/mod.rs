//! Entries of the access table: one type for the items of all kinds, each with the tenant and name
//! that its partition key contains.

mod kind;
mod values;

use std::collections::HashMap;

use access::pk::{self, Pk};
use access::rates::RateCard;
use access::{
    BudgetItem, DropGrant, Establishments, ItemError, KeyHash, KeyItem, LimitsItem, TargetsItem, TenantItem,
    check_tenant_id,
};
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

pub(crate) use self::kind::Kind;
use super::profile;
use crate::exit::{Explain as _, Failure};

/// Attributes of an item of the access table by name, the partition key included.
pub(crate) type Attributes = HashMap<String, AttributeValue>;

/// Name of the partition key of the access table.
pub(crate) const PK: &str = "pk";

/// Item of the access table, parsed, with the tenant or name that its partition key contains.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    /// Tenant: its id, and its item with display name and state.
    Tenant(String, TenantItem),
    /// API key: its hash, and its item with tenant, name, scopes and expiry.
    Key(KeyHash, KeyItem),
    /// Target profile: its tenant's id, its name, and its JSON in the form of `mq::Profile`.
    Profile(String, String, Value),
    /// Grant to drop files into S3: its tenant's id, and the item.
    Grant(String, DropGrant),
    /// Allow-list of inline targets: its tenant's id, and the item.
    Targets(String, TargetsItem),
    /// Rate limits: their tenant's id, and the item.
    Limits(String, LimitsItem),
    /// Monthly budget: its tenant's id, and the item.
    Budget(String, BudgetItem),
    /// Rate card, which belongs to no tenant.
    Rates(RateCard),
}

/// Reason why an item of the access table is not a valid entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EntryError {
    /// The partition key is missing or of no kind that this version knows, or an attribute has no
    /// JSON form.
    #[error("its key is of no known kind")]
    Key,
    /// The item is malformed, so that the functions refuse it as well.
    #[error(transparent)]
    Item(#[from] ItemError),
    /// The target profile is invalid, for this reason, so that the functions refuse it as well.
    #[error("{0}")]
    Profile(String),
}

impl Entry {
    /// Parses an entry from the attributes of an item of the access table, its partition key
    /// included.
    ///
    /// # Errors
    /// If the item is malformed, or its partition key belongs to no known kind of entry.
    pub(crate) fn read(attributes: &Attributes) -> Result<Self, EntryError> {
        let pk = attributes.get(PK).and_then(|pk| pk.as_s().ok()).ok_or(EntryError::Key)?;
        let item = document(attributes).ok_or(EntryError::Key)?;
        let pk = pk::parse(pk).ok_or(EntryError::Key)?;
        if let Pk::Tenant(tenant)
        | Pk::Drops(tenant)
        | Pk::Targets(tenant)
        | Pk::Limits(tenant)
        | Pk::Budget(tenant)
        | Pk::Profile { tenant, .. } = pk
        {
            check_tenant_id(tenant)?;
        }
        match pk {
            Pk::Tenant(tenant) => Ok(Self::Tenant(tenant.to_owned(), TenantItem::read(item)?)),
            Pk::Key(hash) => Ok(Self::Key(hash, KeyItem::read(item)?)),
            // The functions' own.
            Pk::Used(_) | Pk::Spent(_) => Err(EntryError::Key),
            Pk::Drops(tenant) => Ok(Self::Grant(tenant.to_owned(), DropGrant::read(item)?)),
            Pk::Targets(tenant) => Ok(Self::Targets(tenant.to_owned(), TargetsItem::read(item)?)),
            Pk::Limits(tenant) => Ok(Self::Limits(tenant.to_owned(), LimitsItem::read(item)?)),
            Pk::Budget(tenant) => Ok(Self::Budget(tenant.to_owned(), BudgetItem::read(item)?)),
            Pk::Rates => Ok(Self::Rates(access::read_rates(item)?)),
            Pk::Profile { tenant, name } => {
                let item = access::without_version(item)?;
                profile::parse(&item).map_err(|failure| EntryError::Profile(failure.to_string()))?;
                Ok(Self::Profile(tenant.to_owned(), name.to_owned(), item))
            }
        }
    }

    /// Returns the kind of the entry.
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Tenant(..) => Kind::Tenant,
            Self::Key(..) => Kind::Key,
            Self::Profile(..) => Kind::Profile,
            Self::Grant(..) => Kind::Grant,
            Self::Targets(..) => Kind::Targets,
            Self::Limits(..) => Kind::Limits,
            Self::Budget(..) => Kind::Budget,
            Self::Rates(_) => Kind::Rates,
        }
    }

    /// Returns the id of the tenant that the entry belongs to. It is empty for the rate card.
    pub(crate) fn tenant(&self) -> &str {
        match self {
            Self::Tenant(tenant, _)
            | Self::Profile(tenant, ..)
            | Self::Grant(tenant, _)
            | Self::Targets(tenant, _)
            | Self::Limits(tenant, _)
            | Self::Budget(tenant, _) => tenant,
            Self::Key(_, key) => &key.tenant_id,
            Self::Rates(_) => "",
        }
    }

    /// Returns the display name of the tenant or API key, or the name of the target profile. It is
    /// empty for entries of other kinds.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Tenant(_, TenantItem { name, .. }) | Self::Profile(_, name, _) => name,
            Self::Key(_, key) => &key.name,
            Self::Grant(..) | Self::Targets(..) | Self::Limits(..) | Self::Budget(..) | Self::Rates(_) => "",
        }
    }

    /// Returns the partition key of the entry's item.
    pub(crate) fn pk(&self) -> String {
        match self {
            Self::Tenant(tenant, _) => pk::tenant(tenant),
            Self::Key(hash, _) => pk::key(hash),
            Self::Profile(tenant, name, _) => pk::profile(tenant, name),
            Self::Grant(tenant, _) => pk::drops(tenant),
            Self::Targets(tenant, _) => pk::targets(tenant),
            Self::Limits(tenant, _) => pk::limits(tenant),
            Self::Budget(tenant, _) => pk::budget(tenant),
            Self::Rates(_) => pk::RATES.to_owned(),
        }
    }

    /// Returns the attributes of the entry's item, the partition key included.
    ///
    /// # Errors
    /// If the tenant's id or the entry is invalid, or the item cannot be serialized.
    pub(crate) fn attributes(&self) -> Result<Attributes, Failure> {
        let tenant = self.tenant();
        if !matches!(self, Self::Rates(_)) {
            check_tenant_id(tenant).or_explain(|| format!("use the tenant id `{tenant}`"))?;
        }
        let checked = match self {
            Self::Targets(_, targets) => targets.check(),
            Self::Limits(_, limits) => limits.check(),
            Self::Budget(_, budget) => budget.check(),
            _ => Ok(()),
        };
        let attempt = || format!("write down the {}", self.title());
        checked.or_explain(attempt)?;
        let item: Result<Attributes, serde_dynamo::Error> = match self {
            Self::Tenant(_, item) => serde_dynamo::to_item(item),
            Self::Key(_, item) => serde_dynamo::to_item(item),
            Self::Profile(.., item) => serde_dynamo::to_item(item),
            Self::Grant(_, item) => serde_dynamo::to_item(item),
            Self::Targets(_, item) => serde_dynamo::to_item(item),
            Self::Limits(_, item) => serde_dynamo::to_item(item),
            Self::Budget(_, item) => serde_dynamo::to_item(item),
            Self::Rates(card) => serde_dynamo::to_item(card),
        };
        let mut item = item.or_explain(attempt)?;
        item.insert(PK.to_owned(), AttributeValue::S(self.pk()));
        Ok(item)
    }

    /// Returns a description of the entry for people.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Tenant(id, item) if item.name.is_empty() => format!("tenant {id}"),
            Self::Tenant(id, item) => format!("tenant {id} `{}`", item.name),
            Self::Key(_, key) => format!("key `{}` of {}", key.name, key.tenant_id),
            Self::Profile(tenant, name, _) => format!("profile `{name}` of {tenant}"),
            Self::Grant(tenant, _) => format!("grant of {tenant}"),
            Self::Targets(tenant, _) => format!("allow-list of {tenant}"),
            Self::Limits(tenant, _) => format!("limits of {tenant}"),
            Self::Budget(tenant, _) => format!("budget of {tenant}"),
            Self::Rates(_) => "rate card".to_owned(),
        }
    }

    /// Returns the entry as a JSON document, which never contains an API key.
    pub(crate) fn document(&self) -> Value {
        let (tenant, name) = (self.tenant(), self.name());
        match self {
            Self::Tenant(id, item) => json!({"id": id, "name": item.name, "enabled": item.enabled}),
            Self::Key(hash, key) => json!({
                "id": hash.id(),
                "tenant": key.tenant_id,
                "name": key.name,
                "scopes": key.scopes,
                "cnpjs": cnpjs(&key.establishments),
                "createdAt": key.created_at,
                "expiresAt": key.expires_at,
                "disabled": key.disabled,
            }),
            Self::Profile(.., profile) => json!({"tenant": tenant, "name": name, "profile": profile}),
            Self::Grant(_, grant) => {
                json!({"tenant": tenant, "cnpjs": cnpjs(&grant.establishments), "buckets": grant.buckets})
            }
            Self::Targets(_, targets) => json!({"tenant": tenant, "entries": targets.entries}),
            Self::Limits(_, limits) => json!({"tenant": tenant, "limits": limits}),
            Self::Budget(_, budget) => json!({"tenant": tenant, "amount": budget.amount,
                "refuse": budget.refuse, "warnAt": budget.warn_at}),
            Self::Rates(card) => json!(card),
        }
    }
}

/// Returns an item's attributes as JSON, without the partition key; `None` if one has no JSON form.
pub(crate) fn document(attributes: &Attributes) -> Option<Value> {
    let members = attributes.iter().filter(|(name, _)| *name != PK);
    let members: Attributes = members.map(|(name, value)| (name.clone(), value.clone())).collect();
    serde_dynamo::from_item(members).ok()
}

/// Returns establishments as JSON: `"all"`, or the list of CNPJs.
pub(crate) fn cnpjs(establishments: &Establishments) -> Value {
    match establishments {
        Establishments::All => json!("all"),
        Establishments::Only(cnpjs) => json!(cnpjs),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use access::ApiKey;

    use super::*;

    pub(crate) const ACME: &str = "11111111-1111-4111-8111-111111111111";

    pub(crate) fn key(name: &str, scopes: &[&str]) -> KeyItem {
        KeyItem {
            tenant_id: ACME.to_owned(),
            name: name.to_owned(),
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            establishments: Establishments::All,
            created_at: Some("2026-11-01T10:00:00Z".parse().unwrap()),
            expires_at: Some("2027-11-01T10:00:00Z".parse().unwrap()),
            disabled: true,
        }
    }

    pub(crate) fn profile() -> Value {
        json!({
            "target": {"broker": "rabbitmq", "connName": "mq.example.com:5671", "queue": "ORDERS.IN",
                "ssl": {"enabled": true}},
            "queues": ["ORDERS.*"],
        })
    }

    pub(crate) fn limits() -> LimitsItem {
        LimitsItem::read(json!({
            "requests": {"perSecond": 100.0, "burst": 200},
            "targets": {"orders": {"messages": {"perSecond": 500.0, "burst": 1000}}},
            "queueManagers": {"QM1": {"bytes": {"perSecond": 0.5, "burst": 1}}},
        }))
        .unwrap()
    }

    pub(crate) fn budget() -> BudgetItem {
        BudgetItem::read(json!({"amount": "100.00", "refuse": true})).unwrap()
    }

    pub(crate) fn card() -> RateCard {
        let rate = json!({"operation": "produce", "unit": "messages", "per": 1_000_000, "price": "4.50"});
        RateCard::from_value(json!({"currency": "USD", "rates": [rate]})).unwrap()
    }

    pub(super) fn each() -> [Entry; 8] {
        let only = Establishments::Only(["11222333000181".to_owned()].into());
        [
            Entry::Tenant(ACME.to_owned(), TenantItem { name: "Acme".to_owned(), enabled: false }),
            Entry::Key(ApiKey::from("k").hash(), key("orders", &["mq:read"])),
            Entry::Profile(ACME.to_owned(), "orders".to_owned(), profile()),
            Entry::Grant(
                ACME.to_owned(),
                DropGrant { establishments: only, buckets: ["partner-files".to_owned()].into() },
            ),
            Entry::Targets(
                ACME.to_owned(),
                TargetsItem { entries: vec!["rabbitmq://mq.example.com:5671/ORDERS.*".to_owned()] },
            ),
            Entry::Limits(ACME.to_owned(), limits()),
            Entry::Budget(ACME.to_owned(), budget()),
            Entry::Rates(card()),
        ]
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for entry in each() {
            let attributes = entry.attributes().unwrap();
            assert_eq!(Entry::read(&attributes).unwrap(), entry);
            assert_eq!(attributes[PK].as_s().unwrap(), &entry.pk());
        }
    }

    #[test]
    fn the_members_of_a_kind_are_those_that_its_items_have() {
        for entry in each() {
            let members = entry.kind().members();
            for member in entry.attributes().unwrap().keys() {
                let known = members.contains(&member.as_str()) || member == PK;
                assert!(known, "{member} of {:?}", entry.kind());
            }
        }
    }

    #[test]
    fn an_item_that_the_functions_refuse_is_no_entry() {
        let text = |value: &str| AttributeValue::S(value.to_owned());
        for pk in ["PROBE#", "KEY#12", "TENANT#", "SPENT#acme", "other"] {
            let item = Attributes::from([(PK.to_owned(), text(pk))]);
            assert_eq!(Entry::read(&item), Err(EntryError::Key), "{pk}");
        }
        let spelling = Attributes::from([(PK.to_owned(), text(&pk::tenant(&ACME.replace('-', ""))))]);
        assert_eq!(Entry::read(&spelling), Err(EntryError::Item(ItemError::TenantId)));
        let mut misspelt = each()[0].attributes().unwrap();
        misspelt.insert("enabeld".to_owned(), AttributeValue::Bool(true));
        assert!(matches!(Entry::read(&misspelt), Err(EntryError::Item(_))));
    }
}
