//! Views of batches that PostgreSQL does not have yet, in the form of the batches from PostgreSQL.

use catalog::{BatchView, ChangesView, ChunksView, PayloadView};
use ingestion::batch::{BatchStatus, Deactivation};
use ingestion::chunk::Generation;
use ingestion::payload::{AcceptedBatch, LoadType};
use jiff::Timestamp;

/// Converts a batch from its DynamoDB item to the view that clients get, with its status at the
/// time `now`.
pub(crate) fn of(batch: &AcceptedBatch, now: Timestamp) -> BatchView {
    let metadata = &batch.metadata;
    let status = batch.status(now);
    let is_over = status == BatchStatus::Expired;
    let deactivation = match metadata.load_type {
        LoadType::Full => Deactivation::Pending,
        LoadType::Delta => Deactivation::NotApplicable,
    };
    BatchView {
        batch_id: metadata.batch_id,
        load_type: metadata.load_type,
        status,
        source: metadata.source.clone(),
        received_at: metadata.received_at,
        started_at: None,
        finished_at: batch.upload_expires_at.filter(|_| is_over),
        generation: Generation::FIRST,
        payload: PayloadView { bytes: batch.payload_bytes, checksum: metadata.checksum.clone() },
        items_parsed: 0,
        items_processed: 0,
        items_failed: 0,
        items_partial: 0,
        errors_omitted: 0,
        errors_url: None,
        changes: ChangesView::default(),
        deactivation: deactivation.report(status),
        chunks: ChunksView::default(),
        error: None,
        warnings: if is_over { vec![never_came(metadata.source.is_some())] } else { Vec::new() },
    }
}

/// Returns the warning for a batch whose payload did not arrive in time, which tells the sender
/// what to do next.
const fn never_came(is_dropped: bool) -> &'static str {
    if is_dropped {
        "the file was deleted, moved or replaced before it was copied, so nothing of it was loaded: write it \
         again"
    } else {
        "nothing was uploaded before the URL expired: send the request to POST …/products/uploads again, with \
         the same Idempotency-Key, for a new URL"
    }
}
