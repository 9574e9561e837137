//! Search for the tenant or API key that a user names: by name, by id, or by a prefix of the id.

use access::{KeyHash, KeyItem};
use jiff::Timestamp;

use super::Snapshot;
use crate::access::change::StoredEntry;
use crate::args::KeyName;
use crate::exit::Failure;

/// Minimum number of characters by which the prefix of an id can identify a tenant or key.
const ID_PREFIX: usize = 4;

impl Snapshot {
    /// Returns the id of the tenant that `reference` means: its id, its name, or the first four or
    /// more characters of its id.
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

    /// Finds an API key by its name, or by four or more characters at the beginning of its hash.
    ///
    /// # Errors
    /// If no key or more than one matches `reference`.
    pub(crate) fn key(&self, reference: &KeyName) -> Result<(&StoredEntry, KeyHash, &KeyItem), Failure> {
        one(&reference.key, &self.keys_meant(reference)?)
    }

    /// Finds the API key to rotate by its name, or by the beginning of its hash. Earlier rotations
    /// may have left several keys of one tenant with the same name. Then the newest key that works
    /// is returned, or the newest one if none works.
    ///
    /// # Errors
    /// If no key or more than one matches `reference`.
    pub(crate) fn newest_key(
        &self,
        reference: &KeyName,
        now: Timestamp,
    ) -> Result<(&StoredEntry, KeyHash, &KeyItem), Failure> {
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

    /// Returns the API keys whose hashes begin with `id`. An `id` of fewer than four characters
    /// matches no key.
    pub(crate) fn keys_with_id(&self, id: &str) -> impl Iterator<Item = (&StoredEntry, KeyHash, &KeyItem)> {
        let is_id = id.len() >= ID_PREFIX;
        self.keys().filter(move |(_, hash, _)| is_id && hash.to_string().starts_with(id))
    }

    fn keys_meant(&self, reference: &KeyName) -> Result<Vec<(&StoredEntry, KeyHash, &KeyItem)>, Failure> {
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
}

/// Returns the only key of `found`. `text` is the name or id that the user gave, for the error
/// message.
///
/// # Errors
/// If `found` has no key, or more than one.
fn one<'a>(
    text: &str,
    found: &[(&'a StoredEntry, KeyHash, &'a KeyItem)],
) -> Result<(&'a StoredEntry, KeyHash, &'a KeyItem), Failure> {
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
mod tests {
    use access::{ApiKey, TenantItem};

    use super::*;
    use crate::access::entry::Entry;
    use crate::access::entry::tests::{ACME, key};
    use crate::access::snapshot::tests::{OTHER, of, snapshot};

    fn tenant(id: &str, name: &str) -> Entry {
        Entry::Tenant(id.to_owned(), TenantItem { name: name.to_owned(), enabled: true })
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
}
