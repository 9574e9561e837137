use attempt::{Deadline, Retry, Retryable as _};
use catalog::{BatchToRecover, StallThresholds};
use uuid::Uuid;

use crate::error::{CheckError, ErrorCollector};
use crate::report::BatchesReport;
use crate::{Reconcile, claimed};

/// Maximum number of stalled batches that one run restarts.
const LIMIT: u32 = 200;

/// Number of stalled batches that are claimed together: few, so that few claims are left when the
/// time runs out.
const AT_ONCE: u32 = 25;

/// Maximum number of stuck batches that are logged individually.
const NAMED: u32 = 10;

impl Reconcile {
    /// Restarts stalled batches. Also reports the number of those too old to be restarted again,
    /// and the wait of the oldest unwritten chunk.
    pub(crate) async fn restart_batches(
        &self,
        deadline: Deadline,
        report: &mut BatchesReport,
    ) -> Result<(), CheckError> {
        let thresholds = StallThresholds {
            stopped_for: self.settings.stopped_for,
            given_up_after: self.settings.given_up_after,
        };
        let mut left = LIMIT;
        let mut errors = ErrorCollector::default();
        while left > 0 && errors.is_empty() {
            if deadline.has_passed() {
                return Err(CheckError::OutOfTime);
            }
            let stalled = self.database.select_stalled(thresholds, left.min(AT_ONCE)).await?;
            if stalled.is_empty() {
                break;
            }
            left = left.saturating_sub(u32::try_from(stalled.len()).unwrap_or(u32::MAX));
            self.restart(&stalled, report, &mut errors).await?;
        }
        if left == 0 {
            tracing::warn!(
                event_type = "look.limited",
                "there may be more stalled batches than one run restarts; the next run continues"
            );
        }
        self.report_stuck(thresholds, report).await?;
        errors.into_result()
    }

    async fn restart(
        &self,
        stalled: &[BatchToRecover],
        report: &mut BatchesReport,
        errors: &mut ErrorCollector,
    ) -> Result<(), CheckError> {
        let mut released: Vec<Uuid> = Vec::new();
        let mut batches = stalled.iter();
        for batch in batches.by_ref() {
            let notified = self.notify_again(batch).await;
            let _entered = claimed::span_of(batch).entered();
            match notified {
                Ok(()) => {
                    report.restarted = report.restarted.saturating_add(1);
                    tracing::warn!(
                        event_type = "batch.restarted",
                        "stalled batch {} was restarted",
                        batch.batch_id
                    );
                }
                // The batch keeps its claim, and its place behind the others.
                Err(error) if error.retry() == Retry::Never => errors.note(error),
                // The next notification would fail too. The rest of the time is for releasing the
                // claims.
                Err(error) => {
                    released.push(batch.batch_id);
                    errors.note(error);
                    break;
                }
            }
        }
        released.extend(batches.map(|batch| batch.batch_id));
        if released.is_empty() { Ok(()) } else { Ok(self.database.unselect(&released).await?) }
    }

    /// Restarts a batch by sending the notification of its payload again. The chunker continues
    /// where the batch stopped; one notification too many does no harm.
    async fn notify_again(&self, batch: &BatchToRecover) -> Result<(), CheckError> {
        let key = self.objects.key_of(&batch.payload_uri)?;
        Ok(self.queue.notify(self.objects.bucket(), key, Some(batch.tenant_id)).await?)
    }

    async fn report_stuck(
        &self,
        thresholds: StallThresholds,
        report: &mut BatchesReport,
    ) -> Result<(), CheckError> {
        let stuck = self.database.stuck(thresholds, NAMED).await?;
        report.stuck = Some(stuck.count);
        for batch in stuck.oldest {
            claimed::span_of(&batch).in_scope(|| {
                tracing::error!(
                    event_type = "batch.stuck",
                    stuck = stuck.count,
                    "batch {} is stuck: restarts do not help; docs/runbook-ingest.md has the next steps",
                    batch.batch_id
                );
            });
        }
        report.chunks_behind_minutes = Some(self.database.oldest_chunk().await?.as_secs() / 60);
        Ok(())
    }
}
