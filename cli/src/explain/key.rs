//! Rules of `integrahub explain` about the API key: its state, its tenant and its scopes.

use access::{ApiKey, KeyHash, KeyItem, Principal, Scope, TenantItem, pk};
use jiff::Timestamp;
use secrecy::ExposeSecret as _;

use super::rule::Rule;
use crate::access::Snapshot;
use crate::args::{Explain, KeyName};
use crate::context::Context;
use crate::exit::Failure;

/// Finds the API key of the command line or the context in the access table, and adds the result to
/// `rules`. Returns `None` if the key's checksum is wrong, or its item is missing or invalid.
pub(super) fn find<'a>(
    args: &Explain,
    context: &Context,
    known: &'a Snapshot,
    rules: &mut Vec<Rule>,
) -> Result<Option<(KeyHash, &'a KeyItem)>, Failure> {
    const NAME: &str = "key";
    let found = |hash: KeyHash, item: &KeyItem| {
        let (name, id, tenant) = (&item.name, hash.id(), &item.tenant_id);
        Rule::holds(NAME, format!("the access table has it as `{name}` ({id}) of {tenant}"))
    };
    if let Some(key) = &args.key {
        let (_, hash, item) = known.key(&KeyName { key: key.clone(), tenant: args.tenant.clone() })?;
        rules.push(found(hash, item));
        return Ok(Some((hash, item)));
    }
    let key = context.api_key.as_ref().ok_or_else(|| {
        Failure::usage("the command names no API key")
            .next("add --key NAME with a name or an id, or --api-key-file FILE")
    })?;
    let key = ApiKey::from(key.expose_secret());
    let hash = key.hash();
    if key.is_damaged() {
        rules.push(Rule::broken(NAME, "it was not copied completely: its checksum is wrong"));
        return Ok(None);
    }
    let item = known.keys().find(|(_, other, _)| *other == hash).map(|(.., item)| item);
    rules.push(match (item, known.fault(&pk::key(&hash))) {
        (Some(item), _) => found(hash, item),
        (None, Some(fault)) => Rule::broken(NAME, format!("its item cannot be used: {fault}")),
        (None, None) => Rule::broken(NAME, format!("the access table has no key {}", hash.id())),
    });
    Ok(item.map(|item| (hash, item)))
}

/// Checks the three rules about an API key and returns the results: whether the key is enabled and
/// not expired, whether its tenant is enabled, and whether the key has one of `scopes`.
pub(super) fn decide(
    known: &Snapshot,
    hash: &KeyHash,
    item: &KeyItem,
    scopes: &[Scope],
    now: Timestamp,
) -> Vec<Rule> {
    let tenant = &item.tenant_id;
    let state = match (item.refusal(&TenantItem::default(), now), item.expires_at) {
        (Some(refusal), _) => Rule::broken("state", refusal.to_string()),
        (None, Some(end)) => Rule::holds("state", format!("it is enabled, and works until {end:.0}")),
        (None, None) => Rule::holds("state", "it is enabled, and does not expire"),
    };
    let fresh = KeyItem { disabled: false, expires_at: None, ..item.clone() };
    let of_tenant = match (known.fault(&pk::tenant(tenant)), fresh.refusal(&known.tenant_item(tenant), now)) {
        (Some(fault), _) => Rule::broken("tenant", format!("its item cannot be used: {fault}")),
        (None, Some(refusal)) => Rule::broken("tenant", refusal.to_string()),
        (None, None) => Rule::holds("tenant", format!("{tenant} is enabled")),
    };
    let own: Vec<Scope> = item.scopes.iter().filter_map(|name| name.parse().ok()).collect();
    let names = own.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
    let names = if names.is_empty() { "no scope".to_owned() } else { names };
    let scope = match Principal::new(tenant.as_str(), own).require_any(scopes) {
        Ok(()) => Rule::holds("scope", format!("the key {} has {names}", hash.id())),
        Err(problem) => Rule::broken("scope", format!("{}; it has {names}", problem.detail)),
    };
    vec![state, of_tenant, scope]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Entry;
    use crate::access::examples::{ACME, key, snapshot};
    use crate::explain::rule::broken;

    fn now() -> Timestamp {
        "2026-11-27T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_key_needs_its_state_its_tenant_and_its_scope() {
        let hash = ApiKey::from("k").hash();
        let works = KeyItem { disabled: false, ..key("orders", &["mq:read"]) };
        let known = snapshot(&[Entry::Key(hash, works.clone())]);
        let asked = |item: &KeyItem, scope| broken(&decide(&known, &hash, item, &[scope], now()));
        assert!(asked(&works, Scope::MqRead).is_empty());
        assert_eq!(asked(&works, Scope::MqWrite), ["scope"]);
        assert_eq!(asked(&KeyItem { disabled: true, ..works.clone() }, Scope::MqWrite), ["state", "scope"]);
        let ended = KeyItem { expires_at: Some(now()), ..works.clone() };
        assert_eq!(asked(&ended, Scope::MqRead), ["state"]);
        let closed = TenantItem { name: String::new(), enabled: false };
        let known = snapshot(&[Entry::Tenant(ACME.to_owned(), closed)]);
        assert_eq!(broken(&decide(&known, &hash, &works, &[Scope::MqRead], now())), ["tenant"]);
    }
}
