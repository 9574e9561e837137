use catalog::{Patience, StoppedBatch};
use objects::ObjectError;
use tokio::time::Instant;
use uuid::Uuid;

use crate::Reconcile;
use crate::failure::{First, Trouble};
use crate::report::BatchesReport;

/// Batches that one run sets going at most.
const LIMIT: u32 = 200;

/// Batches that are taken at once: few, so that little is taken that there is no time to tell of.
const AT_ONCE: u32 = 25;

/// Batches that are named where many are stuck.
const NAMED: u32 = 10;

impl Reconcile {
    /// Sets batches going that stand still, and reports those with which that was tried for long enough.
    pub(crate) async fn find_stopped(
        &self,
        until: Instant,
        report: &mut BatchesReport,
    ) -> Result<(), Trouble> {
        let patience =
            Patience { stopped_for: self.settings.stopped_for, given_up_after: self.settings.given_up_after };
        let mut left = LIMIT;
        let mut first = First::default();
        while left > 0 && first.is_none() {
            if Instant::now() >= until {
                return Err(Trouble::OutOfTime);
            }
            let taken = self.database.take_stopped(patience, left.min(AT_ONCE)).await?;
            if taken.is_empty() {
                break;
            }
            left = left.saturating_sub(u32::try_from(taken.len()).unwrap_or(u32::MAX));
            self.set_going(&taken, report, &mut first).await?;
        }
        if left == 0 {
            tracing::warn!(event_type = "look.limited", "there may be more batches than one run sets going");
        }
        self.report_stuck(patience, report).await?;
        first.end()
    }

    async fn set_going(
        &self,
        taken: &[StoppedBatch],
        report: &mut BatchesReport,
        first: &mut First,
    ) -> Result<(), Trouble> {
        let mut untold: Vec<Uuid> = Vec::new();
        let mut batches = taken.iter();
        for batch in batches.by_ref() {
            match self.tell_of(batch).await {
                Ok(()) => report.set_going = report.set_going.saturating_add(1),
                // Nobody can tell of a payload that lies elsewhere, so it keeps its place behind the others.
                Err(trouble @ Trouble::Objects(_)) => first.note(trouble),
                // A queue that does not take one will not take the next: there must be time left to put them back.
                Err(trouble) => {
                    untold.push(batch.batch_id);
                    first.note(trouble);
                    break;
                }
            }
        }
        untold.extend(batches.map(|batch| batch.batch_id));
        if untold.is_empty() { Ok(()) } else { Ok(self.database.put_back(&untold).await?) }
    }

    async fn tell_of(&self, batch: &StoppedBatch) -> Result<(), Trouble> {
        let uri = &batch.payload_uri;
        let key = self.objects.key(uri).ok_or_else(|| ObjectError::Elsewhere { uri: uri.clone() })?;
        self.queue.tell(self.objects.bucket(), key).await?;
        tracing::warn!(
            event_type = "batch.set_going",
            batch_id = %batch.batch_id,
            tenant = %batch.tenant_id,
            correlation_id = batch.trace_id,
            status = %batch.status,
            generation = batch.generation.number(),
            chunks_pending = batch.chunks_pending,
            moved_at = %batch.moved_at,
            "a batch that stood still was set going"
        );
        Ok(())
    }

    async fn report_stuck(&self, patience: Patience, report: &mut BatchesReport) -> Result<(), Trouble> {
        let stuck = self.database.stuck(patience, NAMED).await?;
        report.stuck = Some(stuck.count);
        for batch in stuck.oldest {
            tracing::error!(
                event_type = "batch.stuck",
                batch_id = %batch.batch_id,
                tenant = %batch.tenant_id,
                correlation_id = batch.trace_id,
                status = %batch.status,
                generation = batch.generation.number(),
                chunks_pending = batch.chunks_pending,
                moved_at = %batch.moved_at,
                stuck = stuck.count,
                "a batch cannot be set going, and needs a decision"
            );
        }
        Ok(())
    }
}
