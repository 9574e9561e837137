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
use crate::outbox::Outbox;
use crate::owners::OwnerRule;
use crate::secret::DatabaseSecret;

/// Time limit of a call: less than the 30 s of the functions that write.
const BUDGET: Duration = Duration::from_secs(25);

/// Largest number of additions that are summed at once.
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
    outbox: Outbox,
    /// Batches whose events were committed on connections of this process.
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
    /// Creates a database with this configuration. The first use connects.
    #[must_use]
    pub fn new(config: DatabaseConfig) -> Self {
        Self::of(Source::Given(config))
    }

    /// Creates the database that the environment names. `DATABASE_SECRET_ARN` is the secret with
    /// host, port, dbname, username and password, as RDS writes it. `DATABASE_HOST`,
    /// `DATABASE_PORT` and `DATABASE_NAME` override it. `DATABASE_TLS` is `verify-full` (the
    /// default) or `off`. `DATABASE_CA_SECRET_ARN` is the secret with the certificates, in PEM
    /// form, that the server is verified against instead of the system's.
    ///
    /// # Errors
    /// If a variable is missing or wrong. The secrets are read when the first connection is opened,
    /// and again after a password was refused.
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
            outbox: Outbox::default(),
            committed: std::sync::Mutex::default(),
        }
    }

    /// Sets another guard against mass deactivation.
    #[must_use]
    pub fn with_guard(self, guard: DeactivationGuard) -> Self {
        Self { guard, ..self }
    }

    /// Sets the rule for establishments without an owner, instead of [`OwnerRule::Entry`].
    #[must_use]
    pub fn with_owner_rule(self, owner_rule: OwnerRule) -> Self {
        Self { owner_rule, ..self }
    }

    /// Sets another limit for the list of items in error, up to which a batch's report lists those
    /// that are refused when their chunk is written.
    #[must_use]
    pub fn with_listed_errors(self, listed_errors: u64) -> Self {
        Self { listed_errors, ..self }
    }

    /// Sets whether events about batches are written, which the caller publishes.
    #[must_use]
    pub fn with_outbox(self, outbox: Outbox) -> Self {
        Self { outbox, ..self }
    }

    /// Sets another time limit for each call, instead of 25 s.
    #[must_use]
    pub fn with_budget(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    /// Checks that the database answers.
    ///
    /// # Errors
    /// If it does not.
    pub async fn ping(&self) -> Result<(), DatabaseError> {
        self.with_connection(async |_| Ok(())).await
    }

    pub(crate) fn committed(&self) -> MutexGuard<'_, Vec<Uuid>> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current configuration, read from the secret if there is one.
    pub(crate) async fn config(&self) -> Result<DatabaseConfig, DatabaseError> {
        match &self.source {
            Source::Given(config) => Ok(config.clone()),
            Source::Secret(secret) => secret.read().await,
        }
    }

    /// Runs `work` on the connection when its turn comes, all within the budget.
    ///
    /// The connection is put back whether `work` succeeds or fails, and the next call checks it.
    /// Only a call that is dropped before `work` ends, by its caller or by the budget, does not put
    /// it back: the connection is closed, and the server rolls its transaction back.
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
            connection.events.outbox = self.outbox;
            let result = work(&mut connection).await;
            self.committed().append(&mut connection.events.committed);
            *slot = Some(connection);
            result
        };
        timeout_at(deadline, call).await.unwrap_or(Err(DatabaseError::TimedOut))
    }

    /// Returns the rows of one read-only query, which needs no transaction.
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

    /// Adds up a slice of additions by `sql`, at most `$1` of them, and returns whether there may
    /// be more.
    pub(crate) async fn fold(&self, sql: &'static str) -> Result<bool, DatabaseError> {
        let rows = self.change(sql, &[&FOLDED]).await?;
        let folded: i64 = rows.first().map_or(Ok(0), |row| row.try_get("folded"))?;
        Ok(folded >= FOLDED)
    }
}
