//! Tests of the result of each rule and of each allow-list entry for a target.

use mq::{EntryPart, TargetRule};

use super::*;

const ENTRIES: &str = "rabbitmq://mq.example.com:5671/ORDERS.*?tenant=other \
                       rabbitmq://mq.example.com:5671/STOCK.*?vhost=eu&tls=required \
                       rabbitmq://127.0.0.*:5671/* ibmmq://mq.example.com:1414/*?channel=APP.*";

/// Returns the rules that refuse the request's target `inline`, with the allow-list `allowed`.
fn broken(profile: Option<&Profile>, inline: Value, allowed: &str) -> Vec<TargetRule> {
    let judged = Target::judge(profile, Some(&spec(inline)), allow(allowed).of(TENANT)).unwrap();
    judged.rules.into_iter().filter(|(_, says)| says.is_err()).map(|(rule, _)| rule).collect()
}

#[test]
fn the_first_rule_that_does_not_hold_is_the_refusal() {
    let cases = [
        json!({"queue": "ORDERS.NEW"}),
        json!({"queue": "PAYMENTS"}),
        json!({"queue": "PAYMENTS", "connName": "elsewhere.example.com:5671"}),
        json!({"ssl": {"enabled": false}}),
        json!({"auth": {"user": "app", "passwordRef": "secret://mine"}}),
        json!({"exchange": "orders"}),
    ];
    for profile in [Some(orders()), Some(Profile { overrides: false, ..orders() })] {
        for inline in &cases {
            let (inline, allowed) = (spec(inline.clone()), allow(ENTRIES));
            let resolved = Target::resolve(profile.as_ref(), Some(&inline), allowed.of(TENANT));
            let judged = Target::judge(profile.as_ref(), Some(&inline), allowed.of(TENANT)).unwrap();
            let first = judged.rules.iter().find_map(|(_, says)| says.clone().err());
            assert_eq!(first, resolved.err(), "{inline:?}");
        }
    }
}

#[test]
fn every_rule_that_does_not_hold_is_named() {
    let elsewhere = json!({"queue": "PAYMENTS", "connName": "elsewhere.example.com:5671"});
    let fixed = Profile { overrides: false, ..orders() };
    let expected = [TargetRule::Queue, TargetRule::Connection, TargetRule::Credentials];
    assert_eq!(broken(Some(&orders()), elsewhere.clone(), ""), expected);
    assert_eq!(broken(Some(&fixed), elsewhere, "")[0], TargetRule::Overrides);
    assert!(broken(Some(&orders()), json!({"queue": "ORDERS.NEW"}), "").is_empty());
    let inline =
        json!({"broker": "rabbitmq", "connName": "h:1", "queue": "Q", "auth": {"passwordRef": "secret://a"}});
    assert_eq!(broken(None, inline, ""), [TargetRule::AllowList, TargetRule::Secrets]);
    let incomplete = Target::judge(None, Some(&spec(json!({"queue": "Q"}))), allow("").of(TENANT));
    assert!(matches!(incomplete, Err(TargetError::Invalid { .. })), "no rule is asked");
}

#[test]
fn an_entry_says_in_what_a_target_differs_from_it() {
    let differences = |inline: Value| {
        let allowed = allow(ENTRIES);
        let judged = Target::judge(None, Some(&spec(inline)), allowed.of(TENANT)).unwrap();
        allowed.of(TENANT).differences(&judged.target)
    };
    let stock = json!({"broker": "rabbitmq", "connName": "mq.example.com:5671", "queue": "STOCK.A",
                       "queueManager": "eu", "ssl": {"enabled": true}});
    let said = differences(stock);
    assert_eq!(said[0], [EntryPart::Tenant, EntryPart::Queue]);
    assert!(said[1].is_empty(), "it covers the target");
    assert_eq!(said[2], [EntryPart::Address]);
    assert_eq!(said[3], [EntryPart::Broker, EntryPart::Address]);
    let loopback = json!({"broker": "rabbitmq", "connName": "127.0.0.1:5671", "queue": "Q"});
    let said = differences(loopback);
    assert_eq!(said[2], [EntryPart::SpecialAddress], "wildcards do not cover it");
    let further = [EntryPart::Address, EntryPart::SpecialAddress, EntryPart::QueueManager, EntryPart::Queue];
    assert_eq!(said[1][..4], further);
    let own = InlineTargets::of_one_tenant(&["rabbitmq://127.0.0.1:5671/*"]).unwrap();
    let loopback = spec(json!({"broker": "rabbitmq", "connName": "127.0.0.1:5671", "queue": "Q"}));
    let list = allow(ENTRIES);
    let both = list.of(TENANT).and(&own);
    let judged = Target::judge(None, Some(&loopback), both).unwrap();
    assert!(both.differences(&judged.target)[4].is_empty(), "the tenant's own entries come last");
}
