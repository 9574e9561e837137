//! Tests of connections to RabbitMQ: they are reused, replaced when they are broken, limited in
//! number, and never kept with an open channel.

use std::time::{Duration, Instant};

use mq::{Access, BrokerError, Credentials, Outgoing, RateLimit};

use broker::{Broker as _, ConnectionSettings, Deadline};
use rabbitmq::{RabbitMq, Settings};
use secrecy::SecretString;
use test_support::ports;
use tokio::sync::watch;

use crate::proxy::Proxy;
use crate::support::{
    Bench, COMMIT, PLENTY, access, access_at, command, consume, rabbit, random, seed, soon,
};

fn with_heartbeat(seconds: u64) -> RabbitMq {
    let connections =
        ConnectionSettings { heartbeat: Duration::from_secs(seconds), ..ConnectionSettings::default() };
    RabbitMq::with_settings(Settings { connections, ..Settings::default() })
}

fn version(access: Access, version: &str) -> Access {
    Access { secret_version: version.to_owned(), ..access }
}

#[tokio::test]
async fn requests_share_a_connection() {
    let (bench, proxy, rabbit) = (Bench::new("share").await, Proxy::start().await, rabbit());
    for _ in 0..5 {
        assert_eq!(rabbit.depth(&proxy.access(), &bench.queue, soon()).await.unwrap().current_depth, 0);
    }
    assert_eq!(proxy.accepted(), 1);
    let pools = rabbit.pools();
    assert_eq!((pools[0].open, pools[0].in_use, pools[0].max_size), (1, 0, 5));
    assert!(pools[0].target.starts_with("rabbitmq://127.0.0.1:"));
    bench.clean().await;
}

#[tokio::test]
async fn a_connection_that_was_broken_meanwhile_is_replaced() {
    let (bench, proxy, rabbit) = (Bench::new("broken").await, Proxy::start().await, rabbit());
    for round in 1..4 {
        rabbit.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
        assert_eq!(proxy.accepted(), round);
        proxy.cut().await;
    }
    bench.clean().await;
}

#[tokio::test]
async fn a_connection_that_hangs_is_replaced() {
    let (bench, proxy, rabbit) = (Bench::new("hangs").await, Proxy::start().await, with_heartbeat(60));
    rabbit.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
    proxy.freeze();
    let started = Instant::now();
    rabbit.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(proxy.accepted(), 2);
    bench.clean().await;
}

#[tokio::test]
async fn a_doubtful_connection_is_probed_and_a_dead_one_not_even_that() {
    let (bench, proxy) = (Bench::new("idle").await, Proxy::start().await);
    let doubtful = with_heartbeat(4);
    doubtful.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
    proxy.freeze();
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    let started = Instant::now();
    doubtful.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(proxy.accepted(), 2);

    let dead = with_heartbeat(1);
    dead.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    dead.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
    assert_eq!(proxy.accepted(), 4);
    bench.clean().await;
}

#[tokio::test]
async fn the_least_recently_used_connection_makes_room() {
    let (bench, proxy, rabbit) = (Bench::new("lru").await, Proxy::start().await, RabbitMq::new(2));
    let use_version = async |name: &str| {
        rabbit.depth(&version(proxy.access(), name), &bench.queue, soon()).await.unwrap();
        proxy.accepted()
    };
    assert_eq!(use_version("1").await, 1);
    assert_eq!(use_version("2").await, 2);
    assert_eq!(use_version("1").await, 2);
    assert_eq!(use_version("3").await, 3);
    assert_eq!(proxy.settled(2).await, 2);
    assert_eq!(use_version("1").await, 3);
    assert_eq!(use_version("2").await, 4);
    assert_eq!(proxy.settled(2).await, 2);
    assert_eq!(rabbit.pools().iter().map(|pool| pool.open).sum::<usize>(), 2);
    bench.clean().await;
}

#[tokio::test]
async fn the_cap_holds_for_connections_in_use() {
    let (bench, proxy, rabbit) = (Bench::new("cap").await, Proxy::start().await, RabbitMq::new(1));
    bench.put_numbered(1).await;
    let unit =
        rabbit.fetch(&proxy.access(), &bench.queue, &consume(COMMIT, 1, 0), PLENTY, soon()).await.unwrap();
    assert_eq!((rabbit.pools()[0].open, rabbit.pools()[0].in_use), (1, 1));
    let deadline = Deadline::after(Duration::from_millis(300));
    let error = rabbit.depth(&version(access(), "2"), &bench.queue, deadline).await.unwrap_err();
    assert!(matches!(error, BrokerError::PoolTimeout { .. }), "{error:?}");
    unit.commit(soon()).await.unwrap();
    rabbit.depth(&version(access(), "2"), &bench.queue, soon()).await.unwrap();
    assert_eq!(proxy.settled(0).await, 0);
    bench.clean().await;
}

#[tokio::test]
async fn addresses_are_tried_in_order_and_the_one_that_worked_comes_first() {
    let (bench, first, second) = (Bench::new("addresses").await, Proxy::start().await, Proxy::start().await);
    let (_silent, silent_port) = ports::listen().await;
    let access = access_at(&[
        ("127.0.0.1", 1),
        ("127.0.0.1", silent_port),
        ("127.0.0.1", first.port),
        ("127.0.0.1", second.port),
    ]);
    let rabbit = rabbit();
    let deadline = || Deadline::after(Duration::from_secs(6));
    rabbit.depth(&access, &bench.queue, deadline()).await.unwrap();
    first.cut().await;
    let started = Instant::now();
    rabbit.depth(&access, &bench.queue, deadline()).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!((first.accepted(), second.accepted()), (2, 0));
    bench.clean().await;
}

#[tokio::test]
async fn what_cannot_be_reached_says_so_in_time() {
    let bench = Bench::absent("unreachable").await;
    let (_silent, silent_port) = ports::listen().await;
    let rabbit = rabbit();
    for (host, port) in [("127.0.0.1", 1), ("no-such-host.invalid", 5672), ("127.0.0.1", silent_port)] {
        let started = Instant::now();
        let deadline = Deadline::after(Duration::from_secs(2));
        let error = rabbit.depth(&access_at(&[(host, port)]), &bench.queue, deadline).await.unwrap_err();
        assert!(
            matches!(error, BrokerError::Unreachable { .. } | BrokerError::Timeout { .. }),
            "{host}:{port}: {error:?}"
        );
        assert!(started.elapsed() < Duration::from_millis(2_500));
    }
    assert_eq!(rabbit.pools(), vec![]);
}

#[tokio::test]
async fn refused_logins_are_told_apart() {
    let (bench, rabbit) = (Bench::new("login").await, rabbit());
    let mut wrong_password = access();
    wrong_password.credentials =
        Some(Credentials { user: "guest".to_owned(), password: SecretString::from("not-the-password") });
    let error = rabbit.depth(&wrong_password, &bench.queue, soon()).await.unwrap_err();
    let BrokerError::AuthenticationFailed { detail, reply: Some(reply), .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!((reply.product, reply.code, reply.name), ("RabbitMQ", 403, "ACCESS_REFUSED"));
    assert!(!detail.contains("not-the-password"));

    let mut wrong_vhost = access();
    wrong_vhost.endpoint.queue_manager = "no-such-vhost".to_owned();
    let error = rabbit.depth(&wrong_vhost, &bench.queue, soon()).await.unwrap_err();
    let BrokerError::Rejected { detail, reply: Some(reply), .. } = error else { panic!("{error:?}") };
    assert_eq!((reply.code, reply.name), (530, "NOT_ALLOWED"));
    assert!(detail.contains("no-such-vhost"));
    bench.clean().await;
}

#[tokio::test]
async fn a_request_that_is_given_up_leaves_nothing_open() {
    let (bench, proxy, rabbit) = (Bench::new("given-up").await, Proxy::start().await, rabbit());
    let (access, command) = (proxy.access(), consume(COMMIT, 1, 10));
    let fetch = rabbit.fetch(&access, &bench.queue, &command, PLENTY, soon());
    assert!(tokio::time::timeout(Duration::from_millis(700), fetch).await.is_err());
    assert_eq!(proxy.settled(0).await, 0);
    assert_eq!(rabbit.pools(), vec![]);
    bench.put_numbered(1).await;
    assert_eq!(bench.ready(1).await, 1);
    bench.clean().await;
}

#[tokio::test]
async fn a_produce_that_loses_its_connection_names_what_is_in_doubt() {
    for (name, is_cut) in [("doubt-cut", true), ("doubt-frozen", false)] {
        let (bench, proxy, rabbit) = (Bench::new(name).await, Proxy::start().await, rabbit());
        let mut command = command(random(2_000, 100));
        command.rate_limit_per_sec = Some(RateLimit::try_from(500).unwrap());
        let (access, outgoing) = (proxy.access(), Outgoing::new(&command, seed()));
        let deadline = Deadline::after(Duration::from_secs(3));
        let confirmed = watch::Sender::new(0);
        let produce = rabbit.produce(&access, &bench.queue, &outgoing, 0, &confirmed, deadline);
        let disturb = async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            if is_cut {
                proxy.cut().await;
            } else {
                proxy.freeze();
            }
        };
        let started = Instant::now();
        let (result, ()) = tokio::join!(produce, disturb);
        let failure = result.unwrap_err();
        assert!(started.elapsed() < Duration::from_millis(3_300), "{:?}", started.elapsed());
        assert!(matches!(failure.error, BrokerError::InDoubt { .. }), "{failure:?}");
        assert!(failure.committed > 50 && !failure.in_doubt.is_empty(), "{failure:?}");
        assert_eq!(failure.in_doubt[0], outgoing.message_id(failure.committed));
        proxy.cut().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let ready = u64::from(bench.count().await);
        let most = failure.committed + u64::try_from(failure.in_doubt.len()).unwrap();
        assert!((failure.committed..=most).contains(&ready), "{ready} of {failure:?}");
        bench.clean().await;
    }
}

#[tokio::test]
async fn a_commit_without_an_answer_is_in_doubt_and_a_rollback_is_not() {
    let (bench, proxy, rabbit) = (Bench::new("commit-doubt").await, Proxy::start().await, rabbit());
    let access = proxy.access();
    // From here on the connection knows the queue's type, and need not ask before it commits.
    bench.put_numbered(1).await;
    let unit = rabbit.fetch(&access, &bench.queue, &consume(COMMIT, 1, 0), PLENTY, soon()).await.unwrap();
    unit.commit(soon()).await.unwrap();
    bench.put_numbered(2).await;
    for is_commit in [true, false] {
        let unit = rabbit.fetch(&access, &bench.queue, &consume(COMMIT, 2, 0), PLENTY, soon()).await.unwrap();
        proxy.freeze();
        let deadline = Deadline::after(Duration::from_millis(600));
        if is_commit {
            let error = unit.commit(deadline).await.unwrap_err();
            assert!(matches!(error, BrokerError::InDoubt { .. }), "{error:?}");
        } else {
            unit.rollback(deadline).await.unwrap();
        }
        proxy.cut().await;
        assert_eq!(bench.ready(2).await, 2);
    }
    let unit = rabbit.fetch(&access, &bench.queue, &consume(COMMIT, 2, 0), PLENTY, soon()).await.unwrap();
    proxy.cut().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let error = unit.commit(soon()).await.unwrap_err();
    assert!(matches!(error, BrokerError::Unreachable { .. } | BrokerError::InDoubt { .. }), "{error:?}");
    assert_eq!(bench.ready(2).await, 2);
    bench.clean().await;
}

#[tokio::test]
async fn given_up_connections_leave_no_thread_behind() {
    let (bench, proxy, rabbit) = (Bench::new("threads").await, Proxy::start().await, rabbit());
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    rabbit.depth(&proxy.access(), &bench.queue, soon()).await.unwrap();
    let before = threads();
    for round in 0..10 {
        if round % 2 == 0 {
            proxy.freeze();
        }
        let (access, command) = (proxy.access(), consume(COMMIT, 1, 5));
        let deadline = Deadline::after(Duration::from_millis(200));
        let _ = rabbit.fetch(&access, &bench.queue, &command, PLENTY, deadline).await;
    }
    drop(rabbit);
    for _ in 0..100 {
        if threads() <= before {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(threads() <= before, "{} threads, {before} before", threads());
    bench.clean().await;
}
