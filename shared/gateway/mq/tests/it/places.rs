//! Tests of the identity that tells whether two targets put their messages on the same queue.

use mq::{InlineTargets, Profile, Target};
use serde_json::{Value, json};

#[expect(clippy::needless_pass_by_value, reason = "the tests write what is changed where it is used")]
fn target(changed: Value) -> Target {
    let mut spec = json!({"broker": "rabbitmq", "queueManager": "v", "queue": "q", "connName": "a:1,b:2"});
    spec.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
    let profile: Profile = serde_json::from_value(json!({ "target": spec })).unwrap();
    Target::resolve(Some(&profile), None, InlineTargets::default().of("tenant")).unwrap()
}

#[test]
fn broker_virtual_host_queue_addresses_and_cluster_make_a_place() {
    let place = target(json!({})).queue_identity(Some("c"));
    assert_eq!(place.len(), 64);
    for (changed, cluster) in [
        (json!({"broker": "ibmmq"}), Some("c")),
        (json!({"queueManager": "w"}), Some("c")),
        (json!({"queueManager": "vq", "queue": "q"}), Some("c")),
        (json!({"queue": "other"}), Some("c")),
        (json!({"connName": "a:1"}), Some("c")),
        (json!({"connName": "a:1,b:3"}), Some("c")),
        (json!({}), Some("d")),
        (json!({}), Some("")),
        (json!({}), None),
    ] {
        assert_ne!(target(changed.clone()).queue_identity(cluster), place, "{changed} {cluster:?}");
    }
}

#[test]
fn the_order_of_addresses_and_who_logs_in_do_not_make_another_place() {
    let place = target(json!({})).queue_identity(Some("c"));
    for same in [
        json!({"connName": "b:2,a:1"}),
        json!({"auth": {"user": "other", "passwordRef": "secret://other"}}),
        json!({"ssl": {"enabled": true}}),
    ] {
        assert_eq!(target(same.clone()).queue_identity(Some("c")), place, "{same}");
    }
}

#[test]
fn exchange_and_routing_key_make_a_place_and_queues_keep_theirs() {
    // As records of earlier versions have it.
    let queue = "fb623f56165db31b1e7463642e5595fc04ce9217fefc7e6b7d0d94201f631216";
    assert_eq!(target(json!({})).queue_identity(Some("c")), queue);
    let exchange = |name: &str, key: &str| {
        target(json!({"queue": null, "exchange": name, "routingKey": key})).queue_identity(Some("c"))
    };
    let places =
        [exchange("e", "k"), exchange("e", "l"), exchange("f", "k"), exchange("ek", ""), exchange("q", "")];
    for (index, place) in places.iter().enumerate() {
        assert_ne!(place, queue);
        assert!(!places[..index].contains(place), "{index}");
    }
}
