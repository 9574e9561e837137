//! `integrahub tenant`: creates, shows, renames, enables, disables and removes tenants.

use access::TenantItem;
use serde_json::{Value, json};
use uuid::Uuid;

use super::change::{Change, StoredEntry, apply, make, show as show_changes};
use super::entry::{Entry, Kind};
use super::snapshot::Snapshot;
use super::table::Table;
use crate::args::{DryRun, Edit, Tenant, TenantName};
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::output::{Format, Output};

const LIST: &str = "integrahub.tenants.v1";
const ONE: &str = "integrahub.tenant.v1";

/// Runs `integrahub tenant`.
///
/// # Errors
/// If the tenant does not exist, the change contradicts the table's entries, or the table cannot be
/// accessed.
pub(crate) async fn run(args: &Tenant, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let table = Table::of(context).await?;
    let known = table.read().await?;
    match args {
        Tenant::Create { name, id, dry } => {
            let entry = create(&known, name, id.as_deref())?;
            let id = entry.tenant().to_owned();
            let exit = make(&table, [Change::Create(entry)], *dry, out).await?;
            if !dry.dry_run && out.format() == Format::Text {
                out.line(&id);
            }
            Ok(exit)
        }
        Tenant::List => {
            list(&known, out);
            Ok(Exit::Done)
        }
        Tenant::Show(TenantName { tenant }) => {
            show(&known, &known.tenant(tenant)?, out);
            Ok(Exit::Done)
        }
        Tenant::Change { tenant, name, dry } => {
            check_name(&known, name)?;
            let name = name.clone();
            update(&table, &known, tenant, *dry, out, |item| TenantItem { name, ..item }).await
        }
        Tenant::Enable(Edit { of: TenantName { tenant }, dry }) => {
            update(&table, &known, tenant, *dry, out, |item| TenantItem { enabled: true, ..item }).await
        }
        Tenant::Disable(Edit { of: TenantName { tenant }, dry }) => {
            update(&table, &known, tenant, *dry, out, |item| TenantItem { enabled: false, ..item }).await
        }
        Tenant::Remove { tenant, cascade, dry } => {
            let id = known.tenant(tenant)?;
            let changes = removal(&known, &id, *cascade)?;
            known.warn(out);
            let name = Some(known.tenant_item(&id).name).filter(|name| !name.is_empty());
            let question = format!("this removes the tenant {id} and {} entries", changes.len());
            dry.confirm(&question, &name.unwrap_or_else(|| id.clone()), out)?;
            if dry.dry_run {
                show_changes(&changes, true, out);
            } else {
                remove(&table, &known, &id, *cascade, out).await?;
            }
            out.note(&format!("establishments stay assigned: integrahub cnpj list --tenant {id}"));
            Ok(Exit::Done)
        }
    }
}

/// Returns the entry of a new tenant, which is enabled. Without `id`, its id is a new UUID. Fails
/// if the name or the id is invalid or taken.
fn create(known: &Snapshot, name: &str, id: Option<&str>) -> Result<Entry, Failure> {
    check_name(known, name)?;
    let id = id.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned);
    access::check_tenant_id(&id).or_explain(|| format!("use the id `{id}`"))?;
    if known.get(&access::pk::tenant(&id)).is_some() {
        return Err(Failure::refused(format!("there is a tenant {id} already"))
            .next(format!("change it: integrahub tenant change {id} --name NAME")));
    }
    Ok(Entry::Tenant(id, TenantItem { name: name.to_owned(), enabled: true }))
}

/// Refuses a tenant name that is empty, not a single line, or the name or id of another tenant.
fn check_name(known: &Snapshot, name: &str) -> Result<(), Failure> {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(Failure::usage("a tenant's name is one line that is not empty"));
    }
    let taken = known.tenants().into_iter().find(|id| *id == name || known.tenant_item(id).name == name);
    taken.map_or(Ok(()), |id| {
        Err(Failure::refused(format!("the tenant {id} has the name `{name}`")).next("choose another name"))
    })
}

/// Replaces the item of the tenant that `reference` names by what `change` makes of it, or in a dry
/// run prints the change. A tenant with keys or other entries, but without an item, gets one.
async fn update(
    table: &Table,
    known: &Snapshot,
    reference: &str,
    dry: DryRun,
    out: &mut Output,
    change: impl FnOnce(TenantItem) -> TenantItem,
) -> Result<Exit, Failure> {
    let id = known.tenant(reference)?;
    known.check_readable(&access::pk::tenant(&id))?;
    let item = change(known.tenant_item(&id));
    make(table, known.put(Entry::Tenant(id, item)), dry, out).await
}

/// Removes a tenant and everything that belongs to it. Fails if the tenant has keys or other
/// entries and `cascade` is false. The tenant is disabled first and removed last, so a key that is
/// created meanwhile does not work, and the next read of the table finds it.
async fn remove(
    table: &Table,
    known: &Snapshot,
    id: &str,
    cascade: bool,
    out: &mut Output,
) -> Result<(), Failure> {
    let disabled = TenantItem { enabled: false, ..known.tenant_item(id) };
    let disabled = known.put(Entry::Tenant(id.to_owned(), disabled));
    apply(table, &Vec::from_iter(disabled), out).await?;
    let mut made = Vec::new();
    loop {
        let changes = removal(&table.read().await?, id, cascade)?;
        let (last, rest): (Vec<Change>, Vec<Change>) =
            changes.into_iter().partition(|change| change.entry().kind() == Kind::Tenant);
        let is_last = rest.is_empty();
        let next = if is_last { last } else { rest };
        apply(table, &next, out).await?;
        made.extend(next);
        if is_last {
            break;
        }
    }
    if out.format() != Format::Text {
        show_changes(&made, false, out);
    }
    Ok(())
}

/// Returns the changes that remove a tenant with everything that belongs to it. Fails if the tenant
/// has keys or other entries and `cascade` is false. Keys are removed first and the tenant last: if
/// the removal stops in the middle, no key works.
fn removal(known: &Snapshot, id: &str, cascade: bool) -> Result<Vec<Change>, Failure> {
    let mut held: Vec<&StoredEntry> = known.of_tenant(id).collect();
    let rest = held.iter().filter(|held| held.entry.kind() != Kind::Tenant);
    let rest: Vec<String> = rest.map(|held| held.entry.title()).collect();
    if !cascade && !rest.is_empty() {
        return Err(Failure::refused(format!("the tenant {id} still has keys or other entries"))
            .why(rest.join(", "))
            .next("remove them first, or all at once with --cascade"));
    }
    held.sort_by_key(|held| match held.entry.kind() {
        Kind::Key => 0,
        Kind::Tenant => 2,
        _ => 1,
    });
    Ok(held.into_iter().cloned().map(Change::Remove).collect())
}

fn list(known: &Snapshot, out: &mut Output) {
    let count = |id: &str, kind: Kind| known.of_tenant(id).filter(|held| held.entry.kind() == kind).count();
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for id in known.tenants() {
        let item = known.tenant_item(id);
        let (keys, profiles) = (count(id, Kind::Key), count(id, Kind::Profile));
        let state = if item.enabled { "enabled" } else { "disabled" };
        rows.push(vec![
            id.to_owned(),
            item.name.clone(),
            state.to_owned(),
            keys.to_string(),
            profiles.to_string(),
        ]);
        items.push(
            json!({"id": id, "name": item.name, "enabled": item.enabled, "keys": keys, "profiles": profiles}),
        );
    }
    out.list(LIST, "tenants", items, &["id", "name", "state", "keys", "profiles"], rows);
    known.warn(out);
}

fn show(known: &Snapshot, id: &str, out: &mut Output) {
    let item = known.tenant_item(id);
    let documents = |kind: Kind| -> Vec<Value> {
        let held = known.of_tenant(id).filter(|held| held.entry.kind() == kind);
        held.map(|held| held.entry.document()).collect()
    };
    let value = json!({
        "id": id,
        "name": item.name,
        "enabled": item.enabled,
        "keys": documents(Kind::Key),
        "profiles": documents(Kind::Profile),
        "targets": documents(Kind::Targets),
        "grants": documents(Kind::Grant),
        "limits": documents(Kind::Limits),
        "budget": documents(Kind::Budget),
    });
    if out.format() != Format::Text {
        return out.json(ONE, &value);
    }
    let state = if item.enabled { "enabled" } else { "disabled" };
    out.thing(ONE, &value, &[("id", id.to_owned()), ("name", item.name), ("state", state.to_owned())]);
    for held in known.of_tenant(id).filter(|held| held.entry.kind() != Kind::Tenant) {
        out.line(&held.entry.title());
    }
}

#[cfg(test)]
mod tests {
    use access::{ApiKey, TargetsItem};

    use super::super::entry::tests::{ACME, key, profile};
    use super::super::snapshot::tests::snapshot;
    use super::*;

    fn acme() -> Entry {
        Entry::Tenant(ACME.to_owned(), TenantItem { name: "Acme".to_owned(), enabled: true })
    }

    #[test]
    fn a_new_tenant_has_a_uuid_and_a_name_of_its_own() {
        let known = snapshot(&[acme()]);
        let entry = create(&known, "Farmácia Central", None).unwrap();
        assert!(entry.tenant().parse::<Uuid>().is_ok());
        for name in ["Acme", ACME, "", " ", "a\nb"] {
            assert!(create(&known, name, None).is_err(), "{name}");
        }
        assert!(create(&known, "Other", Some(ACME)).is_err());
        assert!(create(&known, "Other", Some("a#b")).is_err());
        assert_eq!(create(&known, "Other", Some("acme")).unwrap().tenant(), "acme");
    }

    #[test]
    fn a_tenant_without_an_item_gets_one_to_be_disabled() {
        let disabled = TenantItem { name: String::new(), enabled: false };
        let known = snapshot(&[Entry::Key(ApiKey::from("k").hash(), key("orders", &["mq:read"]))]);
        let created = known.put(Entry::Tenant(ACME.to_owned(), disabled.clone()));
        assert_eq!(created, Some(Change::Create(Entry::Tenant(ACME.to_owned(), disabled.clone()))));
        let known = snapshot(&[acme()]);
        let updated =
            known.put(Entry::Tenant(ACME.to_owned(), TenantItem { name: "Acme".to_owned(), ..disabled }));
        assert!(matches!(updated, Some(Change::Update(..))), "{updated:?}");
        assert_eq!(known.put(Entry::Tenant(ACME.to_owned(), known.tenant_item(ACME))), None);
    }

    #[test]
    fn a_tenant_with_keys_is_removed_only_with_them_and_after_them() {
        let entries = [
            acme(),
            Entry::Targets(ACME.to_owned(), TargetsItem::default()),
            Entry::Profile(ACME.to_owned(), "orders".to_owned(), profile()),
            Entry::Key(ApiKey::from("k").hash(), key("orders", &["mq:read"])),
        ];
        let known = snapshot(&entries);
        let refused = removal(&known, ACME, false).unwrap_err();
        assert!(refused.why.unwrap().contains("key `orders`"));
        let kinds: Vec<Kind> =
            removal(&known, ACME, true).unwrap().iter().map(|change| change.entry().kind()).collect();
        assert_eq!(kinds.first(), Some(&Kind::Key));
        assert_eq!(kinds.last(), Some(&Kind::Tenant));
        assert_eq!(kinds.len(), 4);
        assert_eq!(removal(&snapshot(&[acme()]), ACME, false).unwrap().len(), 1);
    }
}
