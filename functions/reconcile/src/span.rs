use catalog::StoppedBatch;
use tracing::Span;

/// The span of the work on one batch, with the fields that every log line about it has.
pub(crate) fn of_batch(batch: &StoppedBatch) -> Span {
    tracing::info_span!(
        "batch",
        batch_id = %batch.batch_id,
        tenant = %batch.tenant_id,
        correlation_id = batch.trace_id,
        status = %batch.status,
        generation = batch.generation.number(),
        chunks_pending = batch.chunks_pending,
        moved_at = %batch.moved_at,
    )
}
