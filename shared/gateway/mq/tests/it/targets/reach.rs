//! Tests of the queues that a caller may use besides the target's own: exactly the queues that the
//! caller could have named as the target's queue.

use mq::{Profile, QueueName, Target, TargetSpec};
use proptest::prelude::*;
use serde_json::json;

use super::{TENANT, allow, orders, profile, spec};

const QUEUES: [&str; 5] = ["ORDERS", "ORDERS.NEW", "ORDERS.DLQ", "PAYMENTS", "OTHER"];

fn profiles() -> [Option<Profile>; 4] {
    let plain = json!({"target": {"broker": "rabbitmq", "connName": "a:1", "queue": "PAYMENTS"}});
    let fixed = Profile { overrides: false, ..orders() };
    [None, Some(orders()), Some(profile(plain)), Some(fixed)]
}

fn inlines() -> [TargetSpec; 7] {
    [
        json!({"queue": "ORDERS.DLQ"}),
        json!({"queue": "ORDERS.DLQ", "connName": "a:1,b:1", "broker": "rabbitmq"}),
        json!({"queue": "ORDERS.DLQ", "connName": "a:1", "broker": "rabbitmq",
               "auth": {"user": "app", "passwordRef": "secret://mq/orders"}}),
        json!({"queue": "PAYMENTS"}),
        json!({"auth": {"user": "another"}, "queue": "ORDERS.DLQ"}),
        json!({"queue": "OTHER", "connName": "a:1", "broker": "rabbitmq",
               "ssl": {"enabled": true, "trustStoreRef": "ssm://ca"}}),
        json!({"queue": "ORDERS", "connName": "127.0.0.1:1", "broker": "rabbitmq"}),
    ]
    .map(spec)
}

const ENTRIES: [&str; 9] = [
    "rabbitmq://a:1/ORDERS.*",
    "rabbitmq://a:1/*?tls=required",
    "rabbitmq://b:*/ORDERS*",
    "rabbitmq://**:*/OTHER",
    "rabbitmq://a:1/ORDERS?tenant=*&tls=optional&secrets=secret://mq/*",
    "rabbitmq://a:1/*?tenant=*&secrets=ssm://*",
    "rabbitmq://*.example.com:5671/PAY*?vhost=/",
    "rabbitmq://127.0.0.1:1/ORDERS*",
    "rabbitmq://127.0.0.0/8:*/PAYMENTS",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_queue_is_within_reach_if_it_might_have_been_named(
        profile in prop::sample::select(profiles().to_vec()),
        inline in prop::sample::select(inlines().to_vec()),
        entries in prop::sample::subsequence(ENTRIES.to_vec(), 0..=ENTRIES.len()),
    ) {
        let list = allow(&entries.join(" "));
        let allowed = list.of(TENANT);
        let Ok(target) = Target::resolve(profile.as_ref(), Some(&inline), allowed) else { return Ok(()) };
        let target = target.with_reach(profile.as_ref(), Some(&inline), allowed);
        for name in QUEUES {
            let queue = QueueName::try_from(name.to_owned()).unwrap();
            let named = TargetSpec { queue: Some(queue.clone()), ..inline.clone() };
            let is_allowed = Target::resolve(profile.as_ref(), Some(&named), allowed).is_ok();
            prop_assert_eq!(target.reach.contains(&queue), is_allowed, "{}", name);
        }
    }
}

#[test]
fn without_asking_nothing_is_within_reach() {
    let target = Target::resolve(Some(&orders()), None, allow("rabbitmq://**:*/*").of(TENANT)).unwrap();
    assert!(target.reach.is_none());
    let queue = QueueName::try_from("ORDERS".to_owned()).unwrap();
    assert!(!target.reach.contains(&queue));
}
