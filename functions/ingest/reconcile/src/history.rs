use attempt::Deadline;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::Instrument as _;

use crate::error::CheckError;
use crate::report::HistoryReport;
use crate::{Reconcile, claimed};

/// Maximum number of batches in progress that one run ends as too old. Each may have thousands of
/// objects to tag for expiry.
const ENDED: u32 = 20;

/// Maximum number of batches whose stored bytes one statement adds up; their rows have about 30 MB.
const MEASURED: u32 = 50_000;

/// Number of days for which the bucket keeps the payload of a final batch.
pub const PAYLOAD_DAYS: u16 = 30;

/// Number of deleted rows after which a run stops deleting old batches. It is checked after each
/// slice of rows.
const ROWS: u64 = 500_000;

impl Reconcile {
    /// Adds up, in the database, the counters of final batches, their usage, and the bytes that
    /// tenants had stored on past days. Each is added up in slices: at least one, and more until
    /// the time has run out. A failure is only logged: the next run continues, and the tables may
    /// not exist before their migration.
    pub(crate) async fn fold_counters(&self, deadline: Deadline) {
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        loop {
            let counters = self.database.fold_counters().await;
            let usage = self.database.fold_usage().await;
            let stored = self.database.measure_stored(today, PAYLOAD_DAYS, MEASURED).await;
            match counters.and_then(|more| Ok(usage? || stored? || more)) {
                Ok(true) if !deadline.has_passed() => {}
                Ok(_) => return,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(
                        event_type = "counters.not_folded",
                        error,
                        "the counters of final batches are added up by the next run: {error}"
                    );
                    return;
                }
            }
        }
    }

    /// Deletes final batches that are older than the history of loads (the period for which batches
    /// are retained), after ending old batches that are still in progress. The start of the history
    /// moves on once no such batch is left to delete.
    pub(crate) async fn prune(
        &self,
        deadline: Deadline,
        report: &mut HistoryReport,
    ) -> Result<(), CheckError> {
        // A batch that cannot be ended does not stop the others from being deleted.
        let (ended, failure) = match self.database.end_too_old(ENDED).await {
            Ok(ended) => (ended, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        for batch in ended {
            report.too_old = report.too_old.saturating_add(1);
            let end = async {
                tracing::error!(
                    event_type = "batch.too_old",
                    "batch {} is older than the history of loads and was ended in progress",
                    batch.batch_id
                );
                // If the time has run out, a later check releases them.
                if !deadline.has_passed() {
                    payloads::retention::release(&self.database, &self.objects, batch.batch_id).await;
                }
            };
            end.instrument(claimed::span_of(&batch)).await;
        }
        let mut is_more = true;
        while is_more && report.rows_pruned < ROWS && !deadline.has_passed() {
            let pruned = self.database.prune().await?;
            report.batches_pruned = report.batches_pruned.saturating_add(pruned.batches);
            report.rows_pruned = report.rows_pruned.saturating_add(pruned.rows);
            is_more = pruned.is_more;
        }
        if is_more {
            tracing::warn!(
                event_type = "look.limited",
                "there may be more old batches than one run deletes; the next run continues"
            );
        } else {
            self.database.advance_history(self.settings.history).await?;
        }
        let behind = self.database.pruning_behind(self.settings.history).await?;
        report.behind_minutes = Some(behind.as_secs() / 60);
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}
