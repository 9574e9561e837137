//! All entries of the access table at one time, and how people name them.

use std::collections::{BTreeMap, BTreeSet};

use access::pk::{self, Pk};
use access::{KeyHash, KeyItem, LimitsItem, SpentItem, TenantItem};
use jiff::Timestamp;
use jiff::civil::Date;

use super::change::{Change, Held};
use super::entry::{Attributes, Entry, PK, document};
use crate::args::KeyName;
use crate::exit::Failure;
use crate::output::Output;

/// Minimum number of characters by which the prefix of an id can identify a tenant or key.
const ID_PREFIX: usize = 4;

/// Valid entries of the access table at one time, by their partition keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    entries: BTreeMap<String, Held>,
    /// Reasons why items are not valid entries, by the items' partition keys.
    faults: BTreeMap<String, String>,
    /// Day (UTC) on which each API key was last used, by the key's hash.
    used: BTreeMap<KeyHash, Date>,
    /// Amounts that tenants with a budget have spent, by tenant id.
    spent: BTreeMap<String, SpentItem>,
}

impl Snapshot {
    /// Adds an item to the snapshot: as an entry, as a note about an entry, or as a fault.
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
                self.entries.insert(entry.pk(), Held { entry, attributes });
            }
            Err(error) => {
                let pk = attributes.get(PK).and_then(|pk| pk.as_s().ok()).cloned().unwrap_or_default();
                self.faults.insert(pk, crate::exit::chain(&error));
            }
        }
    }

    /// Returns the entry with this partition key.
    pub(crate) fn get(&self, pk: &str) -> Option<&Held> {
        self.entries.get(pk)
    }

    /// Returns the change that writes an entry, or `None` if the table has the same content.
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

    /// Returns the entries of one tenant in the order of their partition keys. `reference` is its
    /// name, its id or an id's prefix; `None` returns the entries of all tenants.
    ///
    /// # Errors
    /// If no tenant or more than one matches `reference`.
    pub(crate) fn entries(&self, reference: Option<&str>) -> Result<impl Iterator<Item = &Entry>, Failure> {
        let tenant = reference.map(|reference| self.tenant(reference)).transpose()?;
        let of = move |entry: &&Entry| tenant.as_ref().is_none_or(|tenant| entry.tenant() == tenant);
        Ok(self.entries.values().map(|held| &held.entry).filter(of))
    }

    /// Returns all entries of a tenant, the tenant itself included, in the order of their keys.
    pub(crate) fn of_tenant(&self, tenant: &str) -> impl Iterator<Item = &Held> {
        self.entries.values().filter(move |held| held.entry.tenant() == tenant)
    }

    /// Returns the entries of API keys, each with the key's hash.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&Held, KeyHash, &KeyItem)> {
        self.entries.values().filter_map(|held| match &held.entry {
            Entry::Key(hash, key) => Some((held, *hash, key)),
            _ => None,
        })
    }

    /// Returns the API keys whose hashes begin with `id`. An `id` of fewer than four characters
    /// matches no key.
    pub(crate) fn keys_with_id(&self, id: &str) -> impl Iterator<Item = (&Held, KeyHash, &KeyItem)> {
        let is_id = id.len() >= ID_PREFIX;
        self.keys().filter(move |(_, hash, _)| is_id && hash.to_string().starts_with(id))
    }

    /// Returns the day (UTC) on which a key was last used, if it is known.
    pub(crate) fn last_used_on(&self, hash: &KeyHash) -> Option<Date> {
        self.used.get(hash).copied()
    }

    /// Returns the amount that a tenant with a budget has spent, if known.
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
            Some(Held { entry: Entry::Tenant(_, item), .. }) => item.clone(),
            _ => TenantItem::default(),
        }
    }

    /// Returns a tenant's rate limits; a tenant without an item of limits has none.
    pub(crate) fn limits(&self, tenant: &str) -> LimitsItem {
        match self.get(&pk::limits(tenant)) {
            Some(Held { entry: Entry::Limits(_, limits), .. }) => limits.clone(),
            _ => LimitsItem::default(),
        }
    }

    /// Returns the entries of a tenant's allow-list; a tenant without such an item has none.
    pub(crate) fn targets(&self, tenant: &str) -> &[String] {
        match self.get(&pk::targets(tenant)) {
            Some(Held { entry: Entry::Targets(_, targets), .. }) => &targets.entries,
            _ => &[],
        }
    }

    /// Finds a tenant by its id, its name, or the first four or more characters of its id.
    ///
    /// # Errors
    /// If no tenant or more than one matches `reference`.
    pub(crate) fn tenant(&self, reference: &str) -> Result<String, Failure> {
        let ids = self.tenants();
        if ids.contains(reference) {
            return Ok(reference.to_owned());
        }
        // A tenant without an item has no name, and an empty one is none.
        let is_named = |id: &&&str| !reference.is_empty() && self.tenant_item(id).name == reference;
        let named: Vec<&str> = ids.iter().filter(is_named).copied().collect();
        let begun =
            ids.iter().filter(|id| reference.len() >= ID_PREFIX && id.starts_with(reference)).copied();
        let found = if named.is_empty() { begun.collect() } else { named };
        match found.as_slice() {
            [id] => Ok((*id).to_owned()),
            [] => Err(Failure::refused(format!("there is no tenant `{reference}`"))
                .next("create it: integrahub tenant create NAME; or see those that there are: integrahub tenant list")),
            several => Err(Failure::usage(format!("`{reference}` means more than one tenant"))
                .why(several.join(", "))
                .next("give the whole id")),
        }
    }

    /// Finds an API key by its name or its id.
    ///
    /// # Errors
    /// If no key or more than one matches `reference`.
    pub(crate) fn key(&self, reference: &KeyName) -> Result<(&Held, KeyHash, &KeyItem), Failure> {
        one(&reference.key, &self.keys_meant(reference)?)
    }

    /// Finds the key to rotate by its name or id. Earlier rotations may have left several keys of
    /// one tenant with the same name: the newest that works is returned, or the newest if none
    /// works.
    ///
    /// # Errors
    /// If no key or more than one matches `reference`.
    pub(crate) fn newest_key(
        &self,
        reference: &KeyName,
        now: Timestamp,
    ) -> Result<(&Held, KeyHash, &KeyItem), Failure> {
        let mut found = self.keys_meant(reference)?;
        let is_of =
            |tenant: &str| found.iter().all(|(.., key)| key.tenant_id == tenant && key.name == reference.key);
        if found.first().is_some_and(|(.., first)| is_of(&first.tenant_id)) {
            if found.iter().any(|(.., key)| works(key, now)) {
                found.retain(|(.., key)| works(key, now));
            }
            // Of two of one second, the one that ends later came of the rotation.
            let age = |key: &KeyItem| (key.created_at, key.expires_at.unwrap_or(Timestamp::MAX));
            let newest = found.iter().map(|(.., key)| age(key)).max();
            found.retain(|(.., key)| Some(age(key)) == newest);
        }
        one(&reference.key, &found)
    }

    fn keys_meant(&self, reference: &KeyName) -> Result<Vec<(&Held, KeyHash, &KeyItem)>, Failure> {
        let tenant = reference.tenant.as_deref().map(|tenant| self.tenant(tenant)).transpose()?;
        let text = &reference.key;
        let of_tenant = |key: &KeyItem| tenant.as_ref().is_none_or(|tenant| key.tenant_id == *tenant);
        let by_name = self.keys().filter(|(_, _, key)| of_tenant(key) && key.name == *text);
        let found: Vec<_> = by_name.collect();
        Ok(if found.is_empty() {
            self.keys_with_id(text).filter(|(_, _, key)| of_tenant(key)).collect()
        } else {
            found
        })
    }

    /// Returns the reason why the item with this partition key is not a valid entry, if it is not.
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

/// Returns the only key of `found`.
///
/// # Errors
/// If `found` has no key, or more than one.
fn one<'a>(
    text: &str,
    found: &[(&'a Held, KeyHash, &'a KeyItem)],
) -> Result<(&'a Held, KeyHash, &'a KeyItem), Failure> {
    match found {
        [one] => Ok(*one),
        [] => Err(Failure::refused(format!("there is no key `{text}`"))
            .next("see those that there are: integrahub key list")),
        several => {
            let shown = several.iter().map(|(_, hash, key)| format!("{} of {}", hash.id(), key.tenant_id));
            Err(Failure::usage(format!("`{text}` means more than one key"))
                .why(shown.collect::<Vec<_>>().join(", "))
                .next("give the id in place of the name"))
        }
    }
}

/// Returns whether an API key is neither disabled nor expired, whatever the state of its tenant.
pub(crate) fn works(key: &KeyItem, now: Timestamp) -> bool {
    !key.disabled && key.expires_at.is_none_or(|expiry| expiry > now)
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

    fn tenant(id: &str, name: &str) -> Entry {
        Entry::Tenant(id.to_owned(), TenantItem { name: name.to_owned(), enabled: true })
    }

    fn of(secret: &str, tenant: &str, name: &str) -> Entry {
        let item = KeyItem { tenant_id: tenant.to_owned(), ..key(name, &["mq:read"]) };
        Entry::Key(ApiKey::from(secret).hash(), item)
    }

    fn named(key: &str, tenant: Option<&str>) -> KeyName {
        KeyName { key: key.to_owned(), tenant: tenant.map(str::to_owned) }
    }

    #[test]
    fn a_tenant_is_found_by_id_name_or_beginning() {
        let known = snapshot(&[tenant(ACME, "Acme"), of("a", OTHER, "orders")]);
        for reference in [ACME, "Acme", "1111"] {
            assert_eq!(known.tenant(reference).unwrap(), ACME, "{reference}");
        }
        assert_eq!(known.tenant("2222").unwrap(), OTHER, "without an item of its own");
        for unknown in ["acme", "111", "3333", ""] {
            assert!(known.tenant(unknown).is_err(), "{unknown}");
        }
        let twins = snapshot(&[tenant(ACME, "Acme"), tenant(OTHER, "Acme")]);
        assert!(twins.tenant("Acme").unwrap_err().why.unwrap().contains(OTHER));
    }

    #[test]
    fn a_key_is_found_by_name_or_id_and_never_guessed() {
        let known = snapshot(&[of("a", ACME, "orders"), of("b", OTHER, "orders"), of("c", ACME, "stock")]);
        assert_eq!(known.key(&named("stock", None)).unwrap().1, ApiKey::from("c").hash());
        assert_eq!(known.key(&named("orders", Some("2222"))).unwrap().1, ApiKey::from("b").hash());
        let id = ApiKey::from("a").hash().id();
        assert_eq!(known.key(&named(&id, None)).unwrap().1, ApiKey::from("a").hash());
        assert!(known.key(&named("orders", None)).unwrap_err().why.unwrap().contains(&id));
        assert!(known.key(&named("till", None)).is_err());
        assert!(known.key(&named("stock", Some(OTHER))).is_err());
    }

    #[test]
    fn the_newest_key_that_works_is_rotated() {
        let at = |day: u8| -> Timestamp { format!("2026-11-{day:02}T10:00:00Z").parse().unwrap() };
        let made = |secret: &str, tenant: &str, created: u8, expires: Option<u8>| {
            let item = KeyItem {
                tenant_id: tenant.to_owned(),
                created_at: Some(at(created)),
                expires_at: expires.map(at),
                disabled: false,
                ..key("orders", &["mq:read"])
            };
            Entry::Key(ApiKey::from(secret).hash(), item)
        };
        let newest = |entries: &[Entry], text: &str, tenant: Option<&str>| {
            let known = snapshot(entries);
            known.newest_key(&named(text, tenant), at(20)).map(|(_, hash, _)| hash)
        };
        let is = |secret: &str| Ok(ApiKey::from(secret).hash());
        let (old, new) = (made("old", ACME, 1, Some(25)), made("new", ACME, 18, None));
        let over = made("over", ACME, 19, Some(20));
        let entries = [old.clone(), new.clone(), over.clone()];
        assert_eq!(newest(&entries, "orders", None), is("new"));
        let id = ApiKey::from("old").hash().id();
        assert_eq!(newest(&entries, &id, None), is("old"), "an id means its own key");
        assert_eq!(newest(&[made("old", ACME, 18, Some(25)), new.clone()], "orders", None), is("new"));
        assert_eq!(newest(std::slice::from_ref(&over), "orders", None), is("over"), "which is refused then");
        // Nobody knows which is meant.
        let of_other = [old, new, made("other", OTHER, 1, None)];
        for unclear in [&of_other[..], &[made("a", ACME, 18, None), made("b", ACME, 18, None)]] {
            let refused = newest(unclear, "orders", None).unwrap_err();
            assert!(refused.what.contains("more than one key"), "{refused}");
        }
        assert_eq!(newest(&of_other, "orders", Some("1111")), is("new"));
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
