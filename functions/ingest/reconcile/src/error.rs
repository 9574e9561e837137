use attempt::{Retry, Retryable};
use batch_items::BatchItemError;
use catalog::{DatabaseError, OutboxError};
use objects::ObjectError;
use payloads::PayloadError;
use payloads::retention::RetentionError;
use runtime::schedule::UnknownEvent;
use transport::AnnounceError;

ingestion::words! {
    /// Check that a run of the reconciliation makes. The checks are independent, and are made in
    /// this order.
    Check {
        /// Check for stored payloads that never became batches.
        Objects = "objects",
        /// Check for stalled batches, which are restarted.
        Stopped = "stopped",
        /// Check for batches whose chunks are all written, but that were not finalized.
        Unfinished = "unfinished",
        /// Check for final batches whose objects were not tagged for expiry.
        Kept = "kept",
        /// Check for uploads whose URL has expired: never used, or without a notification.
        Uploads = "uploads",
        /// Check for dropped objects that were neither accepted nor refused.
        Drops = "drops",
        /// Check for batches older than the history of loads (the period for which batches are
        /// retained). They are ended and deleted.
        History = "history",
        /// Check for events that were not published.
        Events = "events",
    }
}

/// Reason why a run of the reconciliation did not complete its work. Work that was done stays done,
/// and the next run does the rest.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("the event is not known")]
    Event(#[from] UnknownEvent),
    /// Failed checks. The log has the reason of each.
    #[error("these checks failed: {}", names(.0))]
    Checks(Vec<Check>),
}

fn names(checks: &[Check]) -> String {
    checks.iter().map(|check| check.as_str()).collect::<Vec<_>>().join(", ")
}

/// Reason why one check of a run failed.
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

/// Collector of the errors of one check's items. It keeps the first error; the other items are
/// processed nevertheless.
#[derive(Debug, Default)]
pub(crate) struct ErrorCollector(Option<CheckError>);

impl ErrorCollector {
    /// Logs the error of one item, and keeps it if it is the first of the check.
    pub(crate) fn note(&mut self, failure: CheckError) {
        let error: &dyn std::error::Error = &failure;
        let retry = failure.retry();
        tracing::warn!(event_type = "find.left", error, ?retry, "an item is left for the next run: {error}");
        self.0.get_or_insert(failure);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn into_result(self) -> Result<(), CheckError> {
        self.0.map_or(Ok(()), Err)
    }
}
