//! Tests of the connection test, whose report says which step succeeded, failed or was skipped.

use broker::Broker as _;

use mq::{Credentials, TestReport, Tls};
use secrecy::SecretString;

use crate::proxy::Proxy;
use crate::support::{Bench, access, access_at, rabbit, soon};

/// Returns each step of the report as `name`, as `name!CODE` if it failed, or as `name-` if it was
/// skipped. Checks the step's other fields.
fn outline(report: &TestReport) -> Vec<String> {
    let step = |step: &mq::TestStep| match (step.skipped, step.code) {
        (true, _) => format!("{}-", step.name),
        (false, Some(code)) => format!("{}!{code}", step.name),
        (false, None) => step.name.to_owned(),
    };
    for step in &report.steps {
        assert_eq!(step.duration_ms.is_some(), !step.skipped, "{step:?}");
        assert_eq!(step.ok, (!step.skipped).then_some(step.code.is_none()));
        assert_eq!(step.detail.is_some(), step.code.is_some());
    }
    report.steps.iter().map(step).collect()
}

#[tokio::test]
async fn a_queue_that_can_be_used_passes_every_step() {
    let (bench, proxy, rabbit) = (Bench::new("test").await, Proxy::start().await, rabbit());
    let report = rabbit.test(&proxy.access(), Some(&bench.queue), soon()).await;
    assert!(report.ok);
    assert_eq!(outline(&report), ["resolve", "connect", "tls-", "authenticate", "openQueue"]);
    assert_eq!(report.product, "RabbitMQ");
    assert!(report.version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())));
    assert!(report.latency_ms.is_some_and(|latency| latency > 0.0));
    assert_eq!(proxy.settled(0).await, 0);
    assert_eq!(rabbit.pools(), vec![]);

    let report = rabbit.test(&proxy.access(), None, soon()).await;
    assert!(report.ok);
    assert_eq!(outline(&report), ["resolve", "connect", "tls-", "authenticate", "openQueue-"]);
    bench.clean().await;
}

#[tokio::test]
async fn the_step_that_fails_is_named() {
    let bench = Bench::absent("test-failures").await;
    let rabbit = rabbit();
    let uri = crate::support::uri();

    let report = rabbit.test(&access(), Some(&bench.queue), soon()).await;
    assert_eq!(outline(&report), ["resolve", "connect", "tls-", "authenticate", "openQueue!QUEUE_NOT_FOUND"]);
    assert!(!report.ok && report.version.is_some());

    let mut wrong = access();
    wrong.credentials =
        Some(Credentials { user: "guest".to_owned(), password: SecretString::from("not-the-password") });
    let report = rabbit.test(&wrong, Some(&bench.queue), soon()).await;
    assert_eq!(
        outline(&report),
        ["resolve", "connect", "tls-", "authenticate!AUTHENTICATION_FAILED", "openQueue-"]
    );

    let mut wrong = access();
    wrong.endpoint.queue_manager = "no-such-vhost".to_owned();
    let report = rabbit.test(&wrong, Some(&bench.queue), soon()).await;
    assert_eq!(
        outline(&report),
        ["resolve", "connect", "tls-", "authenticate!VIRTUAL_HOST_REFUSED", "openQueue-"]
    );

    let report = rabbit.test(&access_at(&[("127.0.0.1", 1)]), Some(&bench.queue), soon()).await;
    assert_eq!(
        outline(&report),
        ["resolve", "connect!BROKER_UNREACHABLE", "tls-", "authenticate-", "openQueue-"]
    );

    let report = rabbit.test(&access_at(&[("no-such-host.invalid", 1)]), Some(&bench.queue), soon()).await;
    assert_eq!(
        outline(&report),
        ["resolve!BROKER_UNREACHABLE", "connect-", "tls-", "authenticate-", "openQueue-"]
    );

    let mut tls = access_at(&[(&uri.authority.host, uri.authority.port)]);
    tls.endpoint.tls = Tls::On {
        key_store_ref: None,
        trust_store_ref: None,
        cipher_spec: None,
        opening: Default::default(),
    };
    let report = rabbit.test(&tls, Some(&bench.queue), soon()).await;
    assert_eq!(outline(&report), ["resolve", "connect", "tls!TLS_FAILED", "authenticate-", "openQueue-"]);
    let said = report.steps.iter().find_map(|step| step.detail.as_deref()).unwrap();
    assert!(said.contains("does not speak TLS: name the port for TLS (5671"), "{said}");
}
