use attempt::{Malformed, Retry, Retryable};
use ingestion::batch::{IllegalTransition, Unbalanced};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::config::ConfigError;

/// Reason why a call to the database failed. Nothing was changed, unless only the response to a
/// commit was lost; a repeated call then finds the work done.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum DatabaseError {
    #[error("the database's configuration is not usable")]
    Config(#[from] ConfigError),
    #[error("the environment does not name the database")]
    Environment(#[from] runtime::EnvironmentError),
    /// Secrets Manager did not respond, or denies access to the secret.
    #[error("cannot read the database's secret")]
    SecretUnavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The secret was read, but does not have the required form. The error shows nothing of its
    /// content.
    #[error("the database's secret is malformed: {0}")]
    SecretMalformed(SecretFault),
    /// No connection could be made, or the connection broke.
    #[error("the database cannot be reached")]
    Unavailable(#[source] tokio_postgres::Error),
    /// The database refused or cancelled the statement for a momentary reason, such as a time
    /// limit, a conflict or missing resources.
    #[error("the database is busy")]
    Busy(#[source] tokio_postgres::Error),
    /// Other transactions held a lock for too long. Nothing is wrong with the statement or the
    /// database.
    #[error("other transactions held a lock for too long")]
    Contended(#[source] tokio_postgres::Error),
    #[error("the database did not answer in time")]
    TimedOut,
    /// The database refused a statement, because of its data or because the statement is wrong.
    #[error("the database refused the statement ({})", .0.code().map_or("no SQLSTATE", SqlState::code))]
    Rejected(#[source] tokio_postgres::Error),
    #[error("the migrations were not applied")]
    Migration(#[source] Box<refinery::Error>),
    #[error("another process is migrating the database")]
    MigrationUnderWay,
    /// Another writer, which does not take the establishments' locks, changed the row of a product
    /// or of an owner after it was looked up.
    #[error("a row was changed by another writer meanwhile")]
    Moved,
    #[error("batch {0} is not known")]
    UnknownBatch(Uuid),
    #[error("chunk {index} of batch {batch_id} is not known")]
    UnknownChunk { batch_id: Uuid, index: u32 },
    /// A stored value, or a part of a chunk, has a form that this version cannot read. The text
    /// names the value.
    #[error("{0} cannot be read")]
    Unreadable(&'static str),
    #[error("a number does not fit its column")]
    OutOfRange(#[from] std::num::TryFromIntError),
    #[error("items do not add up")]
    Unbalanced(#[from] Unbalanced),
    #[error("the batch's state does not allow it")]
    Illegal(#[from] IllegalTransition),
}

/// Fault of the secret with the database's login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretFault {
    /// The secret has bytes in place of text.
    #[error("it is binary")]
    Binary,
    /// The secret is not the JSON that RDS writes.
    #[error("it is not the JSON that RDS writes, at {0}")]
    Form(Malformed),
    /// The host is in neither the secret nor the environment.
    #[error("neither it nor the environment has the host")]
    NoHost,
    /// The database's name is in neither the secret nor the environment.
    #[error("neither it nor the environment has the database's name")]
    NoName,
}

impl Retryable for DatabaseError {
    fn retry(&self) -> Retry {
        match self {
            Self::SecretUnavailable(_)
            | Self::Unavailable(_)
            | Self::Busy(_)
            | Self::TimedOut
            | Self::MigrationUnderWay
            | Self::Moved => Retry::Later,
            Self::Contended(_) => Retry::Contended,
            // A configuration, a schema, a row or this version's code is wrong. After the repair,
            // the same work succeeds.
            Self::Config(_)
            | Self::Environment(_)
            | Self::SecretMalformed(_)
            | Self::Rejected(_)
            | Self::Migration(_)
            | Self::Unreadable(_)
            | Self::OutOfRange(_)
            | Self::Unbalanced(_)
            | Self::Illegal(_) => Retry::AfterRepair,
            Self::UnknownBatch(_) | Self::UnknownChunk { .. } => Retry::Never,
        }
    }
}

impl DatabaseError {
    /// True if the database could not be used at all, so that further calls need not be tried now.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::SecretUnavailable(_)
                | Self::SecretMalformed(_)
                | Self::Unavailable(_)
                | Self::TimedOut
        )
    }

    /// Converts the error of a statement that mainly waits for locks: if the server cancelled the
    /// statement, other transactions held the locks for too long.
    pub(crate) fn while_locking(self) -> Self {
        match self {
            Self::Busy(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Self::Contended(error),
            error => error,
        }
    }

    /// True if values of the rows themselves are at fault (SQLSTATE classes 22 and 23), so that the
    /// statement may succeed with other rows.
    pub(crate) fn blames_the_data(&self) -> bool {
        let Self::Rejected(error) = self else { return false };
        error.code().is_some_and(|state| matches!(state.code().get(..2), Some("22" | "23")))
    }
}

/// SQLSTATE classes of momentary failures, which are not the statement's fault: connection,
/// conflicting transactions, resources, object state, operator intervention, system error.
const MOMENTARY: [&str; 6] = ["08", "40", "53", "55", "57", "58"];

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(state) = error.code() else {
            // Without a code the server sent no answer: the connection is at fault, unless a value
            // was never sent.
            return if error.is_closed() || has_io_source(&error) {
                Self::Unavailable(error)
            } else {
                Self::Rejected(error)
            };
        };
        let class = state.code().get(..2).unwrap_or_default();
        // After a failover a writer may have become a reader; a transaction that idled too long was
        // cut off.
        let moved = [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT];
        if *state == SqlState::LOCK_NOT_AVAILABLE {
            Self::Contended(error)
        } else if MOMENTARY.contains(&class) || moved.contains(state) {
            Self::Busy(error)
        } else {
            Self::Rejected(error)
        }
    }
}

fn has_io_source(error: &tokio_postgres::Error) -> bool {
    std::iter::successors(std::error::Error::source(error), |&cause| cause.source())
        .any(<dyn std::error::Error>::is::<std::io::Error>)
}
