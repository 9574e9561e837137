use serde_json::json;

use super::*;

const TENANT: &str = "11111111-1111-4111-8111-111111111111";

#[expect(clippy::needless_pass_by_value, reason = "the tests write members where they are used")]
fn key(members: Value) -> Result<KeyItem, ItemError> {
    let mut item = json!({"tenantId": TENANT});
    item.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    KeyItem::read(item)
}

fn only(cnpjs: &[&str]) -> Establishments {
    Establishments::Only(cnpjs.iter().map(|&cnpj| cnpj.to_owned()).collect())
}

#[test]
fn a_key_about_products_says_which_establishments_it_is_about() {
    let some = json!({"scopes": ["products:read"], "cnpjs": ["11222333000181"]});
    assert_eq!(key(some).unwrap().establishments, only(&["11222333000181"]));
    let none = json!({"scopes": ["products:write"], "cnpjs": []});
    assert_eq!(key(none).unwrap().establishments, only(&[]));
    let all = json!({"scopes": ["products:write", "mq:read"], "allCnpjs": true});
    assert_eq!(key(all).unwrap().establishments, Establishments::All);
    for unclear in [
        json!({"scopes": ["products:read"]}),
        json!({"scopes": ["products:write"], "allCnpjs": false}),
        json!({"scopes": ["products:later"]}),
        json!({"scopes": ["products:read"], "cnpjs": ["11222333000181"], "allCnpjs": true}),
    ] {
        assert!(key(unclear.clone()).is_err(), "{unclear}");
    }
}

#[test]
fn a_key_about_something_else_is_about_no_establishment() {
    assert_eq!(key(json!({"scopes": ["mq:read"]})).unwrap().establishments, only(&[]));
    assert_eq!(key(json!({})).unwrap().scopes, BTreeSet::new());
}

#[test]
fn a_grant_says_which_establishments_it_is_about() {
    let some = DropGrant::read(json!({"cnpjs": ["11222333000181"]})).unwrap();
    assert_eq!((some.establishments, some.buckets), (only(&["11222333000181"]), BTreeSet::new()));
    let elsewhere = DropGrant::read(json!({"allCnpjs": true, "buckets": ["partner-files"]})).unwrap();
    assert_eq!(elsewhere.establishments, Establishments::All);
    assert_eq!(elsewhere.buckets, BTreeSet::from(["partner-files".to_owned()]));
    for unclear in [
        json!({}),
        json!({"allCnpjs": false}),
        json!({"allCnpjs": true, "cnpjs": ["11222333000181"]}),
        json!({"allCnpjs": true, "cnpj": ["11222333000181"]}),
    ] {
        assert!(DropGrant::read(unclear.clone()).is_err(), "{unclear}");
    }
}

#[test]
fn an_error_repeats_no_value_of_the_item() {
    for members in [
        json!({"name": ["hunter2"]}),
        json!({"scopes": "hunter2"}),
        json!({"allCnpjs": "hunter2"}),
        json!({"expiresAt": "hunter2"}),
        json!({"tenantId": "hunter2#"}),
        json!({"version": "hunter2"}),
    ] {
        let error = key(members).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn a_misspelt_member_makes_no_wider_key() {
    for member in ["cnpj", "CNPJs", "allcnpjs", "scope", "ttl", "expires", "enabled"] {
        let item = json!({"scopes": ["products:write"], "allCnpjs": true, member: ["11222333000181"]});
        let refused = key(item).unwrap_err();
        let ItemError::Form(refused) = refused else { panic!("{refused}") };
        assert_eq!(refused.to_string(), format!("/{member}: the member is not known"));
    }
    assert!(TenantItem::read(json!({"disabled": true})).is_err());
    assert!(TargetsItem::read(json!({"entry": []})).is_err());
}

#[test]
fn a_tenant_s_id_is_part_of_no_other_tenant_s_items() {
    for refused in ["", "acme#eu", "acme\n", &"t".repeat(129)] {
        assert_eq!(key(json!({"tenantId": refused})), Err(ItemError::TenantId), "{refused}");
    }
    let uuid = "aaaaaaaa-1111-4111-8111-111111111111";
    for spelling in
        [uuid.to_uppercase(), uuid.replace('-', ""), format!("{{{uuid}}}"), format!("urn:uuid:{uuid}")]
    {
        assert_eq!(key(json!({"tenantId": spelling})), Err(ItemError::TenantId), "{spelling}");
    }
    for fine in ["acme", uuid, TENANT, "caf\u{e9} 2", &"t".repeat(128)] {
        assert_eq!(key(json!({"tenantId": fine})).unwrap().tenant_id, fine);
    }
}

#[test]
fn an_allow_list_has_a_longest() {
    let list = |count: usize| TargetsItem::read(json!({"entries": vec!["rabbitmq://h:1/*"; count]}));
    assert!(list(MOST_ENTRIES).is_ok());
    assert_eq!(list(MOST_ENTRIES + 1), Err(ItemError::Entries));
}

#[test]
fn a_newer_item_is_refused_by_its_version_before_its_members() {
    let newer = json!({"version": 2, "shape": "unknown"});
    assert_eq!(TenantItem::read(newer.clone()), Err(ItemError::Newer));
    assert_eq!(key(newer), Err(ItemError::Newer));
    assert_eq!(key(json!({"version": 0})), Err(ItemError::Newer));
    assert_eq!(TenantItem::read(json!({"version": 1})), Ok(TenantItem::default()));
    assert!(TenantItem::default().enabled, "a tenant without an item works");
}

#[test]
fn a_key_works_until_it_is_disabled_or_expires_or_its_tenant_is_disabled() {
    let now: Timestamp = "2026-11-25T12:00:00Z".parse().unwrap();
    let tenant = TenantItem::default();
    let refusal = |members, tenant: &TenantItem| key(members).unwrap().refusal(tenant, now);
    assert_eq!(refusal(json!({}), &tenant), None);
    assert_eq!(refusal(json!({"expiresAt": "2026-11-25T12:00:01Z"}), &tenant), None);
    for end in ["2026-11-25T12:00:00Z", "2020-01-01T00:00:00-03:00"] {
        assert_eq!(refusal(json!({"expiresAt": end}), &tenant), Some(KeyRefusal::Expired), "{end}");
    }
    assert_eq!(refusal(json!({"disabled": true}), &tenant), Some(KeyRefusal::Disabled));
    let disabled = TenantItem { enabled: false, ..tenant };
    assert_eq!(refusal(json!({}), &disabled), Some(KeyRefusal::TenantDisabled));
}

#[test]
fn items_are_read_as_they_are_written() {
    let written = KeyItem {
        tenant_id: TENANT.to_owned(),
        name: "orders service".to_owned(),
        scopes: BTreeSet::from(["mq:read".to_owned()]),
        establishments: only(&[]),
        created_at: Some("2026-11-25T12:00:00Z".parse().unwrap()),
        expires_at: Some("2027-11-25T12:00:00Z".parse().unwrap()),
        disabled: true,
    };
    let item = serde_json::to_value(&written).unwrap();
    let members = json!({"tenantId": TENANT, "name": "orders service", "scopes": ["mq:read"],
        "createdAt": "2026-11-25T12:00:00Z", "expiresAt": "2027-11-25T12:00:00Z", "disabled": true});
    assert_eq!(item, members);
    assert_eq!(KeyItem::read(item.clone()), Ok(written.clone()));
    assert_eq!(serde_json::from_value::<KeyItem>(item).unwrap(), written);
    for establishments in [only(&[]), only(&["11222333000181"]), Establishments::All] {
        let scopes = BTreeSet::from(["products:read".to_owned()]);
        let key = KeyItem { scopes, establishments: establishments.clone(), ..written.clone() };
        assert_eq!(KeyItem::read(serde_json::to_value(&key).unwrap()), Ok(key));
        let grant = DropGrant { establishments, buckets: BTreeSet::from(["files".to_owned()]) };
        assert_eq!(DropGrant::read(serde_json::to_value(&grant).unwrap()), Ok(grant));
    }
    let targets = TargetsItem { entries: vec!["rabbitmq://h:1/Q".to_owned()] };
    assert_eq!(TargetsItem::read(serde_json::to_value(&targets).unwrap()), Ok(targets));
    let tenant = TenantItem { name: "Acme".to_owned(), enabled: false };
    assert_eq!(TenantItem::read(serde_json::to_value(&tenant).unwrap()), Ok(tenant));
}
