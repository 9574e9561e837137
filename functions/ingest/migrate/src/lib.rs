//! Migrates the database's schema, and creates the topics of chunks and events if there is Kafka:
//! as a custom resource of CloudFormation, or invoked directly.
//!
//! CloudFormation waits for a response at the URL that its request names, so that URL gets one
//! whatever happens. CloudFormation has only success and failure, and shows the reason of a failure
//! to the people who deploy.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod response;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, SystemTime};

use attempt::{Deadline, Malformed};
use catalog::{Database, DatabaseError, Migrated};
use events::kafka::{Topic, TopicError, TopicState};
use futures_util::FutureExt as _;
use runtime::EnvironmentError;
use serde_json::{Value, json};

pub use response::ResponseError;
use response::{Request, RequestType, ResponseClient};

/// Part of an invocation's time kept free for sending the response.
const RESERVE: Duration = Duration::from_secs(10);

/// Reason why the schema could not be migrated. Its text is shown to the people who deploy, so it
/// has no credentials and no SQL; the log has the causes.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Invalid parameter with which the ingest's functions would not start. The deployment fails
    /// instead.
    #[error("a parameter of the ingest is not usable: {0}")]
    Settings(EnvironmentError),
    #[error(transparent)]
    Topic(#[from] TopicError),
    #[error("the migrations did not finish in time")]
    OutOfTime,
    #[error("the migrations crashed")]
    Crashed,
}

/// Reason why an invocation of the function `migrate` failed.
#[derive(Debug, thiserror::Error)]
pub enum InvocationError {
    #[error("the event is malformed")]
    Form(#[from] Malformed),
    #[error("the event is neither a request of CloudFormation nor an empty object")]
    UnknownEvent,
    #[error("cannot respond to CloudFormation")]
    Response(#[from] ResponseError),
    /// Failure of the migration in a direct invocation.
    #[error("the schema is not up to date")]
    Migrate(#[source] MigrateError),
}

/// State of the function `migrate`.
///
/// `database` is called in each invocation, so that CloudFormation gets a response even if the
/// database's configuration is unusable.
#[derive(Debug)]
pub struct Migrate<F> {
    settings: Result<(), EnvironmentError>,
    database: F,
    topics: Vec<Topic>,
    client: ResponseClient,
}

impl<F: AsyncFn() -> Result<Database, DatabaseError>> Migrate<F> {
    /// Creates the function. `settings` is an error if the ingest's functions could not start with
    /// their parameters; the deployment then fails before they are deployed.
    pub fn new(settings: Result<(), EnvironmentError>, database: F) -> Self {
        Self { settings, database, topics: Vec::new(), client: ResponseClient::new() }
    }

    /// Adds Kafka topics to create if they do not exist. The deployment fails if one neither exists
    /// nor can be created, before the functions that use it are deployed.
    #[must_use]
    pub fn with_topics(mut self, topics: Vec<Topic>) -> Self {
        self.topics = topics;
        self
    }

    /// Handles a request of CloudFormation, or a direct invocation, whose event is an empty object.
    /// Lambda ends the invocation at `ends_at`.
    ///
    /// # Errors
    /// If the event is unknown, the response cannot be delivered, or the migration of a direct
    /// invocation fails.
    pub async fn handle(&self, event: Value, ends_at: SystemTime) -> Result<Value, InvocationError> {
        if event.get("RequestType").is_none() {
            if event.as_object().is_none_or(|members| !members.is_empty()) {
                return Err(InvocationError::UnknownEvent);
            }
            let migrated = self.migrate(ends_at).await.map_err(InvocationError::Migrate)?;
            return Ok(json!({"applied": migrated.applied, "version": migrated.version}));
        }
        let request: Request = attempt::malformed::from_value(event)?;
        let response = match request.request_type {
            RequestType::Delete => request.unchanged(),
            RequestType::Create | RequestType::Update => match self.migrate(ends_at).await {
                Ok(migrated) => request.migrated(&migrated),
                Err(error) => request.failed(&error),
            },
        };
        self.client.send(&request.response_url, &response).await?;
        Ok(Value::Null)
    }

    async fn migrate(&self, ends_at: SystemTime) -> Result<Migrated, MigrateError> {
        let outcome = match &self.settings {
            Ok(()) => self.migrate_before(Deadline::of_invocation(ends_at, RESERVE)).await,
            Err(wrong) => Err(MigrateError::Settings(wrong.clone())),
        };
        report(&outcome);
        outcome
    }

    async fn migrate_before(&self, deadline: Deadline) -> Result<Migrated, MigrateError> {
        // Boxed, because the migrations' future is too deep for the compiler to lay out in one.
        let work = Box::pin(async {
            for topic in &self.topics {
                tell(topic.name(), topic.ensure().await?);
            }
            Ok::<_, MigrateError>((self.database)().await?.migrate().await?)
        });
        let work = AssertUnwindSafe(work).catch_unwind();
        match deadline.run(work).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(MigrateError::Crashed),
            Err(_) => Err(MigrateError::OutOfTime),
        }
    }
}

fn tell(topic: &str, state: TopicState) {
    match state {
        TopicState::Created => {
            tracing::info!(event_type = "topic.created", topic, "the topic `{topic}` was created");
        }
        TopicState::Exists { partitions } => tracing::info!(
            event_type = "topic.exists",
            topic,
            partitions,
            "the topic `{topic}` exists and stays as it is"
        ),
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
            let error: &dyn std::error::Error = error;
            tracing::error!(event_type = "migration.failed", error, "the schema is not up to date: {error}");
        }
    }
}
