//! Databases that the migrations were applied to.

use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// Makes a database at the server of this URL, and returns its name. It is a copy of one that the
/// first of the tests at the server lets `migrate` prepare for all of them.
pub async fn migrated(server: &str, migrate: impl AsyncFnOnce(String)) -> String {
    const TEMPLATE: &str = "migrated";
    // Also held while copying: PostgreSQL copies no database that is in use.
    const LOCK: &str = "SELECT pg_advisory_lock(hashtext('the template of the tests'))";
    let (administrator, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    administrator.batch_execute(LOCK).await.unwrap();
    let exists = "SELECT 1 FROM pg_database WHERE datname = $1";
    if administrator.query_opt(exists, &[&TEMPLATE]).await.unwrap().is_none() {
        let made = create(&administrator, "").await;
        migrate(made.clone()).await;
        let rename = format!("ALTER DATABASE {made} RENAME TO {TEMPLATE}");
        // A connection that was closed takes a moment to end.
        let mut attempts = 0..500;
        while let Err(error) = administrator.batch_execute(&rename).await {
            assert!(attempts.next().is_some(), "{error:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    create(&administrator, &format!(" TEMPLATE {TEMPLATE}")).await
}

async fn create(administrator: &Client, options: &str) -> String {
    let name = format!("test_{}", Uuid::new_v4().simple());
    administrator.batch_execute(&format!("CREATE DATABASE {name}{options}")).await.unwrap();
    name
}
