use catalog::StoppedBatch;
use clock::Deadline;
use tracing::Instrument as _;

use crate::failure::{FirstError, LookError};
use crate::report::BatchesReport;
use crate::{Reconcile, span};

/// Batches that one run finalizes at most. Each may take seconds, as a full load's deactivation
/// does.
const LIMIT: u32 = 50;

/// Batches that are claimed at once.
const AT_ONCE: u32 = 5;

impl Reconcile {
    /// Finalizes batches whose chunks are all written.
    pub(crate) async fn finalize_batches(
        &self,
        deadline: Deadline,
        report: &mut BatchesReport,
    ) -> Result<(), LookError> {
        let mut left = LIMIT;
        let mut first = FirstError::default();
        while left > 0 {
            if deadline.has_passed() {
                return Err(LookError::OutOfTime);
            }
            let claimed =
                self.database.take_unfinished(self.settings.unfinished_for, left.min(AT_ONCE)).await?;
            if claimed.is_empty() {
                break;
            }
            left = left.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX));
            for batch in claimed {
                let finalize = async {
                    match self.finalize(&batch).await {
                        Ok(true) => report.finalized = report.finalized.saturating_add(1),
                        Ok(false) => {}
                        // It is claimed again when its time has doubled.
                        Err(failure) => first.note(failure),
                    }
                };
                finalize.instrument(span::of_batch(&batch)).await;
            }
        }
        first.into_result()
    }

    /// Whether it was this call that finalized the batch.
    async fn finalize(&self, batch: &StoppedBatch) -> Result<bool, LookError> {
        let end = self.database.finalize(batch.batch_id).await?;
        if end.became_final {
            tracing::warn!(
                event_type = "batch.finalized",
                status = %end.status,
                "a batch whose chunks were all written was finalized"
            );
        }
        if end.status.is_final() {
            retention::release(&self.database, &self.objects, batch.batch_id).await;
        }
        Ok(end.became_final)
    }
}
