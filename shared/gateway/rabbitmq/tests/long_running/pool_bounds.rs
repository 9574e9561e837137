//! Property test of a connection pool's limit. Whatever is done with its connections, and however
//! often they break, the pool never has more than its maximum.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use rabbitmq::long_running::{ConnectionPool, PoolLimits};
use test_support::proxy::Proxy;

use crate::support::{arguments, load, proxy, soon};

#[derive(Clone, Copy, Debug)]
enum Use {
    Release,
    Drop,
    GiveUpAfter(u64),
    Break,
}

fn uses() -> impl Strategy<Value = Use> {
    prop_oneof![
        4 => Just(Use::Release),
        2 => Just(Use::Drop),
        2 => (0..15_u64).prop_map(Use::GiveUpAfter),
        1 => Just(Use::Break),
    ]
}

async fn one(pool: &ConnectionPool, proxy: &Proxy, way: Use) {
    let acquire = pool.acquire(soon());
    match way {
        Use::GiveUpAfter(milliseconds) => {
            let _ = tokio::time::timeout(Duration::from_millis(milliseconds), acquire).await;
        }
        Use::Release => {
            // The connection may break while it is made.
            if let Ok(connection) = acquire.await {
                tokio::task::yield_now().await;
                pool.release(connection).await;
            }
        }
        Use::Drop => drop(acquire.await),
        Use::Break => proxy.cut().await,
    }
}

async fn run(max_size: usize, ways: Vec<Use>) {
    let proxy = Arc::new(proxy().await);
    let config = load(&arguments(proxy.port));
    let limits = PoolLimits { max_size, timeout: Duration::from_secs(10) };
    let pool = Arc::new(ConnectionPool::new(config, limits).unwrap());
    let mut users = tokio::task::JoinSet::new();
    for way in ways {
        let (pool, proxy) = (Arc::clone(&pool), Arc::clone(&proxy));
        users.spawn(async move { one(&pool, &proxy, way).await });
    }
    while !users.is_empty() {
        let stats = pool.get_stats();
        assert!(stats.total <= max_size && stats.in_use + stats.available == stats.total, "{stats:?}");
        let _ = tokio::time::timeout(Duration::from_millis(1), users.join_next()).await;
    }
    assert_eq!(pool.get_stats().in_use, 0, "every place came back");
    pool.close().await;
    assert_eq!((pool.get_stats().total, proxy.settled(0).await), (0, 0));
}

proptest! {
    #![proptest_config(Config { cases: 12, ..Config::default() })]

    #[test]
    fn a_pool_never_exceeds_its_bound(max_size in 1..4_usize, ways in prop::collection::vec(uses(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(max_size, ways));
    }
}
