//! Tests of loopback, link-local and other special addresses, to which a target connects only if an
//! operator listed them.

use mq::{Address, Target};
use serde_json::json;

use super::{EVERYTHING, TENANT, allow, is_refused, profile, spec};

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn named(conn_name: &str, entries: &str) -> Result<Target, mq::TargetError> {
    let inline = spec(json!({"broker": "rabbitmq", "connName": conn_name, "queue": "Q"}));
    Target::resolve(None, Some(&inline), allow(entries).of(TENANT))
}

#[test]
fn an_address_of_a_special_kind_is_covered_by_itself_or_a_range_only() {
    for special in [
        "127.0.0.1:5672",
        "169.254.169.254:80",
        "224.0.0.1:1",
        "0.0.0.0:1",
        "[::1]:1",
        "[fe80::1]:1",
        "[::ffff:127.0.0.1]:1",
    ] {
        let result = named(special, EVERYTHING);
        assert!(
            is_refused(&result) && result.unwrap_err().to_string().contains("lists the address"),
            "{special}"
        );
    }
    assert!(named("10.0.0.1:5672", EVERYTHING).is_ok());
    for entries in ["rabbitmq://127.0.0.1:*/*", "rabbitmq://127.0.0.0/8:5672/Q"] {
        let target = named("127.0.0.1:5672", entries).unwrap();
        let own = address("127.0.0.1:5672");
        assert!(target.endpoint.special.admit(&own, "127.0.0.1".parse().unwrap()), "{entries}");
    }
    assert!(is_refused(&named("127.0.0.1:5672", "rabbitmq://127.0.0.*:*/* rabbitmq://127.**:*/*")));
    assert!(is_refused(&named("127.0.0.1:5672,10.0.0.1:5672", "rabbitmq://127.0.0.1:1/* rabbitmq://**:*/*")));
}

#[test]
fn a_name_that_a_request_gives_leads_to_no_special_address() {
    let loopback = "127.0.0.1".parse().unwrap();
    let entries = "rabbitmq://**:*/* rabbitmq://broker.example:*/* rabbitmq://127.0.0.1:*/*";
    for name in ["broker.example:5672", "localhost:5672", "127.1:5672", "2130706433:5672", "localhost.:5672"]
    {
        let special = named(name, entries).unwrap().endpoint.special;
        assert!(special.is_empty() && !special.admit(&address(name), loopback), "{name}");
    }
    let listed = named("localhost:5672", "rabbitmq://localhost:*/*").unwrap();
    assert!(listed.endpoint.special.admit(&address("localhost:5672"), loopback));
    assert!(!listed.endpoint.special.admit(&address("localhost:9001"), loopback));
}

#[test]
fn an_operator_s_profile_may_be_of_this_machine() {
    let base = profile(json!({"target": {
        "broker": "rabbitmq", "connName": "127.1:5672,169.254.1.1:5672,10.0.0.1:5672", "queue": "Q",
    }}));
    let resolve = |inline| Target::resolve(Some(&base), Some(&spec(inline)), allow(EVERYTHING).of(TENANT));
    let special = resolve(json!({})).unwrap().endpoint.special;
    let admits = |of: &str, found: &str| special.admit(&address(of), found.parse().unwrap());
    assert!(admits("127.1:5672", "127.0.0.1") && admits("169.254.1.1:5672", "169.254.1.1"));
    assert!(!admits("127.1:5672", "169.254.169.254") && !admits("10.0.0.1:5672", "127.0.0.1"));
    let elsewhere = resolve(json!({"connName": "localhost:5672"})).unwrap();
    assert!(elsewhere.endpoint.special.is_empty(), "the request names another host than the profile");
}
