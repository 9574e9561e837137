//! Checks that claim batches and handle them one by one: batches that were not finalized, and final
//! batches whose objects were not tagged for expiry.

use attempt::Deadline;
use catalog::{BatchToRecover, DatabaseError};
use tracing::{Instrument as _, Span};

use crate::Reconcile;
use crate::error::{CheckError, ErrorCollector};
use crate::report::BatchesReport;

/// Maximum number of batches that one check finalizes, or whose objects it tags for expiry, in a
/// run. Each may take seconds: the deactivation of a full load, or the tags of thousands of
/// objects.
const LIMIT: u32 = 50;

/// Maximum number of batches that one database statement claims.
const AT_ONCE: u32 = 5;

impl Reconcile {
    /// Finalizes batches whose chunks are all written, but that no function finalized.
    pub(crate) async fn finalize_batches(
        &self,
        deadline: Deadline,
        report: &mut BatchesReport,
    ) -> Result<(), CheckError> {
        let claim = async |limit| self.database.select_unfinalized(self.settings.unfinished_for, limit).await;
        for_each(deadline, claim, async |batch| {
            let end = self.database.finalize(batch.batch_id).await?;
            if end.became_final {
                tracing::warn!(
                    event_type = "batch.finalized",
                    status = %end.status,
                    "batch {}, whose chunks were all written, was finalized: {}",
                    batch.batch_id,
                    end.status
                );
                report.finalized = report.finalized.saturating_add(1);
            }
            if end.status.is_final() {
                payloads::retention::release(&self.database, &self.objects, batch.batch_id).await;
            }
            Ok(())
        })
        .await
    }

    /// Tags the objects of final batches for expiry, if the function that should have done it died
    /// or failed.
    pub(crate) async fn release_objects(
        &self,
        deadline: Deadline,
        report: &mut BatchesReport,
    ) -> Result<(), CheckError> {
        let claim = async |limit| self.database.select_unreleased(self.settings.unfinished_for, limit).await;
        for_each(deadline, claim, async |batch| {
            payloads::retention::try_release(&self.database, &self.objects, batch.batch_id).await?;
            tracing::warn!(
                event_type = "batch.released",
                "the objects of final batch {} may expire now",
                batch.batch_id
            );
            report.released = report.released.saturating_add(1);
            Ok(())
        })
        .await
    }
}

/// Claims batches by `claim`, which gets the maximum number of batches to claim, a few at a time,
/// and calls `work` for each in its own tracing span. A failure does not stop the other batches.
/// The failed batch can be claimed again once the time since it stalled has doubled.
async fn for_each(
    deadline: Deadline,
    claim: impl AsyncFn(u32) -> Result<Vec<BatchToRecover>, DatabaseError>,
    mut work: impl AsyncFnMut(&BatchToRecover) -> Result<(), CheckError>,
) -> Result<(), CheckError> {
    let mut left = LIMIT;
    let mut errors = ErrorCollector::default();
    while left > 0 {
        if deadline.has_passed() {
            return Err(CheckError::OutOfTime);
        }
        let claimed = claim(left.min(AT_ONCE)).await?;
        if claimed.is_empty() {
            break;
        }
        left = left.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX));
        for batch in claimed {
            let working = async {
                if let Err(failure) = work(&batch).await {
                    errors.note(failure);
                }
            };
            working.instrument(span_of(&batch)).await;
        }
    }
    errors.into_result()
}

/// Creates the tracing span for the work on one batch, with the fields of every log line about it.
pub(crate) fn span_of(batch: &BatchToRecover) -> Span {
    tracing::error_span!(
        "batch",
        batch_id = %batch.batch_id,
        tenant = %batch.tenant_id,
        idempotency_key = batch.idempotency_key,
        correlation_id = batch.trace_id,
        status = %batch.status,
        generation = batch.generation.number(),
        chunks_pending = batch.chunks_pending,
        moved_at = %batch.moved_at,
    )
}
