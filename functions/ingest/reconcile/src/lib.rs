//! Finds batches, payloads and events that stalled on their way through the ingest, and restarts
//! them.
//!
//! The queues retry most failures by themselves. On a schedule, this function looks for the others:
//!
//! 1. payloads that never became batches, because S3's notification was lost;
//! 2. stalled batches, because a message was lost, or its handler died too often;
//! 3. batches whose chunks are all written, but that were not finalized;
//! 4. final batches whose objects do not expire, because a function died before it tagged them;
//! 5. uploads whose URL has expired: never used, or without a notification;
//! 6. dropped objects that were neither accepted nor refused, because their notification was lost;
//! 7. events that were not published, because the bus or the topic was unreachable, or a function
//!    died.
//!
//! It also ends and deletes batches that are older than the history of loads, which is the period
//! for which batches are kept.
//!
//! It processes no payload itself. It sends the payload's notification again, and the chunker
//! continues the batch from where it stopped; one notification too many does no harm. Runs may
//! overlap: each claims a batch by a conditional write first, and the batch is not claimed again
//! before the time since it stalled has doubled. Each check has a limit and its share of the time,
//! takes the oldest first, and leaves the rest to the next run. A check that fails does not stop
//! the others, but the invocation fails in the end, for the alarm.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod claimed;
mod drop_scan;
mod dropped;
mod error;
mod history;
mod notify;
mod objects_found;
mod report;
mod settings;
mod stopped;
mod unpublished;
mod uploads;

pub use error::{Check, ReconcileError};
pub use history::PAYLOAD_DAYS;
pub use report::{
    BatchesReport, DropsReport, EventsReport, HistoryReport, ObjectsReport, Report, UploadsReport,
};
pub use settings::Settings;

use std::time::{Duration, SystemTime};

use attempt::{Deadline, Retryable as _};
use batch_items::BatchItems;
use catalog::Database;
use events::Publisher;
use objects::Objects;
use runtime::schedule;
use serde_json::Value;
use tracing::Instrument as _;
use transport::NotificationQueue;

use error::CheckError;

/// Name of the function `reconcile` in its metrics.
const SERVICE: &str = "reconcile";

/// Part of an invocation's time kept free for returning the response.
const RESERVE: Duration = Duration::from_secs(3);

/// State of the function `reconcile`: its clients and settings, reused by every invocation.
#[derive(Debug)]
pub struct Reconcile {
    pub objects: Objects,
    pub accepted: BatchItems,
    pub database: Database,
    pub publisher: Publisher,
    pub queue: NotificationQueue,
    /// SQS queue of dropped objects; `None` if the deployment accepts none.
    pub drops: Option<NotificationQueue>,
    /// Second bucket in which objects may be dropped; `None` if there is only the payload bucket.
    pub drop_bucket: Option<String>,
    pub settings: Settings,
}

/// Number of checks in a run. They share the time of the run.
const CHECKS: u32 = 8;
const _: () = assert!(Check::ALL.len() == 8);

impl Reconcile {
    /// Runs all checks, each with its share of the time until Lambda ends the invocation at
    /// `ends_at`.
    ///
    /// # Errors
    /// If the event is not the schedule's, or a check fails; the other checks are still made.
    pub async fn handle(&self, event: &Value, ends_at: SystemTime) -> Result<Report, ReconcileError> {
        schedule::check(event)?;
        let deadline = Deadline::of_invocation(ends_at, RESERVE);
        let mut report = Report::default();
        let mut failed = Vec::new();
        for (check, checks_left) in Check::ALL.into_iter().zip((1..=CHECKS).rev()) {
            // The time that one check leaves of its share is for the others.
            let share = Deadline::after(deadline.remaining() / checks_left);
            let span = tracing::error_span!("look", look = check.as_str());
            let checking = deadline.run(Box::pin(self.make(check, share, &mut report)));
            let outcome = checking.instrument(span).await.unwrap_or(Err(CheckError::OutOfTime));
            // Events that are not published in time stay for the last check.
            let publishing = self.database.publish_committed(&self.publisher);
            let _published = deadline.run(Box::pin(publishing)).await;
            if let Err(failure) = outcome {
                let error: &dyn std::error::Error = &failure;
                let (name, retry) = (check.as_str(), failure.retry());
                tracing::error!(
                    event_type = "look.failed",
                    look = name,
                    error,
                    ?retry,
                    "the check {name} failed: {error}"
                );
                failed.push(check);
            }
        }
        report.measure(failed.len());
        if failed.is_empty() { Ok(report) } else { Err(ReconcileError::Checks(failed)) }
    }

    async fn make(&self, check: Check, deadline: Deadline, report: &mut Report) -> Result<(), CheckError> {
        match check {
            Check::Objects => self.notify_objects(deadline, &mut report.objects).await,
            Check::Stopped => self.restart_batches(deadline, &mut report.batches).await,
            Check::Unfinished => self.finalize_batches(deadline, &mut report.batches).await,
            Check::Kept => self.release_objects(deadline, &mut report.batches).await,
            Check::Uploads => self.settle_uploads(deadline, &mut report.uploads).await,
            Check::Drops => self.notify_drops(deadline, &mut report.drops).await,
            Check::History => {
                let pruned = self.prune(deadline, &mut report.history).await;
                self.fold_counters(deadline).await;
                pruned
            }
            Check::Events => self.publish_events(deadline, &mut report.events).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_events_are_read_as_their_names_say() {
        for (name, is_known) in [("scheduled", true), ("by-hand", true), ("another-source", false)] {
            let path = format!("{}/../../../events/ingest/reconcile/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let event: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            assert_eq!(schedule::check(&event).is_ok(), is_known, "{name}");
        }
    }
}
