use catalog::StoppedBatch;
use tokio::time::Instant;

use crate::Reconcile;
use crate::failure::{First, Trouble};
use crate::report::BatchesReport;

/// Batches that one run brings to their end at most. Each may take seconds, as a full load's deactivation does.
const LIMIT: u32 = 50;

/// Batches that are taken at once.
const AT_ONCE: u32 = 5;

impl Reconcile {
    /// Brings batches to their end whose chunks are all written.
    pub(crate) async fn find_unfinished(
        &self,
        until: Instant,
        report: &mut BatchesReport,
    ) -> Result<(), Trouble> {
        let mut left = LIMIT;
        let mut first = First::default();
        while left > 0 {
            if Instant::now() >= until {
                return Err(Trouble::OutOfTime);
            }
            let taken =
                self.database.take_unfinished(self.settings.unfinished_for, left.min(AT_ONCE)).await?;
            if taken.is_empty() {
                break;
            }
            left = left.saturating_sub(u32::try_from(taken.len()).unwrap_or(u32::MAX));
            for batch in taken {
                match self.finalize(&batch).await {
                    Ok(true) => report.finalized = report.finalized.saturating_add(1),
                    Ok(false) => {}
                    // It keeps its place behind the others until its time has doubled.
                    Err(trouble) => first.note(trouble),
                }
            }
        }
        first.end()
    }

    /// Whether it was this call that brought the batch to its end.
    async fn finalize(&self, batch: &StoppedBatch) -> Result<bool, Trouble> {
        let end = self.database.finalize(batch.batch_id).await?;
        if end.became_final {
            tracing::warn!(
                event_type = "batch.finalized",
                batch_id = %batch.batch_id,
                tenant = %batch.tenant_id,
                correlation_id = batch.trace_id,
                status = %end.status,
                moved_at = %batch.moved_at,
                "a batch whose end did not happen was brought to it"
            );
        }
        if end.status.is_final() {
            retention::let_go(&self.database, &self.objects, batch.batch_id).await;
        }
        Ok(end.became_final)
    }
}
