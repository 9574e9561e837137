use attempt::{Retry, Retryable};
use batch_items::BatchItemError;
use catalog::{DatabaseError, OutboxError};
use objects::ObjectError;
use payloads::PayloadError;
use payloads::retention::RetentionError;
use runtime::schedule::UnknownEvent;
use transport::AnnounceError;

ingestion::words! {
    /// Checks of a run, each independent of the others, in the order in which they are made.
    Check {
        /// Payloads that never became batches.
        Objects = "objects",
        /// Batches that are stalled, and are restarted.
        Stopped = "stopped",
        /// Batches that were not finalized.
        Unfinished = "unfinished",
        /// Final batches whose objects do not expire.
        Kept = "kept",
        /// Uploads whose time has ended.
        Uploads = "uploads",
        /// Dropped objects that were neither accepted nor refused.
        Drops = "drops",
        /// Batches that are older than the history of loads.
        History = "history",
        /// Events that were not published.
        Events = "events",
    }
}

/// Reason why a run did not do all of its work. The finished part stays; the next run does the
/// rest.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("the event is not known")]
    Event(#[from] UnknownEvent),
    /// Checks that failed. The log has the reason of each.
    #[error("these checks failed: {}", names(.0))]
    Checks(Vec<Check>),
}

fn names(checks: &[Check]) -> String {
    checks.iter().map(|check| check.as_str()).collect::<Vec<_>>().join(", ")
}

/// Reason why a reconciliation check failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error("storage error")]
    Objects(#[from] ObjectError),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("error of the batch items' table")]
    Accepted(#[from] BatchItemError),
    #[error("database error")]
    Database(#[from] DatabaseError),
    #[error("the objects of a final batch will not expire yet")]
    Retention(#[from] RetentionError),
    #[error("cannot send the notification of a payload")]
    Notify(#[from] AnnounceError),
    #[error("events were not published")]
    Outbox(#[from] OutboxError),
    #[error("the time of the run was too short for this check")]
    OutOfTime,
}

impl Retryable for CheckError {
    fn retry(&self) -> Retry {
        match self {
            Self::Objects(error) => error.retry(),
            Self::Payload(error) => error.retry(),
            Self::Accepted(error) => error.retry(),
            Self::Database(error) => error.retry(),
            Self::Retention(error) => error.retry(),
            Self::Notify(error) => error.retry(),
            Self::Outbox(error) => error.retry(),
            Self::OutOfTime => Retry::OutOfTime,
        }
    }
}

/// First error among many items. The items after it are processed all the same.
#[derive(Debug, Default)]
pub(crate) struct FirstError(Option<CheckError>);

impl FirstError {
    /// Logs an error, and keeps it if it is the first.
    pub(crate) fn note(&mut self, failure: CheckError) {
        let error: &dyn std::error::Error = &failure;
        let retry = failure.retry();
        tracing::warn!(event_type = "find.left", error, ?retry, "an item is left for the next run: {error}");
        self.0.get_or_insert(failure);
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn into_result(self) -> Result<(), CheckError> {
        self.0.map_or(Ok(()), Err)
    }
}
