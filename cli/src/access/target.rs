//! `integrahub target`: the tenants' allow-lists of targets that requests may name inline.

use access::TargetsItem;
use mq::InlineTargets;
use serde_json::json;

use super::change::{Change, make};
use super::entry::Entry;
use super::snapshot::Snapshot;
use super::table::Table;
use crate::args::{Target, TenantFilter};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;

const LIST: &str = "integrahub.targets.v1";

/// Runs `integrahub target`.
///
/// # Errors
/// If an entry to add is malformed, an entry to remove is not in the list, or the table cannot be
/// accessed.
pub(crate) async fn run(args: &Target, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    if let Target::Allow { entries, .. } = args {
        check(entries)?;
    }
    let table = Table::of(context).await?;
    let known = table.read().await?;
    match args {
        Target::Allow { tenant, entries, dry } => {
            let id = known.tenant(tenant)?;
            known.check_readable(&access::pk::targets(&id))?;
            let change = allow(&known, &id, entries);
            make(&table, change, *dry, out).await
        }
        Target::List(TenantFilter { tenant }) => list(&known, tenant.as_deref(), out).map(|()| Exit::Done),
        Target::Remove { tenant, entries, all, dry } => {
            let id = known.tenant(tenant)?;
            known.check_readable(&access::pk::targets(&id))?;
            let change = remove(&known, &id, if *all { None } else { Some(entries) })?;
            if *all {
                let question = format!("this removes every entry of the allow-list of {id}");
                dry.confirm(&question, tenant, out)?;
            }
            make(&table, [change], *dry, out).await
        }
    }
}

/// Checks entries of an allow-list with the gateway's own parser.
///
/// # Errors
/// If an entry is malformed. The error names the first such entry.
pub(crate) fn check<T: AsRef<str>>(entries: &[T]) -> Result<(), Failure> {
    InlineTargets::of_one_tenant(entries).map(|_| ()).map_err(|error| {
        Failure::usage("the allow-list cannot be used")
            .why(error.to_string())
            .next("docs/access.md, \"Targets that requests name inline\", has the options")
    })
}

/// Returns the change that adds entries to a tenant's allow-list; `None` if the list has all of
/// them.
fn allow(known: &Snapshot, tenant: &str, new: &[String]) -> Option<Change> {
    let mut all = known.targets(tenant).to_vec();
    for entry in new {
        if !all.contains(entry) {
            all.push(entry.clone());
        }
    }
    known.put(Entry::Targets(tenant.to_owned(), TargetsItem { entries: all }))
}

/// Returns the change that removes the entries `gone` from a tenant's allow-list. If `gone` is
/// `None` or no entry is left, the change removes the item of the list.
///
/// # Errors
/// If the tenant has no allow-list, or an entry to remove is not in it.
fn remove(known: &Snapshot, tenant: &str, gone: Option<&[String]>) -> Result<Change, Failure> {
    let missing = |what: String| Failure::refused(what).next("see them: integrahub target list");
    let pk = access::pk::targets(tenant);
    let held = known.get(&pk).ok_or_else(|| missing(format!("the tenant {tenant} has no allow-list")))?;
    let mut rest = known.targets(tenant).to_vec();
    for entry in gone.unwrap_or_default() {
        if !rest.contains(entry) {
            return Err(missing(format!("the allow-list of {tenant} has no entry `{entry}`")));
        }
        rest.retain(|other| other != entry);
    }
    let entry = Entry::Targets(tenant.to_owned(), TargetsItem { entries: rest.clone() });
    let update = (gone.is_some() && !rest.is_empty()).then(|| Change::of(held, entry)).flatten();
    Ok(update.unwrap_or_else(|| Change::Remove(held.clone())))
}

fn list(known: &Snapshot, tenant: Option<&str>, out: &mut Output) -> Result<(), Failure> {
    let mut items = Vec::new();
    for entry in known.entries(tenant)? {
        let Entry::Targets(of, targets) = entry else { continue };
        items.extend(targets.entries.iter().map(|entry| json!({"tenant": of, "entry": entry})));
    }
    out.members(LIST, "targets", items, &[("tenant", "tenant"), ("entry", "entry")]);
    known.warn(out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::entry::tests::ACME;
    use super::super::snapshot::tests::snapshot;
    use super::*;

    const A: &str = "rabbitmq://a.example.com:5671/ORDERS.*";
    const B: &str = "rabbitmq://b.example.com:5671/ORDERS.*";

    fn own(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|&entry| entry.to_owned()).collect()
    }

    fn known(entries: &[&str]) -> Snapshot {
        snapshot(&[Entry::Targets(ACME.to_owned(), TargetsItem { entries: own(entries) })])
    }

    fn entries_of(change: &Change) -> &[String] {
        match change.entry() {
            Entry::Targets(_, targets) => &targets.entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_entry_is_added_once() {
        let change = allow(&known(&[A]), ACME, &own(&[A, B, B])).unwrap();
        assert_eq!(entries_of(&change), own(&[A, B]));
        assert_eq!(allow(&known(&[A]), ACME, &own(&[A])), None);
        assert!(matches!(allow(&snapshot(&[]), ACME, &own(&[A])), Some(Change::Create(_))));
    }

    #[test]
    fn a_list_without_entries_is_removed() {
        let change = remove(&known(&[A, B]), ACME, Some(&own(&[A]))).unwrap();
        assert_eq!(entries_of(&change), own(&[B]));
        for gone in [Some(own(&[A, B])), None] {
            assert!(matches!(remove(&known(&[A, B]), ACME, gone.as_deref()), Ok(Change::Remove(_))));
        }
        assert!(remove(&known(&[A]), ACME, Some(&own(&[B]))).is_err());
        assert!(remove(&snapshot(&[]), ACME, None).is_err());
    }
}
