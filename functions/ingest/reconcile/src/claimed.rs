use attempt::Deadline;
use catalog::{DatabaseError, StalledBatch};
use tracing::{Instrument as _, Span};

use crate::error::{CheckError, FirstError};

/// Most batches that one check works on. Each may take seconds: a full load's deactivation, or the
/// tags of thousands of objects.
const LIMIT: u32 = 50;

/// Maximum number of batches that one statement claims.
const AT_ONCE: u32 = 5;

/// Claims batches a few at a time, and does the work for each in its span. A batch that fails keeps
/// its claim until its time has doubled, and does not stop the others.
pub(crate) async fn for_each(
    deadline: Deadline,
    claim: impl AsyncFn(u32) -> Result<Vec<StalledBatch>, DatabaseError>,
    mut work: impl AsyncFnMut(&StalledBatch) -> Result<(), CheckError>,
) -> Result<(), CheckError> {
    let mut left = LIMIT;
    let mut first = FirstError::default();
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
                    first.note(failure);
                }
            };
            working.instrument(span_of(&batch)).await;
        }
    }
    first.into_result()
}

/// The span of the work on one batch, with the fields that every log line about it has.
pub(crate) fn span_of(batch: &StalledBatch) -> Span {
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
