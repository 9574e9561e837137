//! Tests of the comparison of access files with the access table.

use access::{ApiKey, DropGrant};

use super::super::entry::tests::{ACME, limits, profile};
use super::super::snapshot::tests::{OTHER, snapshot};
use super::*;

const CNPJ: &str = "11222333000181";

fn now() -> Timestamp {
    "2026-11-27T10:00:00Z".parse().unwrap()
}

fn stored_key(secret: &str, name: &str, created: &str) -> Entry {
    let item = KeyItem {
        tenant_id: ACME.to_owned(),
        name: name.to_owned(),
        scopes: ["mq:read".to_owned()].into(),
        establishments: Establishments::Only(BTreeSet::new()),
        created_at: Some(created.parse().unwrap()),
        expires_at: None,
        disabled: false,
    };
    Entry::Key(ApiKey::from(secret).hash(), item)
}

fn known() -> Snapshot {
    snapshot(&[
        Entry::Tenant(ACME.to_owned(), TenantItem { name: "Acme".to_owned(), enabled: true }),
        stored_key("a", "orders", "2026-11-01T00:00:00Z"),
        Entry::Profile(ACME.to_owned(), "orders".to_owned(), profile()),
        Entry::Targets(
            ACME.to_owned(),
            TargetsItem { entries: vec!["rabbitmq://a.example.com:1/*".to_owned()] },
        ),
        Entry::Grant(
            ACME.to_owned(),
            DropGrant { establishments: Establishments::All, buckets: BTreeSet::new() },
        ),
        Entry::Limits(ACME.to_owned(), limits()),
    ])
}

fn file(text: &str) -> AccessFile {
    serde_norway::from_str(&format!("version: 1\ntenants:\n{text}")).unwrap()
}

fn planned(text: &str, prune: bool) -> Result<Plan, Failure> {
    plan(&file(text), &known(), &Owners::new(), prune, now())
}

#[test]
fn what_export_writes_changes_nothing() {
    let owners = Owners::from([(ACME.to_owned(), BTreeSet::from([CNPJ.to_owned()]))]);
    let file = AccessFile::of(&known(), None, Some(&owners));
    for prune in [false, true] {
        let plan = plan(&file, &known(), &owners, prune, now()).unwrap();
        assert_eq!(plan.lines(), Vec::<String>::new());
        assert_eq!(plan.len(), 0);
    }
}

#[test]
fn a_tenant_without_an_item_gets_none_from_what_export_writes() {
    let known = snapshot(&[Entry::Profile(ACME.to_owned(), "orders".to_owned(), profile())]);
    let owners = Owners::from([(OTHER.to_owned(), BTreeSet::from([CNPJ.to_owned()]))]);
    let exported = AccessFile::of(&known, None, Some(&owners));
    assert_eq!(plan(&exported, &known, &owners, true, now()).unwrap().lines(), Vec::<String>::new());
    let elsewhere = plan(&exported, &snapshot(&[]), &Owners::new(), false, now()).unwrap().lines();
    for tenant in [ACME, OTHER] {
        assert!(elsewhere.contains(&format!("+ tenant {tenant}")), "{elsewhere:?}");
    }
}

#[test]
fn a_section_that_is_absent_says_nothing() {
    assert_eq!(planned(&format!("  {ACME}: {{name: Acme}}"), true).unwrap().len(), 0);
}

#[test]
fn what_only_the_table_has_is_removed_only_if_that_was_asked_for() {
    let text =
        format!("  {ACME}: {{name: Acme, keys: [], profiles: {{}}, targets: [], grants: [], limits: {{}}}}");
    assert_eq!(planned(&text, false).unwrap().len(), 0);
    let plan = planned(&text, true).unwrap();
    assert!(plan.lines().iter().all(|line| line.starts_with("- ")), "{:?}", plan.lines());
    assert_eq!(plan.len(), 5);
}

#[test]
fn keys_come_after_what_they_use() {
    let text = format!(
        "  {OTHER}:\n    name: Other\n    keys: [{{name: till, scopes: ['products:write'], cnpjs: all}}]\n    \
         profiles: {{stock: {{target: {{broker: rabbitmq, connName: 'mq.example.com:5671', queue: A}}}}}}\n    \
         establishments: ['{CNPJ}']\n"
    );
    let plan = planned(&text, false).unwrap();
    let lines = plan.lines();
    assert_eq!(lines[0], format!("+ tenant {OTHER} `Other`"));
    assert!(lines.contains(&format!("+ key `till` of {OTHER}")), "{lines:?}");
    assert!(lines.contains(&format!("+ establishment {CNPJ} of {OTHER}")), "{lines:?}");
    assert_eq!((plan.first.len(), plan.keys.len(), plan.owners.len(), plan.last.len()), (2, 1, 1, 0));
    assert_eq!(plan.keys[0].created_at, Some(now()));
}

#[test]
fn a_key_is_found_by_its_id_or_its_name() {
    let id = ApiKey::from("a").hash().id();
    for named in [
        format!("id: {id}, name: renamed"),
        "name: orders".to_owned(),
        "id: ffffffff, name: orders".to_owned(),
    ] {
        let text = format!("  {ACME}: {{name: Acme, keys: [{{{named}, scopes: ['mq:write']}}]}}");
        let plan = planned(&text, true).unwrap();
        assert!(plan.keys.is_empty(), "{named}");
        let [Change::Update(held, Entry::Key(hash, _))] = plan.last.as_slice() else { panic!("{plan:?}") };
        assert_eq!((held.entry.name(), *hash), ("orders", ApiKey::from("a").hash()));
    }
}

#[test]
fn an_id_means_one_key_as_it_does_on_the_command_line() {
    let mut known = known();
    // Their ids begin with d71f.
    for (secret, name) in [("k21", "stock"), ("k1990", "till")] {
        known.add(stored_key(secret, name, "2026-11-20T00:00:00Z").attributes().unwrap());
    }
    let planned = |id: &str| {
        let file = file(&format!("  {ACME}: {{keys: [{{id: {id}, name: new, scopes: ['mq:read']}}]}}"));
        plan(&file, &known, &Owners::new(), false, now())
    };
    assert_eq!(planned("d71f2").unwrap().last.len(), 1);
    assert_eq!(planned("d71").unwrap().keys.len(), 1, "it is too short, so the name counts");
    assert!(planned("d71f").unwrap_err().why.unwrap().contains("`d71f` means more than one key"));
}

#[test]
fn of_two_keys_of_one_name_the_newer_one_is_meant() {
    let mut known = known();
    known.add(stored_key("b", "orders", "2026-11-20T00:00:00Z").attributes().unwrap());
    let file = file(&format!("  {ACME}: {{name: Acme, keys: [{{name: orders, scopes: ['mq:write']}}]}}"));
    let plan = plan(&file, &known, &Owners::new(), false, now()).unwrap();
    let [Change::Update(_, Entry::Key(hash, _))] = plan.last.as_slice() else { panic!("{plan:?}") };
    assert_eq!(*hash, ApiKey::from("b").hash());
}

#[test]
fn entries_of_the_allow_list_that_only_the_table_has_stay_or_go() {
    let text = format!("  {ACME}: {{name: Acme, targets: ['rabbitmq://b.example.com:1/*']}}");
    let lines = planned(&text, false).unwrap().lines();
    assert_eq!(lines[1..], ["    + rabbitmq://b.example.com:1/*"]);
    let lines = planned(&text, true).unwrap().lines();
    assert_eq!(lines[1..], ["    - rabbitmq://a.example.com:1/*", "    + rabbitmq://b.example.com:1/*"]);
}

#[test]
fn limits_are_merged_unless_the_rest_is_pruned() {
    let text = format!("  {ACME}: {{limits: {{targets: {{stock: {{bytes: {{perSecond: 10}}}}}}}}}}");
    let plan = planned(&text, false).unwrap();
    assert_eq!(plan.lines()[1..], ["    + target `stock` bytes: 10/10"]);
    assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
    assert!(plan.warnings[0].contains("no profile `stock`"), "{:?}", plan.warnings);
    let pruned = planned(&text, true).unwrap().lines();
    assert!(pruned.contains(&"    - requests: 100/200".to_owned()), "{pruned:?}");
}

#[test]
fn a_limit_of_a_profile_that_the_run_removes_is_a_warning() {
    let text = format!(
        "  {ACME}: {{profiles: {{}}, limits: {{targets: {{orders: {{bytes: {{perSecond: 10}}}}}}}}}}"
    );
    assert_eq!(planned(&text, false).unwrap().warnings, Vec::<String>::new());
    let warnings = planned(&text, true).unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("no profile `orders`"), "{warnings:?}");
}

#[test]
fn an_item_that_cannot_be_read_is_not_written() {
    let mut known = known();
    let mut wrong = Entry::Limits(OTHER.to_owned(), limits()).attributes().unwrap();
    wrong.insert("odd".to_owned(), wrong["pk"].clone());
    known.add(wrong);
    let file = file(&format!("  {OTHER}: {{limits: {{requests: {{perSecond: 10}}}}}}"));
    let refused = plan(&file, &known, &Owners::new(), false, now()).unwrap_err().why.unwrap();
    assert!(refused.contains("cannot be read"), "{refused}");
}

#[test]
fn establishments_move_between_tenants_of_the_file() {
    let owners =
        Owners::from([(ACME.to_owned(), BTreeSet::from([CNPJ.to_owned(), "05927228000145".to_owned()]))]);
    let file = file(&format!(
        "  {ACME}: {{name: Acme, establishments: []}}\n  {OTHER}: {{name: Other, establishments: ['{CNPJ}']}}"
    ));
    let moved = plan(&file, &known(), &owners, false, now()).unwrap();
    let changes: Vec<&OwnerChange> = moved.owners.keys().collect();
    assert_eq!(changes, [&OwnerChange::Move(ACME.to_owned(), OTHER.to_owned())]);
    let pruned = plan(&file, &known(), &owners, true, now()).unwrap();
    assert!(pruned.lines().contains(&format!("- establishment 05927228000145 of {ACME}")));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let text = format!(
        "  {ACME}: {{name: Other, keys: [{{name: a, scopes: ['mq:raed']}}, {{name: b, scopes: ['products:read']}}], \
         targets: [here], profiles: {{x: {{target: {{}}}}}}, \
         limits: {{targets: {{'x#y': {{requests: {{perSecond: 1}}}}}}}}, establishments: ['{CNPJ}']}}\n  \
         {OTHER}: {{name: Other, establishments: ['{CNPJ}', '1'], grants: [{{cnpjs: all, buckets: [B]}}]}}\n  \
         'a#b': {{name: x}}\n  legacy: {{name: y, establishments: ['{CNPJ}']}}"
    );
    let faults = planned(&text, false).unwrap_err().why.unwrap();
    for fault in [
        "has the name `Other` too",
        "no scope `mq:raed`",
        "key `b`: a key with a scope products:*",
        "`here` is not",
        "profile `x`",
        "`x#y` cannot be the name of a profile",
        "is of 1111",
        "`1` is no CNPJ",
        "`B` is no name",
        "a#b: a tenant's id",
        "legacy: the tenant cannot have establishments",
    ] {
        assert!(faults.contains(fault), "{fault} in\n{faults}");
    }
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let text = format!(
        "  {OTHER}: {{name: Other, keys: [{{name: a, scopes: ['mq:read']}}, {{name: a, scopes: ['mq:write']}}]}}"
    );
    assert!(planned(&text, false).unwrap_err().why.unwrap().contains("is there twice"));
}

#[test]
fn what_is_absent_stays_as_it_is() {
    let expiry: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
    let Entry::Key(hash, item) = stored_key("a", "orders", "2026-11-01T00:00:00Z") else { panic!() };
    let known = snapshot(&[
        Entry::Tenant(ACME.to_owned(), TenantItem { name: "Acme".to_owned(), enabled: false }),
        Entry::Key(hash, KeyItem { disabled: true, expires_at: Some(expiry), ..item }),
    ]);
    let planned = |text: &str| plan(&file(text), &known, &Owners::new(), false, now()).unwrap();
    let silent = planned(&format!("  {ACME}: {{keys: [{{name: orders, scopes: ['mq:read']}}]}}"));
    assert_eq!(silent.lines(), Vec::<String>::new());
    let said = planned(&format!(
        "  {ACME}: {{name: New, disabled: false, keys: [{{name: orders, scopes: ['mq:read'], disabled: false, \
         expiresAt: never}}]}}"
    ));
    let tenant = Entry::Tenant(ACME.to_owned(), TenantItem { name: "New".to_owned(), enabled: true });
    assert_eq!(said.first[0].entry(), &tenant);
    let Entry::Key(_, key) = said.last[0].entry() else { panic!("{said:?}") };
    assert_eq!((key.disabled, key.expires_at), (false, None));
}
