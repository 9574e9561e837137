//! Tests of connections that are refused or break before anything was sent. The client retries them
//! by its policy for at most half of the operation's time. The numbers of connections and log lines
//! are limited, whatever addresses the target names.

use std::time::{Duration, Instant};

use mq::{Access, BrokerError, Credentials, RetrySeconds};

use broker::{Broker as _, ConnectionSettings, Deadline};
use rabbitmq::{RabbitMq, Settings};
use secrecy::SecretString;

use crate::logging::record;
use crate::proxy::Proxy;
use crate::support::{Bench, COMMIT, PLENTY, access_at, consume, explicit, outgoing, soon, unwatched};

fn rabbit(retry_for: Duration) -> RabbitMq {
    let connections = ConnectionSettings { retry_for, ..ConnectionSettings::default() };
    RabbitMq::with_settings(Settings { connections, ..Settings::default() })
}

const LONG: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_broker_that_resets_its_first_connections_is_used_when_it_is_there() {
    let bench = Bench::new("starting").await;
    let broker = Proxy::after_resets(2).await;
    let rabbit = rabbit(LONG);
    let produced = rabbit
        .produce(&broker.access(), &bench.queue, &outgoing(explicit(&["once"])), 0, &unwatched(), soon())
        .await
        .unwrap();
    assert_eq!((produced.enqueued, broker.accepted()), (1, 3));
    let unit = rabbit.fetch(&broker.access(), &bench.queue, &consume(COMMIT, 5, 0), PLENTY, soon()).await;
    let unit = unit.unwrap();
    assert_eq!(unit.consumed().messages.len(), 1, "it was put once");
    unit.commit(soon()).await.unwrap();
    bench.clean().await;
}

#[tokio::test]
async fn what_the_broker_refuses_for_good_is_asked_once() {
    let bench = Bench::absent("refused").await;
    let mut wrong_password = |access: &mut Access| {
        let password = SecretString::from("not-the-password");
        access.credentials = Some(Credentials { user: "guest".to_owned(), password });
    };
    let mut wrong_vhost = |access: &mut Access| access.endpoint.queue_manager = "no-such-vhost".to_owned();
    let faults: [&mut dyn FnMut(&mut Access); 2] = [&mut wrong_password, &mut wrong_vhost];
    for fault in faults {
        let broker = Proxy::after_resets(0).await;
        let mut access = broker.access();
        fault(&mut access);
        rabbit(LONG).depth(&access, &bench.queue, soon()).await.unwrap_err();
        assert_eq!(broker.accepted(), 1);
    }
}

#[tokio::test]
async fn a_broker_that_is_down_is_given_up_in_half_of_the_time() {
    let (recorder, _guard) = record();
    let broker = Proxy::after_resets(usize::MAX).await;
    let bench = Bench::absent("down").await;
    let started = Instant::now();
    let deadline = Deadline::after(Duration::from_secs(7));
    let error = rabbit(LONG).depth(&broker.access(), &bench.queue, deadline).await.unwrap_err();
    assert!(
        matches!(&error, BrokerError::Unreachable { detail, .. } if detail.contains("tried 3 times")),
        "{error}"
    );
    assert_eq!(broker.accepted(), 3);
    assert!(started.elapsed() <= Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(recorder.lines().len(), 5, "a line for each round, and for each wait before the next");
}

#[tokio::test]
async fn a_profile_decides_how_long_a_broker_is_tried_again() {
    let broker = Proxy::after_resets(usize::MAX).await;
    let bench = Bench::absent("once").await;
    let mut access = broker.access();
    access.limits.retry_seconds = Some(RetrySeconds::try_from(0).unwrap());
    rabbit(LONG).depth(&access, &bench.queue, soon()).await.unwrap_err();
    assert_eq!(broker.accepted(), 1);
}

#[tokio::test]
async fn however_many_addresses_there_are_connections_and_log_lines_are_bounded() {
    let (recorder, _guard) = record();
    let bench = Bench::absent("flood").await;
    for addresses in [100, 200, 400] {
        let broker = Proxy::after_resets(usize::MAX).await;
        let before = recorder.lines().len();
        let rabbit = rabbit(Duration::from_secs(4));
        rabbit
            .depth(&access_at(&vec![("127.0.0.1", broker.port); addresses]), &bench.queue, soon())
            .await
            .unwrap_err();
        assert!((16..=32).contains(&broker.accepted()), "{} connections", broker.accepted());
        let lines = recorder.lines().len() - before;
        assert!(lines <= 3, "{lines} lines");
    }
}

#[tokio::test]
async fn the_connection_test_tries_once() {
    let broker = Proxy::after_resets(usize::MAX).await;
    let report = rabbit(LONG).test(&broker.access(), None, soon()).await;
    assert!(!report.ok);
    assert_eq!(broker.accepted(), 1);
}

#[tokio::test]
async fn the_default_user_is_for_loopback_addresses() {
    let bench = Bench::new("guest").await;
    let mut access = Proxy::after_resets(0).await.access();
    access.credentials = None;
    // The broker has no user `guest`, so the broker refuses the login, not the gateway.
    let tried = rabbit(LONG).depth(&access, &bench.queue, soon()).await.unwrap_err();
    assert!(matches!(tried, BrokerError::AuthenticationFailed { .. }), "{tried}");
    // One address that is not loopback is enough.
    access.endpoint.addresses.extend("broker.example:5672".parse());
    let refused = rabbit(LONG).depth(&access, &bench.queue, soon()).await.unwrap_err();
    assert!(
        matches!(&refused, BrokerError::Unsupported { detail, .. } if detail.contains("auth.user")),
        "{refused}"
    );
    bench.clean().await;
}
