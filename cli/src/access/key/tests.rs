//! Tests of the commands for API keys: the rights of new keys, names, rotation and changes.

use access::TenantItem;

use super::super::entry::tests::ACME;
use super::super::snapshot::tests::snapshot;
use super::*;

const CNPJ: &str = "11222333000181";

fn now() -> Timestamp {
    "2026-11-27T10:00:00Z".parse().unwrap()
}

fn known() -> Snapshot {
    let tenant = |id: &str, name: &str| {
        Entry::Tenant(id.to_owned(), TenantItem { name: name.to_owned(), enabled: true })
    };
    snapshot(&[tenant(ACME, "Acme"), tenant("legacy", "Legacy")])
}

fn args(tenant: &str, scopes: &[&str], cnpjs: &[&str], all_cnpjs: bool) -> KeyCreate {
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    KeyCreate {
        tenant: tenant.to_owned(),
        name: "orders".to_owned(),
        scopes: own(scopes),
        establishments: args::Establishments { cnpjs: own(cnpjs), all_cnpjs },
        expires: None,
        dry: DryRun::default(),
    }
}

fn made(tenant: &str, scopes: &[&str], cnpjs: &[&str], all_cnpjs: bool) -> Result<KeyItem, Failure> {
    new_item(&known(), &args(tenant, scopes, cnpjs, all_cnpjs), now())
}

#[test]
fn a_new_key_has_the_rights_that_it_was_given() {
    let key = made("Acme", &["mq:read", "products:read"], &["11.222.333/0001-81"], false).unwrap();
    assert_eq!(key.tenant_id, ACME);
    assert_eq!(key.establishments, Establishments::Only([CNPJ.to_owned()].into()));
    assert_eq!(key.created_at.unwrap().to_string(), "2026-11-27T10:00:00Z");
    let key = made("legacy", &["mq:read"], &[], false).unwrap();
    assert_eq!(key.establishments, Establishments::Only(BTreeSet::new()));
}

#[test]
fn a_key_that_contradicts_itself_is_refused() {
    let what = |made: Result<KeyItem, Failure>| made.unwrap_err().what;
    assert!(what(made("Acme", &["mq:read"], &[], true)).contains("no scope products:"));
    assert!(what(made("legacy", &["products:read"], &[], true)).contains("cannot have"));
    assert!(what(made("Acme", &["products:read"], &["11222333000180"], false)).contains("no CNPJ"));
    let past = KeyCreate { expires: Some("2020-01-01".to_owned()), ..args("Acme", &["mq:read"], &[], false) };
    assert!(new_item(&known(), &past, now()).is_err());
}

#[test]
fn a_name_is_one_line_and_looks_like_no_token() {
    for name in ["", " ", "a\nb", "token:till"] {
        assert_eq!(check_name(name).unwrap_err().exit, Exit::Usage, "{name}");
    }
    assert_eq!(check_name("till token: 1"), Ok(()));
}

#[test]
fn two_keys_of_one_name_come_from_a_rotation_only() {
    let key = made("Acme", &["mq:read"], &[], false).unwrap();
    let known = snapshot(&[Entry::Key(ApiKey::from("k").hash(), key)]);
    let refused = new_item(&known, &args(ACME, &["mq:read"], &[], false), now()).unwrap_err();
    assert!(refused.next.unwrap().contains("key rotate orders"));
}

#[test]
fn a_rotation_leaves_the_old_key_for_a_while() {
    let mut old = made("Acme", &["mq:read"], &[], false).unwrap();
    let end: Timestamp = "2026-12-04T10:00:00Z".parse().unwrap();
    let (new, kept) = rotated(&old, end, now()).unwrap();
    assert_eq!((kept.expires_at, new.expires_at), (Some(end), None));
    assert_eq!((new.name.as_str(), &new.scopes), ("orders", &old.scopes));
    // One that was made for 90 days is followed by one for 90 days.
    old.created_at = Some("2026-10-01T00:00:00Z".parse().unwrap());
    old.expires_at = Some("2026-12-01T00:00:00Z".parse().unwrap());
    let (new, kept) = rotated(&old, end, now()).unwrap();
    assert_eq!(kept.expires_at, old.expires_at, "never later than before");
    assert_eq!(new.expires_at.unwrap().to_string(), "2027-01-27T10:00:00Z");
    old.disabled = true;
    assert!(rotated(&old, end, now()).is_err());
}

#[test]
fn a_change_keeps_what_is_not_named() {
    let key = made("Acme", &["products:read"], &[CNPJ], false).unwrap();
    let change = |scopes: &[&str], cnpjs: &[&str], expires: Option<&str>| KeyChange {
        key: KeyName { key: "orders".to_owned(), tenant: None },
        name: None,
        scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
        establishments: args::Establishments {
            cnpjs: cnpjs.iter().map(|&cnpj| cnpj.to_owned()).collect(),
            all_cnpjs: false,
        },
        expires: expires.map(str::to_owned),
        dry: DryRun::default(),
    };
    let longer = changed(&key, &change(&[], &[], Some("90d")), now()).unwrap();
    assert_eq!((&longer.scopes, &longer.establishments), (&key.scopes, &key.establishments));
    let other = changed(&key, &change(&["mq:read"], &[], None), now()).unwrap();
    assert_eq!(other.establishments, Establishments::Only(BTreeSet::new()));
    let back = changed(&other, &change(&["products:read"], &[], None), now());
    assert!(back.unwrap_err().what.contains("which establishments"));
}

#[test]
fn people_see_times_in_whole_seconds() {
    assert_eq!(seconds("2026-11-27T10:00:00.123456789Z".parse().unwrap()), "2026-11-27T10:00:00Z");
}
