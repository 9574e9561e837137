//! Finds what stopped on its way through the ingest, and sets it going again.
//!
//! The queues bring most things back by themselves. What they cannot is looked for here, on a schedule:
//!
//! 1. payloads of which no batch came, because S3's news of them was lost;
//! 2. batches that stand still, because a message was lost, or what it asked for died half-way too often;
//! 3. batches whose chunks are all written, but whose end did not happen;
//! 4. final batches whose objects do not expire, because a function died before it tagged them;
//! 5. uploads whose time is over: never used, or not heard of.
//!
//! It also ends and deletes batches that are older than the history of loads that is kept.
//!
//! Nothing is worked on here. The news of the payload is told again, and the chunker brings its batch on from wherever it stopped, which does no harm where nothing was
//! wrong. So looks may overlap, side by side or one after the other: who sets something going says so first, by a condition, and it is not told again before the time
//! since it stopped has doubled. Each look has a limit and its share of the time, takes the oldest first, and leaves the rest to the next run. Each fails by itself, and if
//! one did, so does the invocation in the end, for the alarm.

mod failure;
mod history;
mod kept;
mod objects_found;
mod report;
mod settings;
mod stopped;
mod tell;
mod trigger;
mod unfinished;
mod uploads;

pub use failure::{Look, NotReconciled};
pub use report::{BatchesReport, HistoryReport, ObjectsReport, Report, UploadsReport};
pub use settings::Settings;
pub use trigger::UnknownEvent;

use std::time::{Duration, SystemTime};

use accepted::Accepted;
use catalog::Database;
use objects::Objects;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;
use transport::PayloadsReceived;

use failure::Trouble;

/// This function's name in metrics.
const SERVICE: &str = "reconcile";

/// What is kept free of the invocation's time, to say what was found.
const TO_ANSWER: Duration = Duration::from_secs(3);

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct Reconcile {
    pub objects: Objects,
    pub accepted: Accepted,
    pub database: Database,
    pub queue: PayloadsReceived,
    pub settings: Settings,
}

/// How many looks there are, as what divides a time.
const LOOKS: u32 = 6;
const _: () = assert!(Look::ALL.len() == 6);

impl Reconcile {
    /// Takes all looks within the time of an invocation that is cut off at `ends_at`.
    ///
    /// # Errors
    /// Where the event is another than the schedule's, or a look failed. The others were taken all the same.
    pub async fn handle(&self, event: &Value, ends_at: SystemTime) -> Result<Report, NotReconciled> {
        trigger::check(event)?;
        let left = ends_at.duration_since(SystemTime::now()).unwrap_or_default();
        let ends_at = Instant::now() + left.saturating_sub(TO_ANSWER);
        let mut report = Report::default();
        let mut failed = Vec::new();
        for (look, looks_left) in Look::ALL.into_iter().zip((1..=LOOKS).rev()) {
            // What one leaves of its share is the others'.
            let share = ends_at.saturating_duration_since(Instant::now()) / looks_left;
            let span = tracing::info_span!("look", look = look.as_str());
            let look_on = Box::pin(self.look(look, Instant::now() + share, &mut report));
            let taken = timeout_at(ends_at, look_on);
            let outcome = taken.instrument(span).await.unwrap_or(Err(Trouble::OutOfTime));
            if let Err(trouble) = outcome {
                let error: &dyn std::error::Error = &trouble;
                tracing::error!(event_type = "look.failed", look = look.as_str(), error, "a look failed");
                failed.push(look);
            }
        }
        report.measure(failed.len());
        if failed.is_empty() { Ok(report) } else { Err(NotReconciled::Looks(failed)) }
    }

    async fn look(&self, look: Look, until: Instant, report: &mut Report) -> Result<(), Trouble> {
        match look {
            Look::Objects => self.find_objects(until, &mut report.objects).await,
            Look::Stopped => self.find_stopped(until, &mut report.batches).await,
            Look::Unfinished => self.find_unfinished(until, &mut report.batches).await,
            Look::Kept => self.find_kept(until, &mut report.batches).await,
            Look::Uploads => self.find_uploads(until, &mut report.uploads).await,
            Look::History => self.prune(until, &mut report.history).await,
        }
    }
}
