//! Difference between an access file and the access table, as changes in a safe order.

use std::collections::{BTreeMap, BTreeSet};

use access::{Establishments, KeyHash, KeyItem, LimitsItem, TargetsItem, TenantItem};
use jiff::Timestamp;

use super::change::{Change, StoredEntry};
use super::entry::{Entry, Kind};
use super::establishments::OwnerChange;
use super::file::{AccessFile, Cnpjs, GrantSection, KeySection, TenantSection};
use super::snapshot::Snapshot;
use super::{grant, key, limit, profile, target};
use crate::exit::Failure;

/// CNPJs of the establishments that each tenant owns, by the tenant's id.
pub(crate) type Owners = BTreeMap<String, BTreeSet<String>>;

/// Changes that bring a deployment to the state of an access file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// Creations and updates of entries other than API keys. They are made before the changes of
    /// keys, so that a key never works without its profiles.
    pub(crate) first: Vec<Change>,
    /// CNPJs of the establishments whose owner changes, by the kind of change.
    pub(crate) owners: BTreeMap<OwnerChange, BTreeSet<String>>,
    /// Items of new API keys, which are generated when the plan is carried out.
    pub(crate) keys: Vec<KeyItem>,
    /// Changes of existing API keys, and removals of entries of any kind. They are made last.
    pub(crate) last: Vec<Change>,
    /// Warnings about entries that are valid, but probably a mistake.
    pub(crate) warnings: Vec<String>,
}

/// Comparison of one access file with the access table, with the changes and faults found so far.
struct Planner<'a> {
    known: &'a Snapshot,
    prune: bool,
    now: Timestamp,
    plan: Plan,
    faults: Vec<String>,
}

/// Returns the changes of the access table that an access file needs at the present time `now`.
/// With `prune`, entries that the lists in the file lack are removed.
///
/// # Errors
/// If the file contradicts itself or the table. The failure lists every fault.
pub(crate) fn plan(
    file: &AccessFile,
    known: &Snapshot,
    owners: &Owners,
    prune: bool,
    now: Timestamp,
) -> Result<Plan, Failure> {
    file.check_version()?;
    let mut planner = Planner { known, prune, now, plan: Plan::default(), faults: Vec::new() };
    planner.names(file);
    if let Some(card) = &file.rates {
        planner.put(Entry::Rates(card.clone()));
    }
    for (id, section) in &file.tenants {
        planner.tenant(id, section, owners.contains_key(id));
    }
    planner.owners(file, owners);
    let Planner { plan, faults, .. } = planner;
    if faults.is_empty() {
        return Ok(plan);
    }
    Err(Failure::refused("the file cannot be applied; nothing was changed").why(faults.join("\n")))
}

impl Plan {
    /// Returns the plan's number of changes; an establishment whose owner changes counts as one.
    pub(crate) fn len(&self) -> usize {
        let owners: usize = self.owners.values().map(BTreeSet::len).sum();
        self.first.len() + owners + self.keys.len() + self.last.len()
    }

    /// Returns all changes of the access table (none of owners) in the order in which they are
    /// made. New keys have a placeholder for their hash.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let keys = self.keys.iter().cloned().map(|item| Change::Create(key::placeholder(item)));
        self.first.iter().cloned().chain(keys).chain(self.last.iter().cloned()).collect()
    }

    /// Returns the plan's changes as lines with `+`, `~` and `-`.
    pub(crate) fn lines(&self) -> Vec<String> {
        let changes = self.changes();
        let owners =
            self.owners.iter().flat_map(|(change, cnpjs)| cnpjs.iter().map(|cnpj| change.line(cnpj)));
        changes.iter().flat_map(Change::lines).chain(owners).collect()
    }
}

impl Planner<'_> {
    fn fault(&mut self, tenant: &str, fault: &Failure) {
        let why = fault.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        self.faults.push(format!("{tenant}: {}{why}", fault.what));
    }

    /// Returns the value of a result. Records a failure as the tenant's fault, and returns `None`.
    fn checked<T>(&mut self, tenant: &str, result: Result<T, Failure>) -> Option<T> {
        result.map_err(|fault| self.fault(tenant, &fault)).ok()
    }

    /// Records a fault for each display name that two tenants would have.
    fn names(&mut self, file: &AccessFile) {
        let known = self.known;
        let others = known.tenants().into_iter().filter(|id| !file.tenants.contains_key(*id));
        let others: Vec<(String, String)> =
            others.map(|id| (id.to_owned(), known.tenant_item(id).name)).collect();
        let own = file.tenants.iter().map(|(id, section)| {
            (id.clone(), section.name.clone().unwrap_or_else(|| known.tenant_item(id).name))
        });
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        for (id, name) in others.into_iter().chain(own).filter(|(_, name)| !name.is_empty()) {
            if let Some(other) = taken.insert(name.clone(), id.clone()) {
                self.faults.push(format!("{id}: the tenant {other} has the name `{name}` too"));
            }
        }
    }

    fn tenant(&mut self, id: &str, section: &TenantSection, is_owner: bool) {
        if let Err(error) = access::check_tenant_id(id) {
            self.faults.push(format!("{id}: {error}"));
            return;
        }
        let TenantItem { name, enabled } = self.known.tenant_item(id);
        let item = TenantItem {
            name: section.name.clone().unwrap_or(name),
            enabled: section.disabled.map_or(enabled, |disabled| !disabled),
        };
        // A tenant that is there without an item is enabled and has no name: no item need say so.
        let pk = access::pk::tenant(id);
        let is_implied = item == TenantItem::default()
            && self.known.get(&pk).is_none()
            && self.known.check_readable(&pk).is_ok()
            && (is_owner || self.known.of_tenant(id).next().is_some());
        if !is_implied {
            self.put(Entry::Tenant(id.to_owned(), item));
        }
        if let Some(profiles) = &section.profiles {
            let mut kept = BTreeSet::new();
            for (name, value) in profiles {
                let value = profile::without_nulls(value.clone());
                let checked = profile::check_name(name).and_then(|()| profile::check(&value));
                let checked = checked.map_err(|fault| Failure { what: format!("profile `{name}`"), ..fault });
                if self.checked(id, checked).is_some() {
                    self.put(Entry::Profile(id.to_owned(), name.clone(), value));
                }
                kept.insert(access::pk::profile(id, name));
            }
            self.prune(id, Kind::Profile, &kept);
        }
        if let Some(entries) = &section.targets
            && self.checked(id, target::check(entries)).is_some()
        {
            let entry = Entry::Targets(id.to_owned(), TargetsItem { entries: entries.clone() });
            self.list(entry, entries.is_empty());
        }
        if let Some(limits) = &section.limits {
            self.limits(id, section, limits);
        }
        if let Some(budget) = &section.budget {
            let checked = super::budget::check(budget);
            if self.checked(id, checked).is_some() {
                self.put(Entry::Budget(id.to_owned(), budget.clone()));
            }
        }
        if let Some(grants) = &section.grants {
            self.grants(id, grants);
        }
        if let Some(keys) = &section.keys {
            self.keys(id, keys);
        }
    }

    /// Plans to write an entry of the file, if the table's entry is missing or differs.
    fn put(&mut self, entry: Entry) {
        if self.checked(entry.tenant(), self.known.check_readable(&entry.pk())).is_none() {
            return;
        }
        self.plan.first.extend(self.known.put(entry));
    }

    /// Plans to write an allow-list. Without `--prune`, entries of the table that the file lacks
    /// are kept; with it, an empty list (`is_empty`) is removed.
    fn list(&mut self, entry: Entry, is_empty: bool) {
        let held = self.known.get(&entry.pk());
        match (held.map(|held| &held.entry), entry) {
            (Some(Entry::Targets(..)), entry) if self.prune && is_empty => {
                self.prune(entry.tenant(), Kind::Targets, &BTreeSet::new());
            }
            (Some(Entry::Targets(_, before)), Entry::Targets(id, new)) if !self.prune => {
                let mut entries = before.entries.clone();
                entries.extend(new.entries.into_iter().filter(|entry| !before.entries.contains(entry)));
                self.put(Entry::Targets(id, TargetsItem { entries }));
            }
            (None, _) if is_empty => {}
            (_, entry) => self.put(entry),
        }
    }

    /// Plans to write a tenant's limits. Without `--prune`, limits of the table that the file lacks
    /// are kept.
    fn limits(&mut self, id: &str, section: &TenantSection, new: &LimitsItem) {
        let before = if self.prune { LimitsItem::default() } else { self.known.limits(id) };
        let item = limit::merged(before, new.clone());
        if item == LimitsItem::default() {
            return self.prune(id, Kind::Limits, &BTreeSet::new());
        }
        let named = new.targets.keys().try_for_each(|name| profile::check_name(name));
        if self.checked(id, named.and_then(|()| limit::check(&item))).is_none() {
            return;
        }
        let in_file = |name: &str| section.profiles.as_ref().map(|profiles| profiles.contains_key(name));
        let has_profile = |name: &str| match in_file(name) {
            Some(is_kept) if is_kept || self.prune => is_kept,
            _ => self.known.get(&access::pk::profile(id, name)).is_some(),
        };
        let warnings = limit::warnings(id, &item, has_profile);
        self.plan.warnings.extend(warnings);
        self.put(Entry::Limits(id.to_owned(), item));
    }

    fn grants(&mut self, id: &str, grants: &[GrantSection]) {
        match grants {
            [] => self.prune(id, Kind::Grant, &BTreeSet::new()),
            [one] => {
                let checked = establishments(Some(&one.cnpjs)).and_then(|establishments| {
                    grant::checked(id, establishments, one.buckets.iter().cloned())
                });
                if let Some(grant) = self.checked(id, checked) {
                    self.put(Entry::Grant(id.to_owned(), grant));
                }
            }
            _ => self.faults.push(format!("{id}: a tenant has one grant at most")),
        }
    }

    fn keys(&mut self, id: &str, sections: &[KeySection]) {
        let mut claimed: BTreeSet<KeyHash> = BTreeSet::new();
        // Those that name a key of the table have it for certain, and the others what is left.
        let (by_id, by_name): (Vec<_>, Vec<_>) =
            sections.iter().partition(|section| self.with_id(id, section).next().is_some());
        for section in &by_id {
            if self.with_id(id, section).nth(1).is_some() {
                let begin = section.id.as_deref().unwrap_or_default();
                self.faults.push(format!("{id}: the id `{begin}` means more than one key"));
            }
        }
        let mut names = BTreeSet::new();
        for section in &by_name {
            if !names.insert(&section.name) {
                self.faults.push(format!("{id}: the key `{}` is there twice", section.name));
            }
        }
        for section in by_id.into_iter().chain(by_name) {
            let found = self.with_id(id, section).next().or_else(|| self.newest(id, section, &claimed));
            let found = found.map(|(held, hash, item)| (held.clone(), hash, item.clone()));
            let item = self.key(id, section, found.as_ref().map(|(_, _, item)| item));
            let Some(item) = self.checked(id, item) else { continue };
            match found {
                Some((_, hash, _)) if !claimed.insert(hash) => {
                    self.faults.push(format!("{id}: the key {} is there twice", hash.id()));
                }
                Some((held, hash, _)) => {
                    self.plan.last.extend(Change::of(&held, Entry::Key(hash, item)));
                }
                None => self.plan.keys.push(item),
            }
        }
        let kept = claimed.iter().map(access::pk::key).collect();
        self.prune(id, Kind::Key, &kept);
    }

    /// Returns the tenant's API keys whose hashes begin with the id in a key's section of the file.
    fn with_id(
        &self,
        tenant: &str,
        section: &KeySection,
    ) -> impl Iterator<Item = (&StoredEntry, KeyHash, &KeyItem)> {
        let id = section.id.as_deref().unwrap_or_default();
        self.known.keys_with_id(id).filter(move |(.., key)| key.tenant_id == tenant)
    }

    /// Returns the tenant's newest API key with the name in a key's section of the file. Keys in
    /// `claimed` are left out, because other sections describe them.
    fn newest(
        &self,
        tenant: &str,
        section: &KeySection,
        claimed: &BTreeSet<KeyHash>,
    ) -> Option<(&StoredEntry, KeyHash, &KeyItem)> {
        let named = self.known.keys().filter(|(_, hash, key)| {
            key.tenant_id == tenant && key.name == section.name && !claimed.contains(hash)
        });
        named.max_by_key(|(.., key)| key.created_at)
    }

    fn key(&self, tenant: &str, section: &KeySection, before: Option<&KeyItem>) -> Result<KeyItem, Failure> {
        let named = |fault: Failure| {
            let why = fault.why.map(|why| format!(" ({why})")).unwrap_or_default();
            Failure { what: format!("key `{}`: {}{why}", section.name, fault.what), why: None, ..fault }
        };
        let make = || {
            key::check_name(&section.name)?;
            let scopes = key::scopes(&Vec::from_iter(&section.scopes))?;
            let establishments = key::rights(tenant, &scopes, establishments(section.cnpjs.as_ref())?)?;
            Ok(KeyItem {
                tenant_id: tenant.to_owned(),
                name: section.name.clone(),
                scopes,
                establishments,
                created_at: before.map_or(Some(self.now), |key| key.created_at),
                expires_at: section
                    .expires_at
                    .map_or_else(|| before.and_then(|key| key.expires_at), Option::from),
                disabled: section.disabled.unwrap_or_else(|| before.is_some_and(|key| key.disabled)),
            })
        };
        make().map_err(named)
    }

    /// Plans to remove the tenant's entries of a kind whose partition keys are not in `kept`. Does
    /// nothing without `--prune`.
    fn prune(&mut self, tenant: &str, kind: Kind, kept: &BTreeSet<String>) {
        if !self.prune {
            return;
        }
        let known = self.known;
        let gone = known
            .of_tenant(tenant)
            .filter(|held| held.entry.kind() == kind && !kept.contains(&held.entry.pk()));
        self.plan.last.extend(gone.cloned().map(Change::Remove));
    }

    /// Plans the changes of owner that the file's lists of establishments need. With `--prune`, the
    /// tenants of these lists lose the establishments that the lists lack.
    fn owners(&mut self, file: &AccessFile, owners: &Owners) {
        let mut wanted: BTreeMap<String, &str> = BTreeMap::new();
        for (id, section) in &file.tenants {
            let Some(cnpjs) = &section.establishments else { continue };
            if id.parse::<uuid::Uuid>().is_err() && !cnpjs.is_empty() {
                self.faults
                    .push(format!("{id}: the tenant cannot have establishments, because its id is no UUID"));
            }
            let Some(cnpjs) = self.checked(id, key::cnpjs(&Vec::from_iter(cnpjs))) else { continue };
            for cnpj in cnpjs {
                if let Some(other) = wanted.insert(cnpj.clone(), id) {
                    self.faults.push(format!("{id}: the establishment {cnpj} is of {other} too"));
                }
            }
        }
        let present: BTreeMap<&String, &String> =
            owners.iter().flat_map(|(tenant, cnpjs)| cnpjs.iter().map(move |cnpj| (cnpj, tenant))).collect();
        for (cnpj, tenant) in &wanted {
            let change = match present.get(cnpj) {
                Some(owner) if owner == tenant => continue,
                Some(owner) => OwnerChange::Move((*owner).clone(), (*tenant).to_owned()),
                None => OwnerChange::Assign((*tenant).to_owned()),
            };
            self.plan.owners.entry(change).or_default().insert(cnpj.clone());
        }
        if !self.prune {
            return;
        }
        let has_section = |tenant: &String| {
            file.tenants.get(tenant).is_some_and(|section| section.establishments.is_some())
        };
        for (cnpj, tenant) in present {
            if has_section(tenant) && !wanted.contains_key(cnpj) {
                let change = OwnerChange::Release(tenant.clone());
                self.plan.owners.entry(change).or_default().insert(cnpj.clone());
            }
        }
    }
}

fn establishments(cnpjs: Option<&Cnpjs>) -> Result<Option<Establishments>, Failure> {
    match cnpjs {
        None => Ok(None),
        Some(Cnpjs::All) => Ok(Some(Establishments::All)),
        Some(Cnpjs::Only(cnpjs)) => key::cnpjs(&Vec::from_iter(cnpjs)).map(Establishments::Only).map(Some),
    }
}

#[cfg(test)]
mod tests;
