//! Databases that the migrations were applied to.

use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// Creates a migrated database on the server at this URL, and returns the database's name. The
/// first caller on a server prepares a template database with `migrate`; every database is a copy
/// of the template.
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
