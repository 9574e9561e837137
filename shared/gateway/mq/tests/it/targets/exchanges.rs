//! Tests of the exchanges and routing keys that a request may name.

use mq::{RoutingKey, Target, TargetError, TargetSpec};
use serde_json::{Value, json};

use super::{EVERYTHING, TENANT, allow, is_refused, profile, spec};

fn key(text: &str) -> RoutingKey {
    RoutingKey::try_from(text.to_owned()).unwrap()
}

fn inline(exchange: &str, routing_key: &str) -> TargetSpec {
    spec(json!({"broker": "rabbitmq", "connName": "b:5672", "exchange": exchange, "routingKey": routing_key}))
}

fn resolved(entries: &str, inline: &TargetSpec) -> Result<Target, TargetError> {
    Target::resolve(None, Some(inline), allow(entries).of(TENANT))
}

/// Resolves a target over a profile of the queue `ORDERS`. The request sets the members `changed`,
/// the profile permits the exchanges and routing keys in `grants`, and `allowed` is the allow-list.
#[expect(clippy::needless_pass_by_value, reason = "the tests write what is granted where it is used")]
fn over(grants: Value, changed: Value, allowed: &str) -> Result<Target, TargetError> {
    let mut base = json!({"target": {"broker": "rabbitmq", "connName": "b:5672", "queue": "ORDERS"}});
    base.as_object_mut().unwrap().extend(grants.as_object().unwrap().clone());
    Target::resolve(Some(&profile(base)), Some(&spec(changed)), allow(allowed).of(TENANT))
}

#[test]
fn an_entry_of_queues_covers_no_exchange_and_one_of_exchanges_no_queue() {
    assert!(is_refused(&resolved("rabbitmq://b:5672/*", &inline("orders", "new"))));
    let entry = "rabbitmq://b:5672/?exchanges=orders,stock.*";
    assert!(resolved(entry, &inline("orders", "new")).is_ok());
    assert!(resolved(entry, &inline("stock.in", "")).is_ok());
    assert!(is_refused(&resolved(entry, &inline("payments", "new"))));
    let queue = spec(json!({"broker": "rabbitmq", "connName": "b:5672", "queue": "orders"}));
    assert!(is_refused(&resolved(entry, &queue)));
    assert!(resolved("rabbitmq://b:5672/orders?exchanges=orders", &queue).is_ok());
}

#[test]
fn an_entry_s_routing_keys_are_those_that_may_be_used() {
    let entry = "rabbitmq://b:5672/?exchanges=orders&routingKeys=new.*,old";
    for (routing_key, is_covered) in [
        ("new.1", true),
        ("old", true),
        ("new", false),
        ("older", false),
        ("", false),
        ("new.{{seq}}", true),
        ("new.{{uuid}}.x", true),
        ("{{seq}}", false),
        ("{{random(3)}}.new.1", false),
        ("ol{{random(1)}}", false),
    ] {
        assert_eq!(resolved(entry, &inline("orders", routing_key)).is_ok(), is_covered, "{routing_key}");
    }
    let any_character = "rabbitmq://b:5672/?exchanges=orders&routingKeys=n?";
    assert!(resolved(any_character, &inline("orders", "n1")).is_ok());
    assert!(is_refused(&resolved(any_character, &inline("orders", "n{{seq}}"))), "may be longer");
}

#[test]
fn a_profile_grants_exchanges_and_routing_keys_together() {
    let both = json!({"exchanges": ["orders"], "routingKeys": ["new.*"]});
    let to = |exchange: &str, key: &str| json!({"exchange": exchange, "routingKey": key});
    assert!(over(both.clone(), to("orders", "new.1"), "").is_ok());
    for (grants, changed) in [
        (both.clone(), to("orders", "old")),
        (both.clone(), to("stock", "new.1")),
        (both, json!({"exchange": "orders"})),
        (json!({"exchanges": ["orders"]}), to("orders", "new.1")),
        (json!({"routingKeys": ["*"]}), to("orders", "new.1")),
        (json!({"queues": ["*"]}), to("orders", "new.1")),
    ] {
        assert!(is_refused(&over(grants.clone(), changed.clone(), "")), "{grants} {changed}");
        let everything = format!("{EVERYTHING} rabbitmq://**:*/?exchanges=*");
        assert!(over(grants, changed, &everything).is_ok());
    }
}

#[test]
fn a_profile_s_own_exchange_is_used_with_its_own_routing_key() {
    let base = json!({"target": {"broker": "rabbitmq", "connName": "b:5672", "exchange": "orders", "routingKey": "new"}});
    let base = profile(base);
    let with = |changed: Value| Target::resolve(Some(&base), Some(&spec(changed)), allow("").of(TENANT));
    assert_eq!(with(json!({})).unwrap().to_string(), "/:orders/new");
    assert!(with(json!({"exchange": "orders", "routingKey": "new"})).is_ok());
    assert!(is_refused(&with(json!({"routingKey": "old"}))));
    assert!(is_refused(&with(json!({"exchange": "stock"}))));
    assert!(is_refused(&with(json!({"queue": "ORDERS"}))));
}

#[test]
fn a_request_s_queue_takes_the_place_of_a_profile_s_exchange_and_the_reverse() {
    let base = profile(json!({
        "target": {"broker": "rabbitmq", "connName": "b:5672", "exchange": "orders", "routingKey": "new"},
        "queues": ["Q"],
    }));
    let target =
        Target::resolve(Some(&base), Some(&spec(json!({"queue": "Q"}))), allow("").of(TENANT)).unwrap();
    assert_eq!((target.to_string().as_str(), target.exchange), ("/:Q", None));
    let target =
        over(json!({"exchanges": ["orders"], "routingKeys": ["*"]}), json!({"exchange": "orders"}), "")
            .unwrap();
    assert_eq!((target.to_string().as_str(), target.queue), ("/:orders/", None));
}

#[test]
fn a_message_s_own_routing_key_needs_the_same_grant() {
    let base = profile(json!({
        "target": {"broker": "rabbitmq", "connName": "a:5672,b:5672", "queue": "ORDERS"},
        "exchanges": ["orders"], "routingKeys": ["new.*"],
    }));
    let check = |changed: Value, allowed: &str, own: &str| {
        let (inline, allowed) = (spec(changed), allow(allowed));
        let target = Target::resolve(Some(&base), Some(&inline), allowed.of(TENANT)).unwrap();
        target.check_routing_key(&key(own), Some(&base), Some(&inline), allowed.of(TENANT))
    };
    let orders = json!({"exchange": "orders", "routingKey": "new.1"});
    assert!(check(orders.clone(), "", "new.2").is_ok());
    assert!(matches!(check(orders.clone(), "", "old"), Err(TargetError::NotAllowed(_))));
    assert!(check(orders, "rabbitmq://*:5672/?exchanges=orders&routingKeys=old", "old").is_ok());
    // What the profile grants holds for what the profile names, and not where the request leads
    // elsewhere.
    let elsewhere = json!({"exchange": "orders", "routingKey": "new.1", "queueManager": "other"});
    let entry = "rabbitmq://*:5672/?exchanges=orders&routingKeys=new.1";
    assert!(check(elsewhere.clone(), entry, "new.1").is_ok());
    assert!(matches!(check(elsewhere, entry, "new.2"), Err(TargetError::NotAllowed(_))));
    assert!(matches!(check(json!({}), "", "new.2"), Err(TargetError::Invalid { .. })), "a queue has no keys");
}

#[test]
fn a_target_names_a_queue_or_an_exchange() {
    let pointer = |members: Value| {
        let mut all = json!({"broker": "rabbitmq", "connName": "b:5672"});
        all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        match resolved(EVERYTHING, &spec(all)) {
            Err(TargetError::Invalid { pointer, .. }) => pointer,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(pointer(json!({"queue": "Q", "exchange": "e"})), "/target/exchange");
    assert_eq!(pointer(json!({"queue": "Q", "routingKey": "k"})), "/target/routingKey");
    assert_eq!(pointer(json!({"routingKey": "k"})), "/target/routingKey");
    let both =
        profile(json!({"target": {"broker": "rabbitmq", "connName": "b:1", "queue": "Q", "exchange": "e"}}));
    let result = Target::resolve(Some(&both), None, allow("").of(TENANT));
    assert!(matches!(result, Err(TargetError::Profile(_))), "{result:?}");
}

#[test]
fn routing_keys_have_a_bound_before_and_after_they_are_rendered() {
    let read = |text: String| RoutingKey::try_from(text);
    assert!(read("k".repeat(255)).is_ok() && read("k".repeat(256)).is_err());
    assert!(read(format!("{}{{{{uuid}}}}", "k".repeat(219))).is_ok());
    assert!(read(format!("{}{{{{uuid}}}}", "k".repeat(220))).is_err());
    assert!(read("{{random(256)}}".to_owned()).is_err());
    for text in ["a\nb", "{{nope}}", "{{seq"] {
        assert!(read(text.to_owned()).is_err(), "{text}");
    }
}
