//! Tests of IBM MQ's key repositories that are files, which only profiles may name.

use mq::{KeyRepositoryAccess, Target, TargetError, Tls};
use serde_json::{Value, json};

use super::{EVERYTHING, TENANT, allow, profile, spec};

fn resolve(ssl: &Value, inline: Value) -> Result<Target, TargetError> {
    let target = json!({
        "queueManager": "QM1", "channel": "APP.SVRCONN", "connName": "mq.example.com(1414)", "queue": "ORDERS",
        "ssl": ssl,
    });
    let profile = profile(json!({ "target": target }));
    Target::resolve(Some(&profile), Some(&spec(inline)), allow(EVERYTHING).of(TENANT))
}

fn opening(target: &Target) -> Option<&KeyRepositoryAccess> {
    match &target.endpoint.tls {
        Tls::On { opening, .. } => Some(opening),
        Tls::Off => None,
    }
}

#[test]
fn a_profile_names_a_file_and_what_opens_it() {
    let ssl = json!({
        "enabled": true, "keyStoreRef": "s3://acme-keys/mq/key.kdb", "stashRef": "secret://mq/stash",
        "certificateLabel": "app",
    });
    let target = resolve(&ssl, json!({})).unwrap();
    let KeyRepositoryAccess { stash_ref, password_ref, certificate_label } = opening(&target).unwrap();
    assert_eq!(stash_ref.as_ref().map(ToString::to_string).as_deref(), Some("secret://mq/stash"));
    assert_eq!((password_ref, certificate_label.as_deref()), (&None, Some("app")));
    // As it is handed from one function to another.
    let text = serde_json::to_string(&target).unwrap();
    assert_eq!(serde_json::from_str::<Target>(&text).unwrap(), target);
}

#[test]
fn a_target_without_a_file_is_handed_over_as_it_always_was() {
    let target = resolve(&json!({"enabled": true, "keyStoreRef": "secret://mq/keys"}), json!({})).unwrap();
    let tls = serde_json::to_value(&target.endpoint.tls).unwrap();
    let known =
        json!({"on": {"key_store_ref": "secret://mq/keys", "trust_store_ref": null, "cipher_spec": null}});
    assert_eq!(tls, known);
    assert_eq!(serde_json::from_value::<Tls>(known).unwrap(), target.endpoint.tls);
}

#[test]
fn a_profile_whose_key_repository_cannot_be_opened_is_at_fault() {
    for (ssl, pointer) in [
        (json!({"keyStoreRef": "s3://acme-keys/key.kdb"}), "/target/ssl/keyStoreRef"),
        (
            json!({"trustStoreRef": "s3://acme-keys/key.kdb", "certificateLabel": "app"}),
            "/target/ssl/trustStoreRef",
        ),
        (json!({"stashRef": "secret://mq/stash"}), "/target/ssl/stashRef"),
        (
            json!({"keyStoreRef": "secret://mq/keys", "trustStoreRef": "secret://mq/keys"}),
            "/target/ssl/trustStoreRef",
        ),
        (
            json!({
                "keyStoreRef": "secret://mq/kdb", "stashRef": "secret://mq/stash",
                "storePasswordRef": "secret://mq/password",
            }),
            "/target/ssl/storePasswordRef",
        ),
        (json!({"storePasswordRef": "secret://mq/password"}), "/target/ssl/storePasswordRef"),
        (json!({"certificateLabel": "app"}), "/target/ssl/certificateLabel"),
    ] {
        match resolve(&ssl, json!({})) {
            Err(TargetError::Profile(detail)) => assert!(detail.contains(&format!("{pointer} ")), "{detail}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn rabbitmq_takes_secrets_of_text_alone() {
    let with = |ssl: Value| {
        let target = json!({"broker": "rabbitmq", "connName": "h:5671", "queue": "Q", "ssl": ssl});
        let profile = profile(json!({ "target": target }));
        Target::resolve(Some(&profile), None, allow(EVERYTHING).of(TENANT))
    };
    assert!(with(json!({"enabled": true, "trustStoreRef": "secret://ca"})).is_ok());
    for (ssl, member) in [
        (
            json!({"trustStoreRef": "s3://acme-keys/ca.pem", "storePasswordRef": "secret://x"}),
            "trustStoreRef",
        ),
        (json!({"keyStoreRef": "secret://key", "storePasswordRef": "secret://x"}), "storePasswordRef"),
    ] {
        match with(ssl) {
            Err(TargetError::Profile(detail)) => assert!(detail.contains(member), "{detail}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_names_no_file() {
    for (member, value) in [
        ("keyStoreRef", "s3://acme-keys/key.kdb"),
        ("trustStoreRef", "s3://acme-keys/key.kdb"),
        ("stashRef", "secret://mq/stash"),
        ("storePasswordRef", "secret://mq/password"),
        ("certificateLabel", "app"),
    ] {
        let inline = json!({"ssl": {"enabled": true, member: value}});
        match resolve(&json!({}), inline) {
            Err(TargetError::Invalid { pointer, .. }) => assert_eq!(pointer, format!("/target/ssl/{member}")),
            other => panic!("{member}: {other:?}"),
        }
    }
}

/// Tests that a profile's key repository, which contains the client's private key, is not used at a
/// host that the profile does not name.
#[test]
fn a_key_repository_goes_to_the_profile_s_hosts_only() {
    for member in ["keyStoreRef", "trustStoreRef"] {
        let ssl = json!({"enabled": true, member: "secret://mq/keys"});
        let elsewhere = json!({"connName": "other.example.com(1414)"});
        let refused = resolve(&ssl, elsewhere.clone()).unwrap_err();
        assert!(matches!(refused, TargetError::NotAllowed(_)), "{member}: {refused:?}");
        resolve(&json!({"enabled": false}), elsewhere).unwrap();
    }
}

#[test]
fn what_opens_the_profile_s_store_opens_no_store_of_a_request() {
    let ssl = json!({"keyStoreRef": "secret://mq/kdb", "storePasswordRef": "secret://mq/password"});
    let own = resolve(&ssl, json!({"ssl": {"enabled": true}})).unwrap();
    assert!(opening(&own).unwrap().password_ref.is_some());
    for member in ["keyStoreRef", "trustStoreRef"] {
        let inline = json!({"ssl": {"enabled": true, member: "secret://other"}});
        assert!(opening(&resolve(&ssl, inline).unwrap()).unwrap().is_empty(), "{member}");
    }
}
