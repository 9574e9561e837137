//! Tests of the log events of connections: their form in the common envelope, and the secrets that
//! they must never contain.

use std::collections::BTreeSet;
use std::time::Duration;

use broker::Deadline;
use rabbitmq::long_running::{ConnectionManager, ConnectionPool, PoolLimits, RetryPolicy};
use secrecy::SecretString;
use test_support::log::Sink;
use test_support::proxy::Proxy;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::support::{arguments, load, proxy, soon, uri};

const PASSWORD: &str = "not-the-password";

/// Starts to collect the log lines of this thread, until the returned guard is dropped.
fn record() -> (Sink, DefaultGuard) {
    let sink = Sink::default();
    let writer = sink.clone();
    let envelope = runtime::Envelope::to(move || writer.clone());
    let filter = tracing_subscriber::EnvFilter::new("info,broker=debug,rabbitmq=debug,lapin=off");
    let subscriber = tracing_subscriber::registry().with(filter).with(envelope);
    (sink, tracing::subscriber::set_default(subscriber))
}

/// Performs operations that cause each of the ten types of connection events at least once.
async fn go_through_everything(proxy: &Proxy) {
    let mut arguments = arguments(proxy.port);
    let config = load(&arguments);

    let manager = ConnectionManager::new(config.clone());
    manager.connect(soon()).await.unwrap();
    assert!(manager.check_health(soon()).await.is_healthy());
    proxy.cut().await;
    assert!(!manager.check_health(soon()).await.is_healthy());
    manager.ensure_connected(soon()).await.unwrap();
    manager.disconnect().await;

    let limits = PoolLimits { max_size: 1, timeout: Duration::from_secs(1) };
    let pool = ConnectionPool::new(config, limits).unwrap();
    let held = pool.acquire(soon()).await.unwrap();
    pool.acquire(soon()).await.unwrap_err();
    pool.release(held).await;
    pool.close().await;

    arguments.password = Some(SecretString::from(PASSWORD));
    let refused = ConnectionManager::new(load(&arguments))
        .with_retry_policy(RetryPolicy::new(0.01, 2.0, 0.02).unwrap());
    refused.connect(soon()).await.unwrap_err();
    refused.ensure_connected(Deadline::after(Duration::from_secs(3))).await.unwrap_err();
}

#[tokio::test]
async fn the_ten_events_are_logged_with_their_fields() {
    let (sink, _guard) = record();
    let proxy = proxy().await;
    go_through_everything(&proxy).await;
    let lines = sink.lines();
    let seen: BTreeSet<_> = lines.iter().filter_map(|line| line["event_type"].as_str()).collect();
    let expected = [
        ("connection.established", "latency_ms"),
        ("connection.failed", "error"),
        ("connection.lost", "reason"),
        ("connection.reconnecting", "attempt"),
        ("connection.disconnected", "polite"),
        ("pool.connection_acquired", "in_use"),
        ("pool.connection_released", "available"),
        ("pool.timeout", "max_size"),
        ("health_check.success", "latency_ms"),
        ("health_check.failed", "error"),
    ];
    assert_eq!(seen, expected.iter().map(|(name, _)| *name).collect());
    for line in &lines {
        let members: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            members,
            ["context", "correlation_id", "event_type", "level", "message", "timestamp"],
            "{line}"
        );
        let context = &line["context"];
        let port = u64::from(proxy.port);
        assert_eq!((context["host"].as_str(), context["port"].as_u64()), (Some("127.0.0.1"), Some(port)));
        assert!(context["vhost"].is_string() && context["user"].is_string(), "{line}");
        assert_eq!(context["password"], "***REDACTED***");
        let (_, field) = expected.iter().find(|(name, _)| line["event_type"] == *name).unwrap();
        assert!(!context[field].is_null(), "{field} in {line}");
        assert!(line["message"].as_str().is_some_and(|message| message.contains("127.0.0.1")), "{line}");
    }
}

#[tokio::test]
async fn credentials_are_in_no_line() {
    let (sink, _guard) = record();
    let proxy = proxy().await;
    go_through_everything(&proxy).await;
    let log = sink.text();
    assert!(log.contains("***REDACTED***"));
    assert!(!log.contains(PASSWORD), "{log}");
    let password = uri().authority.userinfo.password;
    // The default password is also the default user.
    if password != "guest" {
        assert!(!log.contains(&password), "{log}");
    }
}
