use tokio::time::Instant;

use crate::Reconcile;
use crate::failure::Trouble;
use crate::report::HistoryReport;

/// Batches that one run ends at most. Each may have thousands of objects, which are let go.
const ENDED: u32 = 20;

/// Rows that one run deletes at most, give or take a slice.
const ROWS: u64 = 500_000;

impl Reconcile {
    /// Ends batches under way that are too old, deletes final ones that are too old, and lets the history
    /// begin later once all of them are deleted.
    pub(crate) async fn prune(&self, until: Instant, report: &mut HistoryReport) -> Result<(), Trouble> {
        // A batch that cannot be ended does not stop the others from being deleted.
        let (ended, failure) = match self.database.end_too_old(ENDED).await {
            Ok(ended) => (ended, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        for batch in ended {
            report.too_old = report.too_old.saturating_add(1);
            tracing::error!(
                event_type = "batch.too_old",
                batch_id = %batch.batch_id,
                tenant = %batch.tenant_id,
                correlation_id = batch.trace_id,
                status = %batch.status,
                generation = batch.generation.number(),
                chunks_pending = batch.chunks_pending,
                moved_at = %batch.moved_at,
                "a batch under way is older than the history of loads, and was ended"
            );
            // If the time is over, a later look at kept objects does it.
            if Instant::now() < until {
                retention::let_go(&self.database, &self.objects, batch.batch_id).await;
            }
        }
        let mut is_more = true;
        while is_more && report.rows_pruned < ROWS && Instant::now() < until {
            let pruned = self.database.prune().await?;
            report.batches_pruned = report.batches_pruned.saturating_add(pruned.batches);
            report.rows_pruned = report.rows_pruned.saturating_add(pruned.rows);
            is_more = pruned.is_more;
        }
        if is_more {
            tracing::warn!(event_type = "look.limited", "there may be more to delete than one run does");
        } else {
            self.database.advance_history(self.settings.history).await?;
        }
        let behind = self.database.pruning_behind(self.settings.history).await?;
        report.behind_minutes = Some(behind.as_secs() / 60);
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}
