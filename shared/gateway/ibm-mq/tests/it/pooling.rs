use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use broker::{Broker as _, ConnectionCap, ConnectionSettings, Deadline};
use ibm_mq::Settings;
use mq::{Ack, AckMode, BrokerError, IdleRule};
use serde_json::json;
use test_support::log::Sink;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::support::{QueueManager, bodies, consume, deadline, limits, queue, texts};

const COMMIT: AckMode = AckMode::Take(Ack::Commit);

#[tokio::test]
async fn a_connection_is_kept_for_its_target_and_user_and_makes_room_for_others() {
    let manager = QueueManager::start();
    let client = manager.client_with(Settings::default(), 2);
    for _ in 0..3 {
        client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap();
    }
    assert_eq!((client.cap.open(), manager.connections()), (1, 1));
    for version in ["2", "3", "4"] {
        let mut access = client.access.clone();
        access.secret_version = version.to_owned();
        client.broker.depth(&access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap();
    }
    client.has_open(2).await;
    assert_eq!(manager.connections(), 2);
    let [report] = &client.broker.pools()[..] else { panic!("{:?}", client.broker.pools()) };
    assert_eq!((report.open, report.in_use, report.max_size), (2, 0, 2));
    assert_eq!(report.target, format!("ibmmq://127.0.0.1:{}/{}", manager.port, manager.name));
}

#[tokio::test]
async fn no_more_connections_are_open_than_the_cap_allows() {
    let manager = QueueManager::start();
    let settings = limits(ConnectionSettings {
        pool_timeout: Duration::from_millis(300),
        ..ConnectionSettings::default()
    });
    let client = manager.client_with(settings, 1);
    client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
    let unit = client.fetch("DEV.QUEUE.1", &consume(1, COMMIT)).await.unwrap();
    let error = client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap_err();
    assert!(matches!(error, BrokerError::PoolTimeout { .. }), "{error}");
    unit.commit(deadline()).await.unwrap();
    assert!(client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.is_ok());
}

#[tokio::test]
async fn ten_clients_share_a_channel_that_admits_five() {
    let manager = QueueManager::start();
    let clients: Vec<_> = (0..10)
        .map(|_| {
            let mut client = manager.client_with(Settings::default(), 1);
            client.access.endpoint.channel = Some("DEV.NARROW.SVRCONN".to_owned());
            client
        })
        .collect();
    let mut admitted = 0;
    for client in &clients {
        let soon = Deadline::after(Duration::from_millis(600));
        match client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), soon).await {
            Ok(_) => admitted += 1,
            Err(BrokerError::Unreachable { detail, .. }) => assert!(detail.contains("2537"), "{detail}"),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(admitted, 5);
}

#[tokio::test]
async fn a_connection_that_is_not_kept_has_ended_before_the_answer() {
    let manager = QueueManager::start();
    let mut client = manager.client();
    client.access.idle = IdleRule::Close;
    client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
    client.broker.settle(deadline()).await;
    assert_eq!((client.cap.open(), manager.connections()), (0, 0));
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 1).await), ["a"]);
    client.broker.depth(&client.access, &queue("NO.SUCH.QUEUE"), deadline()).await.unwrap_err();
    client.broker.settle(deadline()).await;
    assert_eq!((client.cap.open(), manager.connections()), (0, 0));
}

#[tokio::test]
async fn an_idle_connection_makes_room_in_its_channel_for_one_of_another_user() {
    let manager = QueueManager::start();
    let client = manager.client();
    let mut other = client.access.clone();
    other.secret_version = "2".to_owned();
    manager.control(&json!({"channel_limit": {"channel": "DEV.APP.SVRCONN", "instances": 1}}));
    for access in [&client.access, &other, &client.access] {
        client.broker.depth(access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap();
    }
    let (most, refused) = manager.since_limit();
    assert_eq!(most, 1);
    assert!(refused >= 2, "{refused}");
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_is_probed_and_replaced_if_it_is_dead() {
    let mut manager = QueueManager::start();
    let settings =
        limits(ConnectionSettings { heartbeat: Duration::from_millis(400), ..ConnectionSettings::default() });
    let client = manager.client_with(settings, 1);
    let depth = async || client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await;
    depth().await.unwrap();
    manager.kill();
    manager.run();
    tokio::time::sleep(Duration::from_millis(300)).await;
    depth().await.unwrap();
    assert_eq!(client.cap.open(), 1);
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    depth().await.unwrap();
    assert_eq!((client.cap.open(), manager.connections()), (1, 1));
}

/// Checks that a put and a get open another connection if MQOPEN shows that the idle one is broken.
#[tokio::test]
async fn a_put_and_a_get_begin_again_on_another_connection_if_the_idle_one_is_dead() {
    let mut manager = QueueManager::start();
    let client = manager.client_with(Settings::default(), 1);
    for (round, key) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(client.put("DEV.QUEUE.1", &texts(&[key]), key).await.unwrap().enqueued, 1);
        manager.kill();
        manager.run();
        if round == 1 {
            manager.fault(&json!({"verb": "MQOPEN", "reason": 2162}));
        }
        assert_eq!(bodies(&client.take("DEV.QUEUE.1", 5).await), [key]);
        manager.fault(&json!({"verb": "MQOPEN", "cut": true}));
    }
    assert_eq!((client.cap.open(), manager.depth("DEV.QUEUE.1")), (1, 0));
}

#[tokio::test]
async fn what_the_queue_manager_says_of_the_queue_is_no_reason_for_another_connection() {
    let manager = QueueManager::start();
    let client = manager.client_with(Settings::default(), 1);
    client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
    for (reason, code) in [(2085, None), (2035, Some(2035)), (2045, Some(2045))] {
        manager.fault(&json!({"verb": "MQOPEN", "reason": reason}));
        let error = client.fetch("DEV.QUEUE.1", &consume(1, COMMIT)).await.map(drop).unwrap_err();
        match code {
            None => assert!(matches!(error, BrokerError::QueueNotFound { .. }), "{error}"),
            Some(code) => assert_eq!(error.reply().map(|reply| reply.code), Some(code), "{error}"),
        }
        let failure = {
            manager.fault(&json!({"verb": "MQOPEN", "reason": reason}));
            client.put("DEV.QUEUE.1", &texts(&["b"]), "b").await.unwrap_err()
        };
        assert_eq!((failure.committed, client.cap.open()), (0, 1), "{failure}");
    }
    assert_eq!((manager.connections(), manager.depth("DEV.QUEUE.1")), (1, 1));
}

/// Checks that a get which was given up while its connection hung takes no message when the queue
/// manager continues.
#[tokio::test]
async fn a_get_that_was_given_up_while_the_queue_was_opened_takes_nothing() {
    let manager = QueueManager::start();
    let settings = limits(ConnectionSettings {
        pool_timeout: Duration::from_millis(200),
        ..ConnectionSettings::default()
    });
    let client = manager.client_with(settings, 1);
    client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
    let frozen = manager.frozen();
    let command = consume(1, COMMIT);
    let error = client.fetch("DEV.QUEUE.1", &command).await.map(drop).unwrap_err();
    assert!(matches!(error, BrokerError::PoolTimeout { .. }), "{error}");
    drop(frozen);
    client.has_open(0).await;
    assert_eq!(manager.depth("DEV.QUEUE.1"), 1);
    let taken = client.take("DEV.QUEUE.1", 5).await;
    assert_eq!(
        (bodies(&taken), taken.messages.first().map(|message| message.backout_count)),
        (vec!["a".to_owned()], Some(0))
    );
}

#[tokio::test]
async fn connections_that_were_idle_for_long_end_whatever_the_next_request_is_about() {
    let manager = QueueManager::start();
    let settings =
        limits(ConnectionSettings { heartbeat: Duration::from_millis(200), ..ConnectionSettings::default() });
    let client = manager.client_with(settings, 2);
    client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap();
    client.broker.end_stale();
    assert_eq!(client.broker.pools().len(), 1);
    tokio::time::sleep(Duration::from_millis(500)).await;
    client.broker.end_stale();
    assert!(client.broker.pools().is_empty());
    client.has_open(0).await;
}

/// Checks that an operation returns by its deadline even if a call of the library hangs. The
/// hanging connection counts towards the cap until the call returns.
#[tokio::test]
async fn a_call_that_does_not_return_is_left_alone_and_counted() {
    let manager = QueueManager::start();
    let client = manager.client_with(
        limits(ConnectionSettings {
            pool_timeout: Duration::from_millis(200),
            ..ConnectionSettings::default()
        }),
        1,
    );
    client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap();
    let frozen = manager.frozen();
    let started = Instant::now();
    let soon = Deadline::after(Duration::from_millis(500));
    let error = client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), soon).await.unwrap_err();
    // It is probed first, and there is no permit for another connection.
    let is_in_time = matches!(error, BrokerError::Timeout { .. } | BrokerError::PoolTimeout { .. });
    assert!(is_in_time, "{error}");
    assert!(started.elapsed() < Duration::from_secs(2));
    let error = client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap_err();
    assert!(matches!(error, BrokerError::PoolTimeout { .. }), "{error}");
    assert_eq!(client.cap.open(), 1);
    drop(frozen);
    client.has_open(0).await;
    assert!(client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.is_ok());
    assert_eq!(manager.connections(), 1);
}

/// Checks that later requests fail in bounded time if MQDISC calls are never answered, as in a
/// network that drops packets. Such calls keep their connections' permits under the cap.
#[tokio::test]
async fn connections_that_hang_while_they_end_are_no_reason_to_wait_for_ever() {
    const HANGS: Duration = Duration::from_millis(300);
    let mut manager = QueueManager::start();
    let cap = ConnectionCap::hanging_after(2, HANGS);
    let settings = limits(ConnectionSettings { pool_timeout: HANGS, ..ConnectionSettings::default() });
    let mut client = manager.client_under(settings, cap);
    client.access.idle = IdleRule::Close;
    let depth = async || client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await;
    for _ in 0..2 {
        manager.fault(&json!({"verb": "MQDISC", "hang": true}));
        depth().await.unwrap();
        client.broker.settle(Deadline::after(HANGS)).await;
    }
    assert_eq!(client.cap.open(), 2);
    let error = depth().await.unwrap_err();
    assert!(matches!(error, BrokerError::PoolTimeout { .. }), "{error}");
    assert!(client.cap.is_exhausted());
    // Once the calls return, all permits are free.
    manager.kill();
    manager.run();
    client.has_open(0).await;
    assert!(!client.cap.is_exhausted());
    depth().await.unwrap();
}

#[tokio::test]
async fn the_events_of_connections_are_those_of_the_connection_model() {
    let sink = Sink::default();
    let writer = sink.clone();
    let filter = tracing_subscriber::EnvFilter::new("info,broker=debug");
    let envelope = runtime::Envelope::to(move || writer.clone());
    // For the threads that own connections, too. Each test runs in a process of its own.
    let subscriber = tracing_subscriber::registry().with(filter).with(envelope);
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut manager = QueueManager::start();
    let mut client = manager.client_with(
        limits(ConnectionSettings {
            pool_timeout: Duration::from_millis(50),
            retry_for: Duration::from_secs(3),
            ..ConnectionSettings::default()
        }),
        1,
    );
    let held = {
        client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
        client.fetch("DEV.QUEUE.1", &consume(1, COMMIT)).await.unwrap()
    };
    client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap_err();
    held.commit(deadline()).await.unwrap();
    manager.kill();
    let soon = Deadline::after(Duration::from_secs(4));
    client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), soon).await.unwrap_err();
    manager.run();
    client.access.idle = IdleRule::Close;
    client.broker.depth(&client.access, &queue("DEV.QUEUE.1"), deadline()).await.unwrap();
    client.broker.settle(deadline()).await;

    let lines = sink.lines();
    let seen: BTreeSet<_> = lines.iter().filter_map(|line| line["event_type"].as_str()).collect();
    let expected = [
        "connection.disconnected",
        "connection.established",
        "connection.failed",
        "connection.lost",
        "connection.reconnecting",
        "pool.connection_acquired",
        "pool.connection_released",
        "pool.timeout",
    ];
    assert_eq!(seen, BTreeSet::from(expected), "{}", sink.text());
    for line in &lines {
        let context = &line["context"];
        assert_eq!((&context["broker"], &context["host"]), (&json!("IBM MQ"), &json!("127.0.0.1")), "{line}");
        assert_eq!(
            (&context["queue_manager"], &context["user"]),
            (&json!(manager.name), &json!("app")),
            "{line}"
        );
        assert!(context["vhost"].is_null(), "{line}");
    }
    assert!(!sink.text().contains("passw0rd"), "{}", sink.text());
}
