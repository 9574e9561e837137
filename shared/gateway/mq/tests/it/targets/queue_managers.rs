//! Tests of the channels and logins that requests may use at queue managers of IBM MQ.

use mq::{BrokerKind, Target, TargetError, TargetSpec};
use serde_json::{Value, json};

use super::{TENANT, allow, is_refused, profile, spec};

#[expect(clippy::needless_pass_by_value, reason = "the tests write members where they are used")]
fn inline(more: Value) -> TargetSpec {
    let mut target =
        json!({"queueManager": "QM1", "channel": "APP.SVRCONN", "connName": "h:1414", "queue": "Q"});
    target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec(target)
}

fn resolve(more: Value, entries: &str) -> Result<Target, TargetError> {
    Target::resolve(None, Some(&inline(more)), allow(entries).of(TENANT))
}

fn login() -> Value {
    json!({"auth": {"user": "app", "passwordRef": "secret://mq/app"}})
}

const GRANT: &str = "&tenant=*&secrets=secret://mq/*&tls=optional";

#[test]
fn an_empty_name_and_one_with_an_asterisk_lead_to_any_queue_manager_of_ibm_mq() {
    for (broker, name, expected) in [
        (BrokerKind::IbmMq, "QM1", Some("QM1")),
        (BrokerKind::IbmMq, "", None),
        (BrokerKind::IbmMq, "*QM1", None),
        (BrokerKind::RabbitMq, "*QM1", Some("*QM1")),
        (BrokerKind::RabbitMq, "/", Some("/")),
    ] {
        assert_eq!(broker.certain_queue_manager(name), expected, "{broker:?} {name}");
    }
}

#[test]
fn an_entry_names_the_channels_that_it_covers() {
    let entry = format!("ibmmq://h:1414/*?channel=APP.*,OTHER{GRANT}");
    for (channel, fits) in [
        ("APP.SVRCONN", true),
        ("OTHER", true),
        ("ADMIN.SVRCONN", false),
        ("OTHER.1", false),
        ("app.svrconn", false),
    ] {
        let mut target = login();
        target["channel"] = json!(channel);
        assert_eq!(is_refused(&resolve(target, &entry)), !fits, "{channel}");
    }
}

#[test]
fn a_request_without_a_login_needs_an_entry_that_takes_one() {
    let (strict, open) = (
        format!("ibmmq://h:1414/*?channel=*{GRANT}"),
        format!("ibmmq://h:1414/*?channel=*&login=none{GRANT}"),
    );
    let certificate = json!({"ssl": {"enabled": true, "keyStoreRef": "secret://mq/key"}});
    for (more, is_login) in
        [(json!({}), false), (json!({"auth": {"user": "app"}}), false), (login(), true), (certificate, true)]
    {
        assert_eq!(resolve(more.clone(), &strict).is_ok(), is_login, "{more}");
        assert!(resolve(more.clone(), &open).is_ok(), "{more}");
    }
}

#[test]
fn a_profile_s_login_goes_through_the_profile_s_channel_unless_an_entry_covers_another() {
    let base = profile(json!({"target": {
        "queueManager": "QM1", "channel": "APP.SVRCONN", "connName": "h:1414", "queue": "Q",
        "auth": {"user": "app", "passwordRef": "secret://mq/app"},
    }}));
    let resolve = |channel: &str, entries: &str| {
        Target::resolve(Some(&base), Some(&spec(json!({"channel": channel}))), allow(entries).of(TENANT))
    };
    assert!(resolve("APP.SVRCONN", "").is_ok());
    assert!(is_refused(&resolve("ADMIN.SVRCONN", "")));
    assert!(is_refused(&resolve("ADMIN.SVRCONN", "ibmmq://h:1414/*?channel=APP.*")));
    assert!(resolve("ADMIN.SVRCONN", "ibmmq://h:1414/*?channel=ADMIN.*").is_ok());
}
