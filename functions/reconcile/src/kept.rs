use catalog::StoppedBatch;
use tokio::time::Instant;

use crate::Reconcile;
use crate::failure::{First, Trouble};
use crate::report::BatchesReport;

/// Batches whose objects one run lets go at most. Each may have thousands.
const LIMIT: u32 = 50;

/// Batches that are taken at once.
const AT_ONCE: u32 = 5;

impl Reconcile {
    /// Tags the objects of final batches that a function left untagged when it died.
    pub(crate) async fn find_kept(&self, until: Instant, report: &mut BatchesReport) -> Result<(), Trouble> {
        let mut left = LIMIT;
        let mut first = First::default();
        while left > 0 {
            if Instant::now() >= until {
                return Err(Trouble::OutOfTime);
            }
            let taken = self.database.take_kept(self.settings.unfinished_for, left.min(AT_ONCE)).await?;
            if taken.is_empty() {
                break;
            }
            left = left.saturating_sub(u32::try_from(taken.len()).unwrap_or(u32::MAX));
            for batch in taken {
                match self.let_go(&batch).await {
                    Ok(()) => report.let_go = report.let_go.saturating_add(1),
                    // It keeps its place behind the others until its time has doubled.
                    Err(trouble) => first.note(trouble),
                }
            }
        }
        first.end()
    }

    async fn let_go(&self, batch: &StoppedBatch) -> Result<(), Trouble> {
        retention::try_let_go(&self.database, &self.objects, batch.batch_id).await?;
        tracing::warn!(
            event_type = "batch.let_go",
            batch_id = %batch.batch_id,
            tenant = %batch.tenant_id,
            correlation_id = batch.trace_id,
            status = %batch.status,
            "the objects of a batch that came to its end may expire now"
        );
        Ok(())
    }
}
