use std::collections::BTreeMap;

use ingestion::batch::{BatchStatus, DeactivationReport};
use ingestion::chunk::Generation;
use ingestion::payload::{LoadType, Source};
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::Fact;
use crate::batch::PayloadFailure;
use crate::view::{BatchView, ChangesView, ChunksView};

/// Number of listed items in error, by error code.
pub type ErrorsByCode = BTreeMap<String, u64>;

/// Fact that a batch is final, in this generation and with this outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "`batch.final.schema.json` describes each member")]
pub struct BatchFinal {
    pub batch_id: Uuid,
    pub generation: Generation,
    pub load_type: LoadType,
    pub status: BatchStatus,
    pub received_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub source: Option<Source>,
    pub items_parsed: u64,
    pub items_processed: u64,
    pub items_failed: u64,
    pub items_partial: u64,
    pub changes: ChangesView,
    pub deactivation: DeactivationReport,
    pub chunks: ChunksView,
    pub errors_by_code: ErrorsByCode,
    pub errors_omitted: u64,
    pub error: Option<PayloadFailure>,
    pub links: Links,
}

/// Fact that a full load would deactivate so many products that the deactivation has to be
/// confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "`batch.held.schema.json` describes each member")]
pub struct BatchHeld {
    pub batch_id: Uuid,
    pub generation: Generation,
    pub received_at: Timestamp,
    pub source: Option<Source>,
    pub would_deactivate: u64,
    pub deactivated: u64,
    pub links: Links,
}

/// Fact that a chunk could not be written, after as many attempts as the deployment allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "`chunk.given_up.schema.json` describes each member")]
pub struct ChunkGivenUp {
    pub batch_id: Uuid,
    pub generation: Generation,
    pub chunk_index: u32,
    pub items: u64,
    pub error: String,
    pub links: Links,
}

/// Links to more information about a batch: paths below the API's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schemas of the events describe each member")]
pub struct Links {
    pub batch: String,
    pub errors: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors_file: Option<String>,
    pub replay: String,
}

impl Fact for BatchFinal {
    const EVENT_TYPE: &'static str = "integrahub.batch.final";
}

impl Fact for BatchHeld {
    const EVENT_TYPE: &'static str = "integrahub.batch.held";
}

impl Fact for ChunkGivenUp {
    const EVENT_TYPE: &'static str = "integrahub.chunk.given_up";
}

impl Links {
    /// The paths of a batch.
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

impl BatchFinal {
    pub(super) fn of(batch: BatchView, errors_by_code: ErrorsByCode) -> Self {
        Self {
            batch_id: batch.batch_id,
            generation: batch.generation,
            load_type: batch.load_type,
            status: batch.status,
            received_at: batch.received_at,
            started_at: batch.started_at,
            finished_at: batch.finished_at,
            source: batch.source,
            items_parsed: batch.items_parsed,
            items_processed: batch.items_processed,
            items_failed: batch.items_failed,
            items_partial: batch.items_partial,
            changes: batch.changes,
            deactivation: batch.deactivation,
            chunks: batch.chunks,
            errors_by_code,
            errors_omitted: batch.errors_omitted,
            error: batch.error,
            links: Links { errors_file: batch.errors_url, ..Links::of(batch.batch_id) },
        }
    }
}

impl BatchHeld {
    pub(super) fn of(batch: BatchView, would_deactivate: u64, deactivated: u64) -> Self {
        let BatchView { batch_id, generation, received_at, source, .. } = batch;
        let links = Links::of(batch_id);
        Self { batch_id, generation, received_at, source, would_deactivate, deactivated, links }
    }
}
