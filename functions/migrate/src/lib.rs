//! Brings the database's schema up to date: for CloudFormation as a custom resource, and for people by a direct invocation.
//!
//! CloudFormation waits for an answer at the URL that its request names, so whatever happens, that URL gets one. It knows
//! success and failure only, and shows the reason of a failure to whoever deploys.

mod answer;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, SystemTime};

use aws_lambda_events::cloudformation::CloudFormationCustomResourceRequest as Request;
use catalog::{Database, DatabaseError, Migrated};
use clock::Deadline;
use futures_util::FutureExt as _;
use serde_json::{Value, json};

pub use answer::Unanswered;
use answer::{Asker, Courier, Wants};

/// What is left of the invocation's time for the answer.
const RESERVED: Duration = Duration::from_secs(10);

/// Why the schema is not up to date. Its text is shown to whoever deploys, so it names neither credentials nor statements;
/// the whole chain is in the log.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("{0}")]
    Database(#[from] DatabaseError),
    #[error("the migrations were not done in time")]
    OutOfTime,
    #[error("the migrations crashed")]
    Crashed,
}

/// What an invocation may end in.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the event is none of CloudFormation's")]
    UnknownEvent(#[source] Option<serde_json::Error>),
    #[error("CloudFormation could not be answered")]
    Unanswered(#[from] Unanswered),
    #[error("the schema is not up to date: {0}")]
    Migrate(#[source] MigrateError),
}

/// The function, over whatever gives it a database.
///
/// The database is asked for in each invocation, because a configuration that cannot be used is to be answered too.
#[derive(Debug)]
pub struct Migrate<F> {
    database: F,
    courier: Courier,
}

impl<F: AsyncFn() -> Result<Database, DatabaseError>> Migrate<F> {
    pub fn new(database: F) -> Self {
        Self { database, courier: Courier::new() }
    }

    /// A request of CloudFormation, or anything without a `RequestType` for a direct invocation.
    ///
    /// # Errors
    /// Where nobody but the caller can be told: an answer that did not get through, or a direct invocation that failed.
    pub async fn handle(&self, event: Value, ends_at: SystemTime) -> Result<Value, Failure> {
        if event.get("RequestType").is_none() {
            let migrated = self.migrate(ends_at).await.map_err(Failure::Migrate)?;
            return Ok(json!({"applied": migrated.applied, "version": migrated.version}));
        }
        let request: Request =
            serde_json::from_value(event).map_err(|error| Failure::UnknownEvent(Some(error)))?;
        let asker = Asker::of(request).ok_or(Failure::UnknownEvent(None))?;
        let answer = match asker.wants {
            Wants::Farewell => asker.unchanged(),
            Wants::Schema => match self.migrate(ends_at).await {
                Ok(migrated) => asker.migrated(&migrated),
                Err(error) => asker.failed(&error),
            },
        };
        self.courier.deliver(&answer).await?;
        Ok(Value::Null)
    }

    async fn migrate(&self, ends_at: SystemTime) -> Result<Migrated, MigrateError> {
        let deadline = Deadline::of_invocation(ends_at, RESERVED);
        // Boxed, because the migrations' future is too deep for the compiler to lay out in one.
        let work = Box::pin(async { (self.database)().await?.migrate().await });
        let work = AssertUnwindSafe(work).catch_unwind();
        let outcome = match deadline.run(work).await {
            Ok(Ok(outcome)) => outcome.map_err(MigrateError::Database),
            Ok(Err(_)) => Err(MigrateError::Crashed),
            Err(_) => Err(MigrateError::OutOfTime),
        };
        report(&outcome);
        outcome
    }
}

fn report(outcome: &Result<Migrated, MigrateError>) {
    match outcome {
        Ok(migrated) => tracing::info!(
            event_type = "migration.completed",
            version = migrated.version,
            applied = migrated.applied.join(", "),
            "the schema is at version {}",
            migrated.version
        ),
        Err(error) => {
            let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
            let causes: Vec<String> = causes.map(ToString::to_string).collect();
            tracing::error!(
                event_type = "migration.failed",
                error = %error,
                causes = causes.join(": "),
                "the schema is not up to date"
            );
        }
    }
}
