//! Tests of the targets that a caller may use, and of how they are resolved.

mod exchanges;
mod grants;
mod judgement;
mod key_repositories;
mod queue_managers;
mod reach;
mod special_addresses;

use mq::{Address, ConnName, InlineTargets, Profile, Target, TargetError, TargetSpec, Tls};
use proptest::prelude::*;
use serde_json::{Value, json};

fn spec(value: Value) -> TargetSpec {
    serde_json::from_value(value).unwrap()
}

fn profile(value: Value) -> Profile {
    serde_json::from_value(value).unwrap()
}

fn allow(entries: &str) -> InlineTargets {
    entries.parse().unwrap()
}

/// Returns a profile of the queue `ORDERS` with credentials and TLS.
fn orders() -> Profile {
    profile(json!({
        "target": {
            "broker": "rabbitmq", "connName": "mq.example.com:5671,mq2.example.com:5671", "queue": "ORDERS",
            "ssl": {"enabled": true, "keyStoreRef": "secret://orders/key", "trustStoreRef": "ssm://ca"},
            "auth": {"user": "app", "passwordRef": "secret://orders/password"},
        },
        "queues": ["ORDERS.*"],
    }))
}

fn over_orders(inline: Value, allowed: &str) -> Result<Target, TargetError> {
    Target::resolve(Some(&orders()), Some(&spec(inline)), allow(allowed).of(TENANT))
}

fn is_refused(result: &Result<Target, TargetError>) -> bool {
    matches!(result, Err(TargetError::NotAllowed(_) | TargetError::SecretNotAllowed(_)))
}

const TENANT: &str = "11111111-1111-4111-8111-111111111111";
const EVERYTHING: &str = "rabbitmq://**:*/*?tenant=*&tls=optional&secrets=* \
                          ibmmq://**:*/*?tenant=*&tls=optional&secrets=*&channel=*&login=none";

#[test]
fn no_request_names_a_channel_table() {
    let inline = spec(json!({"ccdtUrl": "http://127.0.0.1/ccdt.json"}));
    for profile in [None, Some(orders())] {
        let result = Target::resolve(profile.as_ref(), Some(&inline), allow(EVERYTHING).of(TENANT));
        assert!(matches!(result, Err(TargetError::Invalid { pointer: "/target/ccdtUrl", .. })), "{result:?}");
    }
}

#[test]
fn a_profile_with_unknown_members_is_refused() {
    let misspelt = json!({"target": {"connName": "b:5672"}, "queue": ["*"]});
    assert!(serde_json::from_value::<Profile>(misspelt).is_err());
}

#[test]
fn a_target_that_is_incomplete_names_the_member() {
    let pointer = |profile: Option<Value>, inline: Value| {
        let profile = profile.map(self::profile);
        match Target::resolve(profile.as_ref(), Some(&spec(inline)), allow(EVERYTHING).of(TENANT)) {
            Err(TargetError::Invalid { pointer, .. }) => pointer,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(pointer(None, json!({"connName": "h:1"})), "/target/queueManager");
    assert_eq!(pointer(None, json!({"broker": "rabbitmq"})), "/target/connName");
    assert_eq!(pointer(None, json!({"broker": "rabbitmq", "ccdtUrl": "file:///x"})), "/target/ccdtUrl");
}

#[test]
fn a_fault_of_the_profile_is_not_the_requests() {
    let fault = |base: Value, inline: Value| {
        let base = profile(json!({ "target": base }));
        match Target::resolve(Some(&base), Some(&spec(inline)), allow(EVERYTHING).of(TENANT)) {
            Err(TargetError::Profile(detail)) => detail,
            Err(TargetError::Invalid { pointer, .. }) => pointer.to_owned(),
            other => panic!("{other:?}"),
        }
    };
    let both = json!({"queueManager": "Q", "connName": "h:1", "ccdtUrl": "file:///x"});
    assert_eq!(fault(both, json!({"queue": "R"})), "names both connName and ccdtUrl");
    let long = json!({"queueManager": "M".repeat(49), "connName": "h:1", "queue": "Q"});
    // As the client reads it, this takes two more characters.
    let addresses = format!("{}:1,{}:1", "a".repeat(130), "b".repeat(129));
    assert_eq!(addresses.len(), 264);
    let full = json!({"queueManager": "M", "connName": addresses, "queue": "Q"});
    assert!(fault(full, json!({})).contains("parentheses"));
    let rule = "must be at most 48 letters, digits and ./_% for ibmmq";
    assert_eq!(fault(long.clone(), json!({})), format!("has a queueManager that {rule}"));
    assert_eq!(fault(long, json!({"queueManager": "N".repeat(49)})), "/target/queueManager");
    let fine = json!({"queueManager": "M", "connName": "h:1"});
    assert_eq!(fault(fine, json!({"queue": "Q".repeat(49)})), "/target/queue");
}

#[test]
fn inline_members_win_and_defaults_come_last() {
    let target = over_orders(json!({"queue": "ORDERS.NEW", "ssl": {"enabled": true}}), "").unwrap();
    assert_eq!(target.to_string(), "/:ORDERS.NEW");
    assert_eq!(target.endpoint.user.as_deref(), Some("app"));
    assert!(matches!(&target.endpoint.tls, Tls::On { key_store_ref: Some(_), trust_store_ref: Some(_), .. }));
    let plain = json!({"queueManager": "QM1", "connName": "h(1414)", "queue": "Q"});
    let target = Target::resolve(None, Some(&spec(plain)), allow(EVERYTHING).of(TENANT)).unwrap();
    assert_eq!((target.to_string().as_str(), target.endpoint.broker.as_str()), ("QM1:Q", "ibmmq"));
    assert_eq!(target.endpoint.tls, Tls::Off);
}

#[test]
fn allow_list_entries_are_read_with_their_wildcards() {
    let target = |conn_name: &str, queue: &str| {
        spec(json!({"broker": "rabbitmq", "connName": conn_name, "queue": queue}))
    };
    let is_ok = |entries: &str, conn_name: &str, queue: &str| {
        Target::resolve(None, Some(&target(conn_name, queue)), allow(entries).of(TENANT)).is_ok()
    };
    assert!(is_ok("rabbitmq://mq?.example.com:5672/ORDERS.?", "mq1.example.com:5672", "ORDERS.1"));
    assert!(!is_ok("rabbitmq://mq?.example.com:5672/ORDERS.?", "mq1.example.com:5672", "ORDERS.10"));
    assert!(is_ok("rabbitmq://[::1]:*/*", "[::1]:5672", "a/b"));
    assert!(is_ok("rabbitmq://10.0.0.0/8:5672/a/*", "10.1.2.3:5672", "a/b"));
    assert!(!is_ok("rabbitmq://10.0.0.0/8:5672/*", "11.1.2.3:5672", "a"));
    assert!(!is_ok("rabbitmq://10.0.0.0/8:5672/*", "10.1.2.3:5673", "a"));
    assert!(is_ok("rabbitmq://[fd00::/8]:5672/*?vhost=/", "[fd00::1]:5672", "a"));
    assert!(is_ok("  ibmmq://x:1/y?channel=*\n rabbitmq://h:5672/a/b ", "h:5672", "a/b"));
    for malformed in [
        "rabbitmq",
        "kafka://h:1/q",
        "rabbitmq://h/q",
        "rabbitmq://h:x/q",
        "rabbitmq://h:1",
        "rabbitmq://h:1/",
        "rabbitmq://:1/q",
        "rabbitmq://h:99999/q",
        "rabbitmq://h:1/q?secret=x",
        "rabbitmq://10.0.*:1/q",
        "rabbitmq://h:1/q?secrets=secret://x",
        "rabbitmq://h:1/q?tenant=a&tenant=b",
        "rabbitmq://h:1/q?tenant=",
        "rabbitmq://h:1/q?tenant=a*",
        "rabbitmq://h:1/q?tenant=*&tls=on",
        "rabbitmq://h:1/q?tenant=*&secrets",
        "rabbitmq://h:1/q?vhost=a,,b",
        "rabbitmq://h:1/?vhost=a",
        "rabbitmq://h:1/q?exchanges=",
        "rabbitmq://h:1/q?routingKeys=a",
        "rabbitmq://h:1/q?channel=A",
        "rabbitmq://h:1/q?login=none",
        "ibmmq://h:1/q",
        "ibmmq://h:1/q?login=none",
        "ibmmq://h:1/q?channel=A&login=some",
        "rabbitmq://10.0.0.0/q",
        "rabbitmq://10.0.0.0/8/q",
        "rabbitmq://10.0.0.0/33:1/q",
        "rabbitmq://10.0.0.1/8:1/q",
        "rabbitmq://[fd00::/8:1/q",
        "rabbitmq://[fd00::/8]/q",
    ] {
        assert!(malformed.parse::<InlineTargets>().is_err(), "{malformed}");
    }
}

fn address() -> impl Strategy<Value = Address> {
    let host = prop_oneof!["[a-z0-9][a-z0-9.-]{0,40}", Just("::1".to_owned()), Just("fe80::1".to_owned())];
    (host, 1_u16..).prop_map(|(host, port)| Address { host, port })
}

proptest! {
    #[test]
    fn an_address_is_read_back_as_it_is_shown(address in address()) {
        prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address.clone());
        let ibm = Address::in_ibm_form(std::slice::from_ref(&address)).to_uppercase();
        prop_assert_eq!(ibm.parse::<Address>().unwrap(), address);
    }

    #[test]
    fn a_list_of_addresses_keeps_its_order(different in prop::collection::hash_set(address(), 1..5)) {
        let addresses = different.into_iter().collect::<Vec<_>>();
        let text = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" , ");
        let parsed = ConnName::try_from(text).unwrap();
        prop_assert_eq!(parsed.addresses(), addresses.as_slice());
    }

    #[test]
    fn no_text_makes_the_parsing_fail_badly(text in ".{0,80}") {
        if let Ok(address) = text.parse::<Address>() {
            prop_assert!(address.port > 0 && !address.host.is_empty());
            prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
        }
        let _ = text.parse::<InlineTargets>();
    }

    #[test]
    fn options_mean_the_same_in_any_order(
        options in Just(["tenant=1111", "vhost=/", "tls=required", "secrets=secret://b/*"]).prop_shuffle(),
    ) {
        let expected = "rabbitmq://b:5672/Q.?x?tenant=1111&vhost=/&tls=required&secrets=secret://b/*";
        let entry = format!("rabbitmq://b:5672/Q.?x?{}", options.join("&"));
        prop_assert_eq!(allow(&entry), allow(expected));
    }

    #[test]
    fn without_an_allow_list_nothing_but_the_profile_is_reached(
        conn_name in prop::option::of(address()),
        queue in prop::option::of("[A-Z.]{1,12}"),
        user in prop::option::of("[a-z]{1,5}"),
        password in prop::option::of("(secret|ssm)://[a-z/]{1,9}"),
        enabled in prop::option::of(any::<bool>()),
    ) {
        let inline = spec(json!({
            "connName": conn_name.map(|address| address.to_string()), "queue": queue,
            "auth": {"user": user, "passwordRef": password}, "ssl": {"enabled": enabled},
        }));
        let profile = orders();
        if let Ok(target) = Target::resolve(Some(&profile), Some(&inline), allow("").of(TENANT)) {
            let plain = Target::resolve(Some(&profile), None, allow("").of(TENANT)).unwrap();
            prop_assert_eq!(target.endpoint, plain.endpoint);
            prop_assert!(target.queue.is_some_and(|queue| queue.as_str().starts_with("ORDERS")));
        }
    }
}

#[test]
fn a_target_names_at_most_sixteen_addresses_and_none_twice() {
    let names = |number: usize| (0..number).map(|index| format!("h{index}:1")).collect::<Vec<_>>().join(",");
    let read = |text: String| ConnName::try_from(text).map(|name| name.addresses().len());
    assert_eq!(read(names(16)), Ok(16));
    assert!(read(names(17)).is_err());
    for twice in ["h:1,h:1", "h:1, H(1)", "[::1]:1,::1(1)"] {
        assert!(read(twice.to_owned()).unwrap_err().contains("more than once"), "{twice}");
    }
    assert!(read("https://user:password@h:1".to_owned()).unwrap_err().len() < 60, "it repeats nothing");
}

#[test]
fn names_are_as_long_as_their_broker_allows() {
    let pointer = |broker: &str, member: &str, value: &str| {
        let mut target = json!({"broker": broker, "connName": "h:1", "queueManager": "QM1", "queue": "Q"});
        target[member] = json!(value);
        match Target::resolve(None, Some(&spec(target)), allow(EVERYTHING).of(TENANT)) {
            Err(TargetError::Invalid { pointer, .. }) => Some(pointer),
            _ => None,
        }
    };
    let hosts = |length: usize| "h".repeat(length) + ":1";
    for (member, within, beyond) in [
        ("queueManager", "M".repeat(48), "M".repeat(49)),
        ("queueManager", "A.B_C/D%".to_owned(), "A B".to_owned()),
        // Whichever queue manager the channel leads to.
        ("queueManager", "*GROUP".to_owned(), "GROUP*".to_owned()),
        ("queueManager", String::new(), "**".to_owned()),
        ("queue", "Q".repeat(48), "Q".repeat(49)),
        ("connName", format!("{},{}", hosts(200), hosts(57)), format!("{},{}", hosts(200), hosts(58))),
    ] {
        assert_eq!(pointer("ibmmq", member, &within), None, "{member}: {within}");
        assert_eq!(pointer("ibmmq", member, &beyond), Some(&*format!("/target/{member}")), "{beyond}");
        assert_eq!(pointer("rabbitmq", member, &beyond), None, "{member}: {beyond}");
    }
}
