use std::fmt;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use ingestion::batch::DeactivationGuard;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::config::DatabaseConfig;
use crate::connection::{Connection, Params};
use crate::error::DatabaseError;
use crate::item_errors::LISTED_ITEM_ERRORS;
use crate::outbox::OutboxMode;
use crate::owners::OwnerRule;
use crate::secret::DatabaseSecret;

/// Default time limit of each call: 25 s, less than the 30 s of the functions that write.
const BUDGET: Duration = Duration::from_secs(25);

/// Maximum number of rows, each with an increment of a counter, that one call of [`Database::fold`]
/// adds to the counters' totals.
const FOLDED: i64 = 50_000;

/// Database of the product catalogue and its batches.
///
/// It holds at most one connection, opens it when it is first needed, and again if it breaks. Calls
/// run one after the other. A call that is dropped, or runs out of time, closes its connection, so
/// none of its work remains.
pub struct Database {
    source: Source,
    connection: Mutex<Option<Connection>>,
    pub(crate) guard: DeactivationGuard,
    pub(crate) owner_rule: OwnerRule,
    pub(crate) listed_errors: u64,
    budget: Duration,
    outbox: OutboxMode,
    /// Ids of batches whose outbox events this process committed, and has not published yet.
    committed: std::sync::Mutex<Vec<Uuid>>,
}

enum Source {
    Given(DatabaseConfig),
    Secret(DatabaseSecret),
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Database").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl Database {
    /// Creates a client of the database with these connection settings. The first call connects.
    #[must_use]
    pub fn new(config: DatabaseConfig) -> Self {
        Self::of(Source::Given(config))
    }

    /// Creates a client of the database that the environment variables name. `DATABASE_SECRET_ARN`
    /// is the secret with host, port, dbname, username and password, as RDS writes it.
    /// `DATABASE_HOST`, `DATABASE_PORT` and `DATABASE_NAME` override its values. `DATABASE_TLS` is
    /// `verify-full` (the default) or `off`. `DATABASE_CA_SECRET_ARN` is a secret with the
    /// certificates of authorities in PEM form. These authorities verify the server, instead of the
    /// authorities that the system trusts and those of Amazon RDS.
    ///
    /// # Errors
    /// If a variable is missing or invalid. The secrets are read later, each time a connection is
    /// opened.
    #[allow(clippy::unused_async, reason = "a place for what a start may need to wait for")]
    pub async fn from_environment(sdk: &runtime::Sdk) -> Result<Self, DatabaseError> {
        Ok(Self::of(Source::Secret(DatabaseSecret::from_environment(sdk)?)))
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            connection: Mutex::new(None),
            guard: DeactivationGuard::default(),
            owner_rule: OwnerRule::default(),
            listed_errors: LISTED_ITEM_ERRORS,
            budget: BUDGET,
            outbox: OutboxMode::default(),
            committed: std::sync::Mutex::default(),
        }
    }

    /// Sets the limits on mass deactivation, instead of [`DeactivationGuard::default`].
    #[must_use]
    pub fn with_guard(self, guard: DeactivationGuard) -> Self {
        Self { guard, ..self }
    }

    /// Sets the rule for establishments without an owner, instead of [`OwnerRule::Entry`].
    #[must_use]
    pub fn with_owner_rule(self, owner_rule: OwnerRule) -> Self {
        Self { owner_rule, ..self }
    }

    /// Sets the maximum number of items in error that a batch's report lists, for items that are
    /// refused when a chunk is written. The default is [`LISTED_ITEM_ERRORS`].
    #[must_use]
    pub fn with_listed_errors(self, listed_errors: u64) -> Self {
        Self { listed_errors, ..self }
    }

    /// Sets whether events about batches are written to the outbox, from which the caller publishes
    /// them.
    #[must_use]
    pub fn with_outbox(self, outbox: OutboxMode) -> Self {
        Self { outbox, ..self }
    }

    /// Sets the time limit of each call, instead of 25 s.
    #[must_use]
    pub fn with_budget(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    /// Checks that the database responds, on the open connection or on a new one.
    ///
    /// # Errors
    /// If the database does not respond.
    pub async fn ping(&self) -> Result<(), DatabaseError> {
        self.with_connection(async |_| Ok(())).await
    }

    pub(crate) fn committed(&self) -> MutexGuard<'_, Vec<Uuid>> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current connection settings, which are read from the secret if they come from
    /// one.
    pub(crate) async fn config(&self) -> Result<DatabaseConfig, DatabaseError> {
        match &self.source {
            Source::Given(config) => Ok(config.clone()),
            Source::Secret(secret) => secret.read().await,
        }
    }

    /// Runs `work` on the connection once earlier calls are done. Waiting and work together have
    /// the time limit of a call.
    ///
    /// Whether `work` succeeds or fails, the connection is kept for the next call, which checks it.
    /// If the call is dropped or runs out of time, the connection is closed, and the server rolls
    /// its transaction back.
    pub(crate) async fn with_connection<T>(
        &self,
        work: impl AsyncFnOnce(&mut Connection) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let deadline = Instant::now() + self.budget;
        let call = async {
            let mut slot = self.connection.lock().await;
            let mut connection = if let Some(connection) = slot.take()
                && connection.is_alive().await
            {
                connection
            } else {
                Connection::open(&self.config().await?).await?
            };
            connection.outbox.mode = self.outbox;
            let result = work(&mut connection).await;
            self.committed().append(&mut connection.outbox.committed);
            *slot = Some(connection);
            result
        };
        timeout_at(deadline, call).await.unwrap_or(Err(DatabaseError::TimedOut))
    }

    /// Runs one read-only query without a transaction, and returns its rows.
    pub(crate) async fn read(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        self.with_connection(async |connection| connection.query(sql, params).await).await
    }

    /// Runs one statement in a committed transaction, and returns its rows.
    pub(crate) async fn change(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        self.with_connection(async |connection| {
            let mut session = connection.begin().await?;
            let rows = session.query(sql, params).await?;
            session.commit().await?;
            Ok(rows)
        })
        .await
    }

    /// Runs the statement `sql`, which removes at most [`FOLDED`] rows, each with an increment of a
    /// counter, and adds them to the counters' totals. Returns true if more rows may be left.
    pub(crate) async fn fold(&self, sql: &'static str) -> Result<bool, DatabaseError> {
        let rows = self.change(sql, &[&FOLDED]).await?;
        let folded: i64 = rows.first().map_or(Ok(0), |row| row.try_get("folded"))?;
        Ok(folded >= FOLDED)
    }
}
