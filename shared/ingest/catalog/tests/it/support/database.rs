use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use catalog::{Database, DatabaseConfig, OwnerRule, Pruned};
use futures_util::FutureExt as _;
use ingestion::chunk::Chunk;
use secrecy::ExposeSecret as _;
use test_support::postgres::Cluster;
use tokio_postgres::{Client, NoTls, Row};

use super::server;

/// Database of a single test, with a client of the test's own.
pub(crate) struct TestDatabase {
    config: DatabaseConfig,
    /// Client with which the test reads and changes the tables directly, in place of the crate
    /// under test.
    pub(crate) client: Client,
    _cluster: Option<Arc<Cluster>>,
}

/// Runs a test with a new database that has all migrations. Drops the database afterwards, even if
/// the test panics.
pub(crate) fn database_test(test: impl AsyncFnOnce(&TestDatabase)) {
    run(None, test);
}

/// Runs a test like [`database_test`], with a database that has these locale options of `CREATE
/// DATABASE`.
pub(crate) fn collated_test(collation: &str, test: impl AsyncFnOnce(&TestDatabase)) {
    run(Some(collation), test);
}

fn run(collation: Option<&str>, test: impl AsyncFnOnce(&TestDatabase)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let database = match collation {
            None => TestDatabase::migrated().await,
            Some(collation) => {
                let (url, cluster) = server::usual().await;
                let server = DatabaseConfig::from_url(&url).unwrap();
                let database = TestDatabase::create(&server, cluster, &collated(collation)).await;
                database.open().migrate().await.unwrap();
                database
            }
        };
        let outcome = AssertUnwindSafe(test(&database)).catch_unwind().await;
        database.drop().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

fn collated(collation: &str) -> String {
    format!(" TEMPLATE template0 {collation}")
}

impl TestDatabase {
    /// Creates a new database for a test, with all migrations applied.
    pub(crate) async fn migrated() -> Self {
        let (url, cluster) = server::usual().await;
        let server = DatabaseConfig::from_url(&url).unwrap();
        let migrate = async |dbname| {
            let database = Database::new(DatabaseConfig { dbname, ..server.clone() });
            database.migrate().await.unwrap();
        };
        let dbname = test_support::postgres::migrated(&url, migrate).await;
        Self::at(DatabaseConfig { dbname, ..server }, cluster).await
    }

    pub(crate) async fn create(
        server: &DatabaseConfig,
        cluster: Option<Arc<Cluster>>,
        options: &str,
    ) -> Self {
        let dbname = format!("test_{}", uuid::Uuid::new_v4().simple());
        connect(server).await.batch_execute(&format!("CREATE DATABASE {dbname}{options}")).await.unwrap();
        Self::at(DatabaseConfig { dbname, ..server.clone() }, cluster).await
    }

    async fn at(config: DatabaseConfig, cluster: Option<Arc<Cluster>>) -> Self {
        let client = connect(&config).await;
        Self { config, client, _cluster: cluster }
    }

    async fn drop(self) {
        let Self { config, client, _cluster: cluster } = self;
        drop(client);
        let (url, _) = server::usual().await;
        let administrator = connect(&DatabaseConfig::from_url(&url).unwrap()).await;
        let statement = format!("DROP DATABASE {}", config.dbname);
        // By itself it ends workers of autovacuum, which FORCE may not on behalf of such a user;
        // FORCE ends what a test left.
        if administrator.batch_execute(&statement).await.is_err() {
            administrator.batch_execute(&format!("{statement} WITH (FORCE)")).await.unwrap();
        }
        drop(cluster);
    }

    /// Opens the crate's [`Database`] on this database, with a new connection and the rule that the
    /// first tenant that loads an establishment owns it.
    pub(crate) fn open(&self) -> Database {
        Database::new(self.config.clone()).with_owner_rule(OwnerRule::First)
    }

    pub(crate) fn config(&self) -> DatabaseConfig {
        self.config.clone()
    }

    pub(crate) async fn rows(&self, sql: &str) -> Vec<Row> {
        self.client.query(sql, &[]).await.unwrap()
    }

    /// Returns the integer in the first column of a query's only row.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn execute(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    /// Commits the transaction that the test's client has begun, as soon as at least `others` other
    /// connections wait for a lock.
    pub(crate) async fn commit_once_others_wait(&self, others: i64) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND wait_event_type = 'Lock'";
        while self.number(waiting).await < others {
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.execute("SELECT pg_stat_clear_snapshot()").await;
        }
        self.execute("COMMIT").await;
    }

    /// Marks a chunk as given up, as the function `dead-letter` does. Does nothing unless the chunk
    /// is pending in its generation (round of processing).
    pub(crate) async fn give_up(&self, chunk: &Chunk) {
        let (batch, chunk) = (chunk.batch.batch_id(), chunk.id());
        self.execute(&format!(
            "WITH failed AS (UPDATE batch_chunks SET status = 'FAILED', last_error = 'given up' \
                 WHERE chunk_id = '{chunk}' AND status = 'PENDING' RETURNING items) \
             UPDATE batches SET chunks_pending = chunks_pending - 1, chunks_failed = chunks_failed + 1, \
                 items_failed = items_failed + failed.items, \
                 finished_at = CASE WHEN chunks_pending = 1 THEN now() END, \
                 status = CASE WHEN chunks_pending > 1 THEN status WHEN chunks_done = 0 THEN 'FAILED' ELSE 'PARTIAL_FAIL' END \
             FROM failed WHERE batch_id = '{batch}'"
        ))
        .await;
    }

    /// Sets the start of the history of loads (the period for which batches are retained) to
    /// `second` of the tests' time, as if it had been announced long ago. Batches that were
    /// received earlier are too old, and may be deleted.
    pub(crate) async fn keep_since(&self, second: i64) {
        self.execute(&format!(
            "UPDATE batch_history SET kept_since = '{}', announced_at = now() - interval '11 min'",
            super::at(second)
        ))
        .await;
    }

    /// Deletes all batches that are too old and final, as if each had ended and its objects had
    /// been released when it was received. Returns the numbers of deleted batches and rows.
    pub(crate) async fn prune(&self) -> Pruned {
        self.execute(
            "UPDATE batches SET finished_at = received_at, objects_let_go = true WHERE finished_at IS NOT NULL",
        )
        .await;
        let database = self.open();
        let mut all = Pruned::default();
        loop {
            let slice = database.prune().await.unwrap();
            all.batches += slice.batches;
            all.rows += slice.rows;
            if !slice.is_more {
                return all;
            }
        }
    }

    /// Returns the product ids of the active products, and those of the inactive ones.
    pub(crate) async fn products(&self) -> (Vec<String>, Vec<String>) {
        let rows = self.rows("SELECT productid, active FROM products ORDER BY cnpj, shopid, productid").await;
        let (active, inactive): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.get("active"));
        let ids = |rows: Vec<&Row>| rows.into_iter().map(|row| row.get("productid")).collect();
        (ids(active), ids(inactive))
    }
}

async fn connect(config: &DatabaseConfig) -> Client {
    let (client, connection) = tokio_postgres::Config::new()
        .host(&config.host)
        .port(config.port)
        .dbname(&config.dbname)
        .user(&config.user)
        .password(config.password.expose_secret())
        .connect(NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}
