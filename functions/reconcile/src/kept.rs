use catalog::StoppedBatch;
use clock::Deadline;
use tracing::Instrument as _;

use crate::failure::{FirstError, LookError};
use crate::report::BatchesReport;
use crate::{Reconcile, span};

/// Batches whose objects one run releases at most. Each may have thousands.
const LIMIT: u32 = 50;

/// Batches that are claimed at once.
const AT_ONCE: u32 = 5;

impl Reconcile {
    /// Tags the objects of final batches that a function left untagged when it died.
    pub(crate) async fn release_objects(
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
            let claimed = self.database.take_kept(self.settings.unfinished_for, left.min(AT_ONCE)).await?;
            if claimed.is_empty() {
                break;
            }
            left = left.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX));
            for batch in claimed {
                let release = async {
                    match self.release(&batch).await {
                        Ok(()) => report.let_go = report.let_go.saturating_add(1),
                        // It is claimed again when its time has doubled.
                        Err(failure) => first.note(failure),
                    }
                };
                release.instrument(span::of_batch(&batch)).await;
            }
        }
        first.into_result()
    }

    async fn release(&self, batch: &StoppedBatch) -> Result<(), LookError> {
        retention::try_release(&self.database, &self.objects, batch.batch_id).await?;
        tracing::warn!(event_type = "batch.let_go", "the objects of a final batch may expire now");
        Ok(())
    }
}
