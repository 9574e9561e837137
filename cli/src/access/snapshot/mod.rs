//! Snapshot of the access table, in which the commands look up entries.

mod names;

use std::collections::{BTreeMap, BTreeSet};

use access::pk::{self, Pk};
use access::{KeyHash, KeyItem, LimitsItem, SpentItem, TenantItem};
use jiff::civil::Date;

pub(crate) use self::names::works;
use super::change::{Change, StoredEntry};
use super::entry::{Attributes, Entry, PK, document};
use crate::exit::Failure;
use crate::output::Output;

/// Valid entries of the access table as one scan read them, by their partition keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    entries: BTreeMap<String, StoredEntry>,
    /// Reasons why items are not valid entries, by the items' partition keys.
    faults: BTreeMap<String, String>,
    /// Day (UTC) on which each API key was last used, by the key's hash.
    used: BTreeMap<KeyHash, Date>,
    /// Items with the spending of tenants that have a budget, by tenant id.
    spent: BTreeMap<String, SpentItem>,
}

impl Snapshot {
    /// Adds an item of the table to the snapshot: as an entry, as the day of a key's last use, as
    /// the amount that a tenant has spent, or as a fault.
    pub(crate) fn add(&mut self, attributes: Attributes) {
        let text = |member: &str| attributes.get(member).and_then(|value| value.as_s().ok());
        if let Some(Pk::Used(hash)) = text(PK).and_then(|pk| pk::parse(pk)) {
            if let Some(day) = text("lastUsedOn").and_then(|day| day.parse().ok()) {
                self.used.insert(hash, day);
            }
            return;
        }
        if let Some(Pk::Spent(tenant)) = text(PK).and_then(|pk| pk::parse(pk)) {
            if let Some(spent) = document(&attributes).and_then(|item| SpentItem::read(item).ok()) {
                self.spent.insert(tenant.to_owned(), spent);
            }
            return;
        }
        match Entry::read(&attributes) {
            Ok(entry) => {
                self.entries.insert(entry.pk(), StoredEntry { entry, attributes });
            }
            Err(error) => {
                let pk = attributes.get(PK).and_then(|pk| pk.as_s().ok()).cloned().unwrap_or_default();
                self.faults.insert(pk, crate::exit::chain(&error));
            }
        }
    }

    /// Returns the entry with this partition key; `None` if there is none, or its item is not
    /// valid.
    pub(crate) fn get(&self, pk: &str) -> Option<&StoredEntry> {
        self.entries.get(pk)
    }

    /// Returns the change that writes an entry, or `None` if the table has it with the same
    /// content.
    pub(crate) fn put(&self, entry: Entry) -> Option<Change> {
        match self.get(&entry.pk()) {
            Some(held) => Change::of(held, entry),
            None => Some(Change::Create(entry)),
        }
    }

    /// Returns the change that creates an entry. If the entry exists and `replace` is true, the
    /// change replaces its content; `None` if the content is the same.
    ///
    /// # Errors
    /// If the entry exists and `replace` is false, or its present item is not a valid entry.
    pub(crate) fn create(&self, entry: Entry, replace: bool) -> Result<Option<Change>, Failure> {
        self.check_readable(&entry.pk())?;
        match self.get(&entry.pk()) {
            Some(held) if !replace => {
                Err(Failure::refused(format!("there is a {} already", held.entry.title()))
                    .next("add --replace to change it; with --dry-run too you see the difference"))
            }
            _ => Ok(self.put(entry)),
        }
    }

    /// Returns the entries of one tenant in the order of their partition keys. `reference` is the
    /// name or id of the tenant, or a prefix of the id; `None` returns the entries of all tenants.
    ///
    /// # Errors
    /// If no tenant or more than one matches `reference`.
    pub(crate) fn entries(&self, reference: Option<&str>) -> Result<impl Iterator<Item = &Entry>, Failure> {
        let tenant = reference.map(|reference| self.tenant(reference)).transpose()?;
        let of = move |entry: &&Entry| tenant.as_ref().is_none_or(|tenant| entry.tenant() == tenant);
        Ok(self.entries.values().map(|held| &held.entry).filter(of))
    }

    /// Returns all entries of a tenant in the order of their partition keys. The entry of the
    /// tenant itself is one of them.
    pub(crate) fn of_tenant(&self, tenant: &str) -> impl Iterator<Item = &StoredEntry> {
        self.entries.values().filter(move |held| held.entry.tenant() == tenant)
    }

    /// Returns the entries of all API keys, each with the key's hash and its parsed item.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&StoredEntry, KeyHash, &KeyItem)> {
        self.entries.values().filter_map(|held| match &held.entry {
            Entry::Key(hash, key) => Some((held, *hash, key)),
            _ => None,
        })
    }

    /// Returns the day (UTC) on which a key was last used, if it is known.
    pub(crate) fn last_used_on(&self, hash: &KeyHash) -> Option<Date> {
        self.used.get(hash).copied()
    }

    /// Returns the item with the amount that a tenant with a budget has spent, as the function
    /// `metering` last wrote it; `None` if there is no such item.
    pub(crate) fn spent(&self, tenant: &str) -> Option<&SpentItem> {
        self.spent.get(tenant)
    }

    /// Returns the ids of all tenants, also of those that have entries but no item of their own.
    pub(crate) fn tenants(&self) -> BTreeSet<&str> {
        self.entries.values().map(|held| held.entry.tenant()).filter(|id| !id.is_empty()).collect()
    }

    /// Returns a tenant's item. A tenant that has none is enabled and has no name.
    pub(crate) fn tenant_item(&self, id: &str) -> TenantItem {
        match self.get(&access::pk::tenant(id)) {
            Some(StoredEntry { entry: Entry::Tenant(_, item), .. }) => item.clone(),
            _ => TenantItem::default(),
        }
    }

    /// Returns a tenant's rate limits; a tenant without an item of limits has none.
    pub(crate) fn limits(&self, tenant: &str) -> LimitsItem {
        match self.get(&pk::limits(tenant)) {
            Some(StoredEntry { entry: Entry::Limits(_, limits), .. }) => limits.clone(),
            _ => LimitsItem::default(),
        }
    }

    /// Returns the entries of a tenant's allow-list; a tenant without such an item has none.
    pub(crate) fn targets(&self, tenant: &str) -> &[String] {
        match self.get(&pk::targets(tenant)) {
            Some(StoredEntry { entry: Entry::Targets(_, targets), .. }) => &targets.entries,
            _ => &[],
        }
    }

    /// Returns the reason why the item with this partition key is not a valid entry; `None` if it
    /// is valid or absent.
    pub(crate) fn fault(&self, pk: &str) -> Option<&str> {
        self.faults.get(pk).map(String::as_str)
    }

    /// Checks that the item with this partition key may be overwritten.
    ///
    /// # Errors
    /// If the table has such an item, and it is not a valid entry.
    pub(crate) fn check_readable(&self, pk: &str) -> Result<(), Failure> {
        self.fault(pk).map_or(Ok(()), |fault| {
            Err(Failure::refused(format!("the item `{pk}` cannot be read, so it stays as it is"))
                .why(fault)
                .next("correct or remove the item in DynamoDB, and run the command again"))
        })
    }

    /// Prints a warning for each item that is not a valid entry, because the functions ignore it.
    pub(crate) fn warn(&self, out: &mut Output) {
        for (pk, fault) in &self.faults {
            out.note(&format!("warning: the functions do not use the item `{pk}`: {fault}"));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use access::ApiKey;
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::super::entry::tests::{ACME, key, profile};
    use super::*;
    use crate::output::Format;
    use crate::output::memory::output;

    pub(crate) const OTHER: &str = "22222222-2222-4222-8222-222222222222";

    pub(crate) fn snapshot(entries: &[Entry]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        entries.iter().for_each(|entry| snapshot.add(entry.attributes().unwrap()));
        snapshot
    }

    pub(super) fn of(secret: &str, tenant: &str, name: &str) -> Entry {
        let item = KeyItem { tenant_id: tenant.to_owned(), ..key(name, &["mq:read"]) };
        Entry::Key(ApiKey::from(secret).hash(), item)
    }

    #[test]
    fn the_day_of_a_key_s_last_use_is_no_entry() {
        let [used, other] = ["a", "b"].map(|secret| ApiKey::from(secret).hash());
        let mut known = snapshot(&[of("a", ACME, "orders")]);
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let item = [(PK.to_owned(), text(&pk::used(&used))), ("lastUsedOn".to_owned(), text("2026-11-26"))];
        known.add(item.into());
        assert_eq!(known.last_used_on(&used).map(|day| day.to_string()).as_deref(), Some("2026-11-26"));
        assert_eq!((known.last_used_on(&other), known.keys().count()), (None, 1));
        let (mut out, _, words) = output(Format::Text, None);
        known.warn(&mut out);
        assert_eq!(words.text(), "");
    }

    #[test]
    fn an_item_that_the_functions_refuse_is_named() {
        let mut known = snapshot(&[Entry::Profile(ACME.to_owned(), "orders".to_owned(), profile())]);
        let mut wrong = of("a", ACME, "orders").attributes().unwrap();
        wrong.insert("cnpj".to_owned(), wrong["tenantId"].clone());
        known.add(wrong);
        let (mut out, data, words) = output(Format::Text, None);
        known.warn(&mut out);
        assert!(words.text().contains("/cnpj: the member is not known"), "{}", words.text());
        let refused = known.check_readable(&pk::key(&ApiKey::from("a").hash())).unwrap_err();
        assert!(refused.why.unwrap().contains("/cnpj"));
        assert_eq!(known.check_readable(&pk::profile(ACME, "orders")), Ok(()));
        assert_eq!(data.text(), "");
    }
}
