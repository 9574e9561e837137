//! Tests of the client's log lines: they have the common envelope, and contain no secrets.

use broker::Broker as _;

use mq::Credentials;
use secrecy::SecretString;
use test_support::log::Sink;
use tokio::sync::watch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::proxy::Proxy;
use crate::support::{Bench, access_at, explicit, outgoing, rabbit, soon};

/// Starts to collect the log lines of this thread, until the returned guard is dropped.
pub(crate) fn record() -> (Sink, DefaultGuard) {
    let sink = Sink::default();
    let writer = sink.clone();
    let envelope = runtime::Envelope::to(move || writer.clone());
    let filter = tracing_subscriber::EnvFilter::new("info,broker=debug,rabbitmq=debug,lapin=off");
    let subscriber = tracing_subscriber::registry().with(filter).with(envelope);
    (sink, tracing::subscriber::set_default(subscriber))
}

const PASSWORD: &str = "not-the-password";

#[tokio::test]
async fn a_correlation_id_around_the_work_is_in_every_line() {
    use tracing::Instrument as _;
    let (recorder, _guard) = record();
    let (bench, rabbit) = (Bench::new("correlation").await, rabbit());
    let access = crate::support::access();
    let span = tracing::info_span!("request", correlation_id = "trace-1");
    rabbit.depth(&access, &bench.queue, soon()).instrument(span).await.unwrap();
    let lines = recorder.lines();
    assert!(lines.len() >= 3, "{lines:?}");
    assert!(lines.iter().all(|line| line["correlation_id"] == "trace-1"), "{lines:?}");
    bench.clean().await;
}

#[tokio::test]
async fn the_gateway_logs_neither_secrets_nor_bodies() {
    let (recorder, _guard) = record();
    let (bench, proxy, rabbit) = (Bench::new("log").await, Proxy::start().await, rabbit());

    let message = outgoing(explicit(&["a-body-of-a-customer"]));
    rabbit.produce(&proxy.access(), &bench.queue, &message, 0, &watch::Sender::new(0), soon()).await.unwrap();
    proxy.cut().await;
    rabbit.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
    assert!(rabbit.test(&proxy.access(), None, soon()).await.ok);
    let _ = rabbit.depth(&access_at(&[("127.0.0.1", 1)]), &bench.queue, soon()).await;
    let mut wrong = proxy.access();
    wrong.credentials =
        Some(Credentials { user: "someone".to_owned(), password: SecretString::from(PASSWORD) });
    wrong.secret_version = "2".to_owned();
    let error = rabbit.depth(&wrong, &bench.queue, soon()).await.unwrap_err();

    let log = recorder.text();
    for event in ["connection.established", "connection.failed", "connection.lost", "connection.disconnected"]
    {
        assert!(log.contains(event), "{event} in\n{log}");
    }
    assert!(log.contains("\"user\":\"someone\""));
    for text in [&log, &format!("{error:?}"), &format!("{wrong:?}"), &format!("{rabbit:?}")] {
        assert!(!text.contains(PASSWORD) && !text.contains("a-body-of-a-customer"), "{text}");
    }
    bench.clean().await;
}
