//! Tests of the checklist of the connection model for long-running programs, item by item.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use broker::Deadline;
use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use rabbitmq::long_running::ConnectionState::{Connected, Connecting, Disconnected, Failed, Reconnecting};
use rabbitmq::long_running::{
    ConnectionArguments, ConnectionConfig, ConnectionError, ConnectionManager, ConnectionPool, Host,
    PoolError, PoolLimits, RetryPolicy,
};
use secrecy::SecretString;
use test_support::ports;

use crate::support::{Queue, arguments, load, proxy, soon, uri};

/// Returns the configuration of a connection to the broker through the proxy on `port` of this
/// host.
fn config(port: u16) -> ConnectionConfig {
    changed(port, |_| {})
}

fn changed(port: u16, change: impl Fn(&mut ConnectionArguments)) -> ConnectionConfig {
    let mut arguments = arguments(port);
    change(&mut arguments);
    load(&arguments)
}

fn manager(config: ConnectionConfig) -> ConnectionManager {
    let quick = RetryPolicy::new(0.05, 2.0, 0.2).unwrap();
    ConnectionManager::new(config).with_retry_policy(quick)
}

fn pool(config: ConnectionConfig, max_size: usize) -> ConnectionPool {
    ConnectionPool::new(config, PoolLimits { max_size, timeout: Duration::from_secs(1) }).unwrap()
}

#[test]
fn connection_config_validates_every_field() {
    let bad = ConnectionArguments {
        host: Some(String::new()),
        port: Some(0),
        user: Some(String::new()),
        password: Some(SecretString::from("")),
        vhost: Some(String::new()),
        timeout: Some(301),
        heartbeat: Some(3_601),
        ..Default::default()
    };
    let error = bad.load_from(|_| None, Path::new("no-such-file")).unwrap_err();
    assert_eq!(error.0.len(), 7, "{error}");
}

#[test]
fn connection_config_keeps_the_password_out_of_its_representation() {
    let arguments =
        ConnectionArguments { password: Some(SecretString::from("pw-unseen")), ..Default::default() };
    let config = arguments.load_from(|_| None, Path::new("no-such-file")).unwrap();
    assert!(!format!("{config:?} {}", config.get_connection_url()).contains("pw-unseen"));
}

#[test]
fn connection_state_transitions_are_those_of_the_diagram() {
    assert_eq!(Disconnected.transition_to(Connecting), Ok(Connecting));
    assert_eq!(Connecting.transition_to(Connected), Ok(Connected));
    assert_eq!(Connected.transition_to(Reconnecting), Ok(Reconnecting));
    assert_eq!(Reconnecting.transition_to(Connected), Ok(Connected));
    assert_eq!(Reconnecting.transition_to(Failed), Ok(Failed));
    for state in [Connecting, Connected, Reconnecting, Failed] {
        assert_eq!(state.transition_to(Disconnected), Ok(Disconnected));
    }
    let illegal = Disconnected.transition_to(Connected).unwrap_err();
    assert_eq!(illegal.to_string(), "a connection that is disconnected cannot become connected");
}

#[test]
fn retry_policy_doubles_from_one_second_to_sixty() {
    let mut policy = RetryPolicy::default();
    let delays: Vec<_> = (0..8).map(|_| policy.next_delay().as_secs()).collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(policy.get_stats().attempts, 8);
}

#[test]
fn retry_policy_reset_restores_the_initial_state() {
    let mut policy = RetryPolicy::default();
    policy.next_delay();
    policy.reset();
    assert_eq!(policy, RetryPolicy::default());
}

#[tokio::test]
async fn health_status_is_healthy_where_the_broker_answers() {
    let proxy = proxy().await;
    let manager = manager(config(proxy.port));
    let health = manager.check_health(soon()).await;
    assert!(!health.is_connected && !health.is_healthy());
    manager.connect(soon()).await.unwrap();
    let health = manager.check_health(soon()).await;
    assert!(health.is_healthy() && health.is_healthy() && health.latency_ms > 0.0, "{health:?}");
    assert_eq!(health.error_message, None);
    proxy.freeze();
    let health = manager.check_health(Deadline::after(Duration::from_millis(300))).await;
    assert!(!health.broker_available && !health.is_healthy(), "{health:?}");
    assert!(health.error_message.is_some());
}

#[tokio::test]
async fn connection_manager_makes_one_real_connection() {
    let proxy = proxy().await;
    let manager = manager(config(proxy.port));
    assert_eq!(manager.get_status(), Disconnected);
    let (first, second) = tokio::join!(manager.connect(soon()), manager.connect(soon()));
    first.and(second).unwrap();
    manager.ensure_connected(soon()).await.unwrap();
    assert_eq!((manager.get_status(), proxy.accepted()), (Connected, 1));
    let channel = manager.channel(soon()).await.unwrap();
    let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
    channel.queue_declare("".into(), options, FieldTable::default()).await.unwrap();
    manager.disconnect().await;
    assert_eq!((manager.get_status(), proxy.settled(0).await), (Disconnected, 0));
    manager.disconnect().await;
    assert_eq!(manager.get_status(), Disconnected);
}

#[tokio::test]
async fn connection_manager_tells_refused_credentials_from_other_errors() {
    let port = uri().authority.port;
    let wrong = |arguments: &mut ConnectionArguments| {
        arguments.password = Some(SecretString::from("not-the-password"));
    };
    let refused = manager(changed(port, wrong));
    let error = refused.connect(soon()).await.unwrap_err();
    assert!(matches!(error, ConnectionError::AuthenticationError(_)), "{error:?}");
    assert_eq!(refused.get_status(), Disconnected);
    let started = Instant::now();
    let error = refused.reconnect(soon()).await.unwrap_err();
    assert!(matches!(error, ConnectionError::AuthenticationError(_)), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "asking again would not help");
    assert_eq!(refused.get_status(), Failed);

    let nobody = manager(config(1));
    let error = nobody.connect(soon()).await.unwrap_err();
    assert!(matches!(error, ConnectionError::Other(_)) && error.is_transient(), "{error:?}");

    let (_silent, silent_port) = ports::listen().await;
    let silent = manager(config(silent_port));
    let error = silent.connect(Deadline::after(Duration::from_millis(300))).await.unwrap_err();
    assert!(matches!(error, ConnectionError::ConnectionTimeout(_)), "{error:?}");

    let vhost = manager(changed(port, |arguments| arguments.vhost = Some("no-such-vhost".to_owned())));
    let error = vhost.connect(soon()).await.unwrap_err();
    assert!(matches!(error, ConnectionError::Other(_)) && !error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn connection_manager_reconnects_after_a_loss() {
    let proxy = proxy().await;
    let manager = manager(config(proxy.port));
    manager.connect(soon()).await.unwrap();
    for round in 2..5 {
        let mut states = manager.subscribe();
        proxy.cut().await;
        tokio::time::timeout(Duration::from_secs(5), states.wait_for(|state| *state == Reconnecting))
            .await
            .expect("the loss is noticed")
            .unwrap();
        manager.ensure_connected(soon()).await.unwrap();
        assert_eq!((manager.get_status(), proxy.accepted()), (Connected, round));
    }
    let held = manager.monitor().unwrap();
    manager.reconnect(soon()).await.unwrap();
    assert_eq!((manager.get_status(), proxy.accepted()), (Connected, 5));
    assert_eq!(proxy.settled(1).await, 1, "there is one connection, whoever holds the old one's monitor");
    assert!(!held.check_health(soon()).await.is_healthy());
    assert_eq!(manager.get_status(), Connected, "the old monitor has no say any more");
    proxy.freeze();
    manager.reconnect(soon()).await.unwrap();
    assert_eq!((manager.get_status(), proxy.accepted()), (Connected, 6));
    drop(manager);
    drop(held);
}

#[tokio::test]
async fn connection_manager_fails_when_the_deadline_ends_its_attempts() {
    let manager = manager(config(1));
    let started = Instant::now();
    let error = manager.reconnect(Deadline::after(Duration::from_millis(700))).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(started.elapsed() < Duration::from_millis(900));
    assert_eq!(manager.get_status(), Failed);
    assert!(manager.retry_stats().attempts >= 3, "{:?}", manager.retry_stats());
    manager.disconnect().await;
    assert_eq!(manager.get_status(), Disconnected);
}

#[tokio::test]
async fn connection_manager_is_left_disconnected_by_whoever_gives_up() {
    let manager = manager(config(1));
    let given_up = tokio::time::timeout(Duration::from_millis(200), manager.reconnect(soon())).await;
    assert!(given_up.is_err());
    assert_eq!(manager.get_status(), Disconnected);
}

#[tokio::test]
async fn connection_pool_hands_connections_out_and_takes_them_back() {
    let (queue, proxy) = (Queue::declare().await, proxy().await);
    let pool = pool(config(proxy.port), 2);
    let first = pool.acquire(soon()).await.unwrap();
    let second = pool.acquire(soon()).await.unwrap();
    assert!(first.in_use() && first.created_at() <= first.last_used());
    assert_eq!((pool.get_stats().total, pool.get_stats().in_use, pool.get_stats().available), (2, 2, 0));
    queue.put(b"one").await;
    let got = first.channel().basic_get(queue.name.clone(), BasicGetOptions { no_ack: false }).await;
    assert!(got.unwrap().is_some());
    pool.release(first).await;
    assert_eq!(queue.ready(1).await, 1, "what was not acknowledged went back");
    pool.release(second).await;
    assert_eq!((pool.get_stats().in_use, pool.get_stats().available), (0, 2));

    let mut again = pool.acquire(soon()).await.unwrap();
    assert!(again.check_health(soon()).await && again.health_status().is_healthy());
    again.reset(soon()).await.unwrap();
    assert_eq!(proxy.accepted(), 2, "connections are used again");
    pool.close().await;
    assert!(matches!(pool.acquire(soon()).await.unwrap_err(), PoolError::Closed));
    pool.release(again).await;
    assert_eq!((proxy.settled(0).await, pool.get_stats().total), (0, 0));
    queue.delete().await;
}

#[tokio::test]
async fn connection_pool_hands_out_only_what_answers() {
    let proxy = proxy().await;
    let pool = pool(config(proxy.port), 2);
    for break_it in [true, false] {
        let connection = pool.acquire(soon()).await.unwrap();
        pool.release(connection).await;
        if break_it {
            proxy.cut().await;
        } else {
            proxy.freeze();
        }
        let mut connection = pool.acquire(soon()).await.unwrap();
        assert!(connection.check_health(soon()).await);
        pool.release(connection).await;
    }
}

#[tokio::test]
async fn connection_pool_respects_its_timeout_and_its_bound() {
    let proxy = proxy().await;
    let pool = pool(config(proxy.port), 1);
    let held = pool.acquire(soon()).await.unwrap();
    let started = Instant::now();
    assert!(matches!(pool.acquire(soon()).await.unwrap_err(), PoolError::PoolTimeout));
    assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&started.elapsed()));
    drop(held);
    pool.acquire(soon()).await.unwrap();
    for limits in [
        PoolLimits { max_size: 0, ..Default::default() },
        PoolLimits { timeout: Duration::from_millis(999), ..Default::default() },
    ] {
        assert!(ConnectionPool::new(config(1), limits).is_err());
    }
}

#[tokio::test]
async fn connection_pool_serves_in_order_and_survives_who_gives_up() {
    let proxy = proxy().await;
    let pool = Arc::new(pool(config(proxy.port), 1));
    let held = pool.acquire(soon()).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for number in 0..4 {
        let (pool, order) = (Arc::clone(&pool), Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let connection = pool.acquire(soon()).await.unwrap();
            order.lock().unwrap().push(number);
            pool.release(connection).await;
        }));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    waiting.remove(1).abort();
    pool.release(held).await;
    for waiter in waiting {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 2, 3]);
    assert_eq!((pool.get_stats().total, pool.get_stats().in_use, proxy.accepted()), (1, 0, 1));
}

#[tokio::test]
async fn connection_monitor_notices_a_lost_connection() {
    let proxy = proxy().await;
    let quick = changed(proxy.port, |arguments| arguments.heartbeat = Some(1)).running_in(Host::Process);
    let losses = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&losses);
    let manager = manager(quick).on_connection_lost(move |why| seen.lock().unwrap().push(why.to_owned()));
    manager.connect(soon()).await.unwrap();
    let monitor = manager.monitor().unwrap();
    assert_eq!(monitor.heartbeat_interval(), Duration::from_secs(1));
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(manager.get_status(), Connected, "heartbeats keep it");
    assert!(jiff::Timestamp::now().duration_since(monitor.last_heartbeat()).as_secs() < 2);

    proxy.cut().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((manager.get_status(), losses.lock().unwrap().len()), (Reconnecting, 1));
    manager.ensure_connected(soon()).await.unwrap();

    proxy.freeze();
    let mut states = manager.subscribe();
    let noticed = states.wait_for(|state| *state == Reconnecting);
    tokio::time::timeout(Duration::from_secs(5), noticed).await.expect("missed heartbeats").unwrap();
    assert_eq!(losses.lock().unwrap().len(), 2);
}
