use std::sync::{Arc, Weak};

use catalog::{DatabaseConfig, Tls};
use test_support::postgres::{Cluster, PASSWORD};

/// The process's one, for tests that need nothing special.
pub(crate) async fn shared() -> Arc<Cluster> {
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
    DatabaseConfig {
        host: "127.0.0.1".to_owned(),
        port: cluster.port(),
        dbname: "postgres".to_owned(),
        user: "postgres".to_owned(),
        password: PASSWORD.into(),
        tls: Tls::Off,
    }
}
