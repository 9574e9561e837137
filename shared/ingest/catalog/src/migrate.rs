//! Versioned migrations, embedded in the binary.

use std::time::Duration;

use refinery::Migration;
use refinery::error::Kind;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use crate::connection::{MIGRATION_SESSION, connect};
use crate::database::Database;
use crate::error::DatabaseError;

#[allow(unreachable_pub, reason = "the macro makes it so")]
mod embedded {
    refinery::embed_migrations!("migrations");
}

/// Key of the advisory lock that one migration run at a time holds: "migrate\0" as a number.
const LOCK: i64 = i64::from_be_bytes(*b"migrate\0");
const WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// Result of [`Database::migrate`]: the applied migrations, and the version that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Names of the migrations that this run applied, in order.
    pub applied: Vec<String>,
    /// Number of the last migration that the database has after the run.
    pub version: i32,
}

impl Database {
    /// Applies the migrations that the database lacks. A repeated run changes nothing, and of
    /// concurrent runs one waits for the other, for at most 60 s. A database with later migrations
    /// than this version has is not changed.
    ///
    /// # Errors
    /// If a migration fails, in which case it changed nothing, if a migration was edited after it
    /// was applied, or if another run takes longer than 60 s.
    pub async fn migrate(&self) -> Result<Migrated, DatabaseError> {
        let config = self.config().await?;
        // In a separate session: the lock ends with it, however this ends.
        let mut client = connect(&config, MIGRATION_SESSION).await?;
        lock(&client).await?;
        let runner = embedded::migrations::runner();
        let failed = |error| DatabaseError::Migration(Box::new(error));
        let newest = runner.get_migrations().iter().map(Migration::version).max();
        let applied = match runner.run_async(&mut client).await {
            Ok(report) => report.applied_migrations().iter().map(ToString::to_string).collect(),
            Err(error) if is_ahead(&error, newest) => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        let last = runner.get_last_applied_migration_async(&mut client).await.map_err(failed)?;
        Ok(Migrated { applied, version: last.map_or(0, |migration| migration.version()) })
    }
}

/// True if the database has migrations of a later version of this program, as after a rollback:
/// those with a greater number than `newest`, this version's last migration.
fn is_ahead(error: &refinery::Error, newest: Option<i32>) -> bool {
    matches!(error.kind(), Kind::MissingVersion(missing) if Some(missing.version()) > newest)
}

/// Acquires the migration lock by polling. Waiting in the server would keep a snapshot that could
/// block the migration in progress.
async fn lock(client: &Client) -> Result<(), DatabaseError> {
    let deadline = Instant::now() + WAIT;
    loop {
        let row = client.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK]).await?;
        if row.try_get(0)? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(DatabaseError::MigrationUnderWay);
        }
        sleep(POLL).await;
    }
}
