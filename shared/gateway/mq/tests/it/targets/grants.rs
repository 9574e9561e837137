//! Tests of the targets and secrets that a request may name.

use mq::{InlineTargets, Target, TargetError, TargetSpec};
use serde_json::json;

use super::{EVERYTHING, TENANT, allow, is_refused, orders, over_orders, profile, spec};

#[test]
fn an_inline_target_needs_an_entry_that_covers_broker_host_port_and_queue() {
    let target = |broker: &str, conn_name: &str, queue: &str| {
        let spec =
            spec(json!({"broker": broker, "connName": conn_name, "queue": queue, "queueManager": "Q"}));
        Target::resolve(None, Some(&spec), allow("rabbitmq://*.mq.example.com:5671/ORDERS.*").of(TENANT))
    };
    assert!(target("rabbitmq", "a.mq.example.com:5671", "ORDERS.NEW").is_ok());
    assert!(target("rabbitmq", "A.MQ.Example.COM(5671)", "ORDERS.NEW").is_ok());
    for (broker, conn_name, queue) in [
        ("ibmmq", "a.mq.example.com:5671", "ORDERS.NEW"),
        ("rabbitmq", "mq.example.com:5671", "ORDERS.NEW"),
        ("rabbitmq", "a.mq.example.com.evil.org:5671", "ORDERS.NEW"),
        ("rabbitmq", "a.mq.example.com:5672", "ORDERS.NEW"),
        ("rabbitmq", "a.mq.example.com:5671", "ORDERS"),
        ("rabbitmq", "a.mq.example.com:5671,evil.org:5671", "ORDERS.NEW"),
    ] {
        assert!(is_refused(&target(broker, conn_name, queue)), "{broker} {conn_name} {queue}");
    }
}

#[test]
fn entries_are_separated_by_spaces_or_semicolons() {
    let inline = json!({"broker": "rabbitmq", "connName": "b:5672", "queue": "Q", "queueManager": "/"});
    for entries in [
        "rabbitmq://a:5672/* rabbitmq://b:5672/*",
        "rabbitmq://a:5672/*;rabbitmq://b:5672/*",
        " rabbitmq://a:5672/*; \n rabbitmq://b:5672/*;",
    ] {
        assert!(
            Target::resolve(None, Some(&spec(inline.clone())), allow(entries).of(TENANT)).is_ok(),
            "{entries:?}"
        );
    }
    assert!("rabbitmq://a:5672/*,rabbitmq://b:5672/*;x".parse::<InlineTargets>().is_err());
}

#[test]
fn an_empty_allow_list_allows_profiles_only() {
    let inline = json!({"broker": "rabbitmq", "connName": "localhost:5672", "queue": "Q"});
    assert!(is_refused(&Target::resolve(None, Some(&spec(inline)), allow("").of(TENANT))));
    assert!(Target::resolve(Some(&orders()), None, allow("").of(TENANT)).is_ok());
}

#[test]
fn a_profile_may_be_used_for_the_queues_that_it_covers() {
    assert!(over_orders(json!({"queue": "ORDERS.NEW"}), "").is_ok());
    assert!(over_orders(json!({"queue": "ORDERS"}), "").is_ok());
    assert!(is_refused(&over_orders(json!({"queue": "PAYMENTS"}), "")));
    assert!(over_orders(json!({"queue": "PAYMENTS"}), EVERYTHING).is_ok());
}

#[test]
fn a_profiles_credentials_go_to_no_other_host() {
    for conn_name in ["evil.org:5671", "mq.example.com:5671,evil.org:5671", "mq.example.com:5672"] {
        let result = over_orders(json!({"connName": conn_name}), EVERYTHING);
        assert!(is_refused(&result), "{conn_name}");
        let own_password =
            json!({"connName": conn_name, "auth": {"user": "me", "passwordRef": "secret://mine"}});
        assert!(is_refused(&over_orders(own_password, EVERYTHING)), "the client certificate stays too");
    }
    assert!(over_orders(json!({"connName": "mq2.example.com:5671"}), EVERYTHING).is_ok());
}

#[test]
fn what_a_request_changes_in_a_profile_has_to_be_allowed() {
    for inline in [
        json!({"queueManager": "other"}),
        json!({"broker": "ibmmq", "queueManager": "QM"}),
        json!({"channel": "C"}),
        json!({"auth": {"user": "other"}}),
        json!({"connName": "mq2.example.com:5671"}),
    ] {
        assert!(is_refused(&over_orders(inline.clone(), "")), "{inline}");
        assert!(over_orders(inline.clone(), EVERYTHING).is_ok(), "{inline}");
    }
}

#[test]
fn a_profile_may_take_nothing_but_its_places_from_a_request() {
    let base = |overrides: bool| {
        profile(json!({
            "target": {"broker": "rabbitmq", "connName": "b:5672", "queue": "OWN"},
            "queues": ["OWN.*"], "exchanges": ["orders"], "routingKeys": ["new"], "overrides": overrides,
        }))
    };
    let is_ok = |overrides: bool, inline: &serde_json::Value| {
        let inline = spec(inline.clone());
        Target::resolve(Some(&base(overrides)), Some(&inline), allow(EVERYTHING).of(TENANT)).is_ok()
    };
    for place in [json!({}), json!({"queue": "OWN.1"}), json!({"exchange": "orders", "routingKey": "new"})] {
        assert!(is_ok(false, &place) && is_ok(true, &place), "{place}");
    }
    for more in [
        json!({"queue": "OTHER"}),
        json!({"connName": "c:5672"}),
        json!({"queueManager": "other"}),
        json!({"auth": {"user": "me"}}),
        json!({"ssl": {"enabled": true}}),
        // The same as the profile's, which may change.
        json!({"connName": "b:5672"}),
    ] {
        assert!(is_ok(true, &more), "{more}");
        assert!(!is_ok(false, &more), "{more}");
    }
    assert!(!is_ok(false, &json!({"exchange": "orders", "routingKey": "old"})));
    assert!(profile(json!({"target": {}})).overrides && mq::Profile::default().overrides);
}

#[test]
fn a_tenant_s_own_list_holds_beside_the_deployment_s() {
    let target = |host: &str| spec(json!({"broker": "rabbitmq", "connName": host, "queue": "Q"}));
    let deployment = allow("rabbitmq://a:5672/*?tenant=1111");
    let own = InlineTargets::of_one_tenant(&["rabbitmq://b:5672/*", "rabbitmq://c:5672/*"]).unwrap();
    let is_ok = |host: &str, tenant: &str| {
        Target::resolve(None, Some(&target(host)), deployment.of(tenant).and(&own)).is_ok()
    };
    assert!(is_ok("a:5672", "1111") && is_ok("b:5672", "1111") && is_ok("a:5672,c:5672", "1111"));
    assert!(!is_ok("a:5672", "2222") && is_ok("c:5672", "2222") && !is_ok("d:5672", "1111"));
    assert!(is_refused(&Target::resolve(None, Some(&target("b:5672")), deployment.of("1111"))));
    let granted = InlineTargets::of_one_tenant(&["rabbitmq://b:5672/*?secrets=secret://b/*&tls=optional"]);
    let mut named = target("b:5672");
    named.auth = serde_json::from_value(json!({"user": "u", "passwordRef": "secret://b/app"})).unwrap();
    let none = InlineTargets::default();
    let allowed = none.of(TENANT).and(granted.as_ref().unwrap());
    assert!(Target::resolve(None, Some(&named), allowed).is_ok());
    for malformed in [
        "rabbitmq://b:5672/*?tenant=1111",
        "rabbitmq://b:5672/*?tenant=*",
        "rabbitmq://b:5672/* rabbitmq://c:5672/*",
        "rabbitmq://b:5672/*;",
        "ibmmq://b:1414/*",
        "",
    ] {
        assert!(InlineTargets::of_one_tenant(&[malformed]).is_err(), "{malformed}");
    }
}

#[test]
fn a_profiles_tls_cannot_be_weakened() {
    for ssl in [
        json!({"enabled": false}),
        json!({"trustStoreRef": "secret://other"}),
        json!({"keyStoreRef": "secret://other"}),
        json!({"cipherSpec": "NULL"}),
    ] {
        assert!(is_refused(&over_orders(json!({"ssl": ssl}), EVERYTHING)), "{ssl}");
    }
    assert!(over_orders(json!({"ssl": {"enabled": true}}), "").is_ok());
}

#[test]
fn a_secret_goes_only_where_an_entry_grants_it() {
    let allowed = allow(
        "rabbitmq://a:5672/* rabbitmq://b:5672/Q?tls=optional&secrets=secret://b/*,ssm://shared&tenant=*",
    );
    let resolve = |conn_name: &str, queue: &str, secret: &str| {
        let inline = json!({
            "broker": "rabbitmq", "connName": conn_name, "queue": queue,
            "auth": {"user": "u", "passwordRef": secret},
        });
        Target::resolve(None, Some(&spec(inline)), allowed.of(TENANT))
    };
    assert!(resolve("b:5672", "Q", "secret://b/app").is_ok());
    assert!(resolve("b:5672", "Q", "ssm://shared").is_ok());
    for (conn_name, queue, secret) in [
        ("a:5672", "Q", "secret://b/app"),
        ("a:5672,b:5672", "Q", "secret://b/app"),
        ("b:5672", "Q", "secret://orders/password"),
        ("b:5672", "Q", "ssm://b/app"),
    ] {
        let result = resolve(conn_name, queue, secret);
        assert!(matches!(result, Err(TargetError::SecretNotAllowed(_))), "{conn_name} {queue} {secret}");
    }
}

/// Returns a target at the host `b` whose member `member`, such as `auth.passwordRef`, refers to
/// `secret`.
fn with_secret(member: &str, secret: &str) -> TargetSpec {
    let mut target = json!({
        "broker": "rabbitmq", "connName": "b:5672", "queue": "Q", "ssl": {"enabled": true}, "auth": {"user": "u"},
    });
    let (object, name) = member.split_once('.').unwrap();
    target[object][name] = json!(secret);
    spec(target)
}

const SECRETS: [&str; 3] = ["auth.passwordRef", "ssl.keyStoreRef", "ssl.trustStoreRef"];

#[test]
fn every_place_that_names_a_secret_needs_its_grant() {
    let allowed = allow("rabbitmq://b:5672/*?tenant=*&secrets=secret://b/*");
    for member in SECRETS {
        let resolve = |secret| Target::resolve(None, Some(&with_secret(member, secret)), allowed.of(TENANT));
        assert!(resolve("secret://b/app").is_ok(), "{member}");
        assert!(matches!(resolve("secret://orders/app"), Err(TargetError::SecretNotAllowed(_))), "{member}");
    }
}

#[test]
fn a_grant_is_for_the_queues_of_its_entry_only() {
    let allowed = allow("rabbitmq://b:5672/GRANTED?tenant=*&secrets=secret://b/* rabbitmq://b:5672/*");
    for member in SECRETS {
        let mut target = with_secret(member, "secret://b/app");
        let refused = Target::resolve(None, Some(&target), allowed.of(TENANT));
        assert!(matches!(refused, Err(TargetError::SecretNotAllowed(_))), "{member}");
        target.queue = Some("GRANTED".to_owned().try_into().unwrap());
        assert!(Target::resolve(None, Some(&target), allowed.of(TENANT)).is_ok(), "{member}");
    }
}

#[test]
fn an_entry_holds_for_its_tenants_and_virtual_hosts_only() {
    let entry = "rabbitmq://b:5672/*?vhost=/,orders-*&tenant=1111,2222&secrets=secret://b/*&tls=optional";
    let resolve = |tenant: &str, virtual_host: &str, secret: Option<&str>| {
        let target = json!({
            "broker": "rabbitmq", "connName": "b:5672", "queue": "Q", "queueManager": virtual_host,
            "auth": {"user": "u", "passwordRef": secret},
        });
        Target::resolve(None, Some(&spec(target)), allow(entry).of(tenant))
    };
    for secret in [None, Some("secret://b/app")] {
        assert!(resolve("1111", "/", secret).is_ok() && resolve("2222", "orders-eu", secret).is_ok());
        for (tenant, virtual_host) in
            [("3333", "/"), ("111", "/"), ("", "/"), ("*", "/"), ("1111", "payments")]
        {
            assert!(is_refused(&resolve(tenant, virtual_host, secret)), "{tenant} {virtual_host}");
        }
    }
}

#[test]
fn a_granted_secret_goes_out_over_tls_unless_the_entry_says_otherwise() {
    let resolve = |tls_of_entry: &str, is_encrypted: bool, secret: Option<&str>| {
        let entry = format!("rabbitmq://b:5672/*?tenant=*&secrets=secret://b/*{tls_of_entry}");
        let target = json!({
            "broker": "rabbitmq", "connName": "b:5672", "queue": "Q", "ssl": {"enabled": is_encrypted},
            "auth": {"user": "u", "passwordRef": secret},
        });
        Target::resolve(None, Some(&spec(target)), allow(&entry).of(TENANT)).is_ok()
    };
    let secret = Some("secret://b/app");
    for tls in ["", "&tls=required", "&tls=optional"] {
        assert!(resolve(tls, true, secret) && resolve(tls, true, None), "{tls}");
    }
    assert!(!resolve("", false, secret) && resolve("", false, None));
    assert!(!resolve("&tls=required", false, secret) && !resolve("&tls=required", false, None));
    assert!(resolve("&tls=optional", false, secret));
}

#[test]
fn a_target_without_addresses_is_covered_by_no_entry() {
    let base = json!({
        "target": {"broker": "rabbitmq", "queueManager": "Q", "queue": "OWN", "ccdtUrl": "file:///ccdt.json"},
    });
    let base = profile(base);
    assert!(Target::resolve(Some(&base), None, allow("").of(TENANT)).is_ok());
    for inline in [
        json!({"queue": "OTHER"}),
        json!({"auth": {"user": "u", "passwordRef": "secret://b/app"}}),
        json!({"queueManager": "R"}),
    ] {
        for entries in ["", EVERYTHING] {
            let result = Target::resolve(Some(&base), Some(&spec(inline.clone())), allow(entries).of(TENANT));
            assert!(is_refused(&result), "{inline} {entries}");
        }
    }
}
