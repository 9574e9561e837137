use std::sync::{Arc, Weak};

use catalog::DatabaseConfig;
use test_support::postgres::Cluster;

/// Returns the URL of the PostgreSQL server that `DATABASE_URL` names, or else of one that this
/// process starts. A started server ends when its [`Cluster`] is dropped.
pub(super) async fn usual() -> (String, Option<Arc<Cluster>>) {
    match std::env::var("DATABASE_URL") {
        Ok(url) if !url.is_empty() => (url, None),
        _ => {
            let cluster = shared().await;
            (cluster.url(), Some(cluster))
        }
    }
}

async fn shared() -> Arc<Cluster> {
    static SHARED: tokio::sync::Mutex<Weak<Cluster>> = tokio::sync::Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(cluster) = shared.upgrade() {
        return cluster;
    }
    let cluster = Arc::new(Cluster::start(&[]).await);
    *shared = Arc::downgrade(&cluster);
    cluster
}

pub(crate) fn config(cluster: &Cluster) -> DatabaseConfig {
    DatabaseConfig::from_url(&cluster.url()).unwrap()
}
