//! Data of the outbox events about batches. JSON schemas in the crate `events` describe each
//! member.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::locked_batch::LockedBatch;
use crate::view::BatchView;

/// Links of an event to more information about its batch, as paths below the API's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schemas of the events describe each member")]
pub struct Links {
    pub batch: String,
    pub errors: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors_file: Option<String>,
    pub replay: String,
}

impl Links {
    /// Returns the links of a batch, without the one to a file of items in error.
    #[must_use]
    pub fn of(batch_id: Uuid) -> Self {
        let batch = format!("/v1/inovafarma/batches/{batch_id}");
        Self {
            errors: format!("{batch}/errors"),
            errors_file: None,
            replay: format!("{batch}/replay"),
            batch,
        }
    }
}

/// Builds the data of the event that a batch became final. `errors_by_code` has the number of items
/// in error that the batch's report lists, for each error code.
pub(super) fn ended(batch: BatchView, errors_by_code: &BTreeMap<String, u64>) -> Value {
    json!({
        "batch_id": batch.batch_id,
        "generation": batch.generation,
        "load_type": batch.load_type,
        "status": batch.status,
        "received_at": batch.received_at,
        "started_at": batch.started_at,
        "finished_at": batch.finished_at,
        "source": batch.source,
        "items_parsed": batch.items_parsed,
        "items_processed": batch.items_processed,
        "items_failed": batch.items_failed,
        "items_partial": batch.items_partial,
        "changes": batch.changes,
        "deactivation": batch.deactivation,
        "chunks": batch.chunks,
        "errors_by_code": errors_by_code,
        "errors_omitted": batch.errors_omitted,
        "error": batch.error,
        "links": Links { errors_file: batch.errors_url, ..Links::of(batch.batch_id) },
    })
}

/// Builds the data of the event that a full load would deactivate so many products
/// (`would_deactivate`) that a user has to confirm it. `deactivated` is the number of products that
/// the load had deactivated before it was held.
pub(super) fn held(batch: &BatchView, would_deactivate: u64, deactivated: u64) -> Value {
    json!({
        "batch_id": batch.batch_id,
        "generation": batch.generation,
        "received_at": batch.received_at,
        "source": batch.source,
        "would_deactivate": would_deactivate,
        "deactivated": deactivated,
        "links": Links::of(batch.batch_id),
    })
}

/// Builds the data of the event that a chunk with this number of items was given up after the
/// deployment's maximum number of attempts. `error` is that of the last attempt.
pub(super) fn chunk_given_up(batch: &LockedBatch, chunk_index: u32, items: u64, error: &str) -> Value {
    json!({
        "batch_id": batch.batch_id,
        "generation": batch.generation,
        "chunk_index": chunk_index,
        "items": items,
        "error": error,
        "links": Links::of(batch.batch_id),
    })
}
