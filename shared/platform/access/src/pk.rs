//! Keys of the access table's items.

use crate::api_key::KeyHash;

/// Prefix of the partition keys of target profiles.
pub(crate) const PROFILES: &str = "PROFILE#";
/// Partition key of the rate card's item, which belongs to no tenant.
pub const RATES: &str = "RATES";

/// Partition key of an item of the access table, by the kind of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pk<'a> {
    /// Key of an API key's item, by the hash of the API key.
    Key(KeyHash),
    /// Key of the item with the day on which the API key with this hash was last used.
    Used(KeyHash),
    /// Key of a tenant's item, by the tenant's id.
    Tenant(&'a str),
    /// Key of a target profile's item, by the tenant's id and the profile's name.
    #[expect(missing_docs, reason = "the tenant, and the name that `targetRef` has")]
    Profile { tenant: &'a str, name: &'a str },
    /// Key of the item with a tenant's permission to drop files into S3, by the tenant's id.
    Drops(&'a str),
    /// Key of the item with a tenant's allow-list of inline targets, by the tenant's id.
    Targets(&'a str),
    /// Key of the item with a tenant's rate limits, by the tenant's id.
    Limits(&'a str),
    /// Key of the item with a tenant's budget, by the tenant's id.
    Budget(&'a str),
    /// Key of the item with the amount that a tenant has spent, by the tenant's id.
    Spent(&'a str),
    /// Key of the rate card's item.
    Rates,
}

/// Returns the partition key of an API key's item.
#[must_use]
pub fn key(hash: &KeyHash) -> String {
    format!("KEY#{hash}")
}

/// Returns the partition key of the item with the day on which an API key was last used. The day is
/// not a member of the key's own item, because earlier versions refuse unknown members.
#[must_use]
pub fn used(hash: &KeyHash) -> String {
    format!("USED#{hash}")
}

/// Returns the partition key of a tenant's item.
#[must_use]
pub fn tenant(tenant: &str) -> String {
    format!("TENANT#{tenant}")
}

/// Returns the partition key of a target profile's item. Tenants and profiles have no `#` in their
/// names, so the key is unambiguous.
#[must_use]
pub fn profile(tenant: &str, name: &str) -> String {
    format!("{PROFILES}{tenant}#{name}")
}

/// Returns the partition key of a tenant's grant to drop files.
#[must_use]
pub fn drops(tenant: &str) -> String {
    format!("DROPS#{tenant}")
}

/// Returns the partition key of a tenant's allow-list of inline targets.
#[must_use]
pub fn targets(tenant: &str) -> String {
    format!("TARGETS#{tenant}")
}

/// Returns the partition key of a tenant's rate limits. They are not members of the tenant's own
/// item, because earlier versions refuse unknown members.
#[must_use]
pub fn limits(tenant: &str) -> String {
    format!("LIMITS#{tenant}")
}

/// Returns the partition key of a tenant's budget.
#[must_use]
pub fn budget(tenant: &str) -> String {
    format!("BUDGET#{tenant}")
}

/// Returns the partition key of the item with the amount that a tenant has spent.
#[must_use]
pub fn spent(tenant: &str) -> String {
    format!("SPENT#{tenant}")
}

/// Parses a partition key of the access table; `None` if it belongs to no known kind of item.
#[must_use]
pub fn parse(pk: &str) -> Option<Pk<'_>> {
    if pk == RATES {
        return Some(Pk::Rates);
    }
    let (kind, rest) = pk.split_once('#')?;
    match kind {
        "KEY" => rest.parse().ok().map(Pk::Key),
        "USED" => rest.parse().ok().map(Pk::Used),
        "PROFILE" => {
            let (tenant, name) = rest.split_once('#')?;
            let is_one = !tenant.is_empty() && !name.is_empty() && !name.contains('#');
            is_one.then_some(Pk::Profile { tenant, name })
        }
        _ if rest.is_empty() || rest.contains('#') => None,
        "TENANT" => Some(Pk::Tenant(rest)),
        "DROPS" => Some(Pk::Drops(rest)),
        "TARGETS" => Some(Pk::Targets(rest)),
        "LIMITS" => Some(Pk::Limits(rest)),
        "BUDGET" => Some(Pk::Budget(rest)),
        "SPENT" => Some(Pk::Spent(rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_key::ApiKey;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let hash = ApiKey::from("k").hash();
        assert_eq!(parse(&key(&hash)), Some(Pk::Key(hash)));
        assert_eq!(parse(&used(&hash)), Some(Pk::Used(hash)));
        assert_eq!(parse(&tenant("acme")), Some(Pk::Tenant("acme")));
        assert_eq!(parse(&profile("acme", "orders")), Some(Pk::Profile { tenant: "acme", name: "orders" }));
        assert_eq!(parse(&drops("acme")), Some(Pk::Drops("acme")));
        assert_eq!(parse(&targets("acme")), Some(Pk::Targets("acme")));
        assert_eq!(parse(&limits("acme")), Some(Pk::Limits("acme")));
        assert_eq!(parse(&budget("acme")), Some(Pk::Budget("acme")));
        assert_eq!(parse(&spent("acme")), Some(Pk::Spent("acme")));
        assert_eq!(parse(RATES), Some(Pk::Rates));
        for other in [
            "",
            "KEY#",
            "KEY#12",
            "USED#12",
            "PROFILE#acme",
            "PROFILE#acme#",
            "TENANT#",
            "PROBE#",
            "RATES#",
            "acme",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn no_profile_is_of_two_tenants() {
        assert_eq!(parse("PROFILE#acme#eu#orders"), None);
        assert_eq!(parse("DROPS#acme#eu"), None);
    }
}
