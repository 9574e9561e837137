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

/// The advisory lock that migrations are under, in this database: "migrate\0" as a number.
const LOCK: i64 = i64::from_be_bytes(*b"migrate\0");
const WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// The result of a run of the migrations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The migrations that this run applied, in their order.
    pub applied: Vec<String>,
    /// The database's version now.
    pub version: i32,
}

impl Database {
    /// Applies the migrations that the database does not have yet. Repeated, it does nothing; of
    /// concurrent runs, one waits for the other. A database that is ahead of this version stays as
    /// it is.
    ///
    /// # Errors
    /// If a migration fails, which then changed nothing, or was changed after it was applied.
    pub async fn migrate(&self) -> Result<Migrated, DatabaseError> {
        let config = self.config().await?;
        // In a session of its own: the lock ends with it, however this ends.
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

/// Tells whether the database has migrations from a later version than this one, as after a
/// deployment that was rolled back.
fn is_ahead(error: &refinery::Error, newest: Option<i32>) -> bool {
    matches!(error.kind(), Kind::MissingVersion(missing) if Some(missing.version()) > newest)
}

/// Polls instead of waiting in the server, where the wait's own snapshot could block what it waits
/// for.
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
