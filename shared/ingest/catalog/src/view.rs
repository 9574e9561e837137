//! Batches in the form of the API's responses.

use ingestion::Viewer;
use ingestion::batch::{BatchStatus, Deactivation, DeactivationReport};
use ingestion::chunk::Generation;
use ingestion::payload::{LoadType, Source, SourceKey};
use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::account::changes;
use crate::batch::PayloadFailure;
use crate::connection::Params;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locked_batch::generation;
use crate::rows::{count, word};
use crate::visible::visible;
use crate::warnings::warnings;

/// Route of the API that returns the file of a batch's items in error.
pub const ERRORS_FILE: &str = "/v1/inovafarma/batches/{batch_id}/errors.ndjson";

/// Batch, with the members of the API's response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "`ProductBatch` in openapi.yaml describes each member")]
pub struct BatchView {
    pub batch_id: Uuid,
    pub load_type: LoadType,
    pub status: BatchStatus,
    /// Dropped S3 object of which the batch was made; `None` if a request created it.
    pub source: Option<Source>,
    pub received_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub generation: Generation,
    pub payload: PayloadView,
    pub items_parsed: u64,
    pub items_processed: u64,
    pub items_failed: u64,
    /// Number of items that lack members which other items of the payload have.
    pub items_partial: u64,
    /// Number of items in error that the batch's report does not list, because there are too many.
    pub errors_omitted: u64,
    /// Path of the file of all items in error; `None` if the batch has none, or the viewer may not
    /// see all of it.
    pub errors_url: Option<String>,
    pub changes: ChangesView,
    pub deactivation: DeactivationReport,
    pub chunks: ChunksView,
    pub error: Option<PayloadFailure>,
    /// Warnings for the sender about conditions that are not errors.
    pub warnings: Vec<&'static str>,
}

/// Size and checksum of a batch's decoded payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "`ProductBatch` in openapi.yaml describes each member")]
pub struct PayloadView {
    pub bytes: Option<u64>,
    /// SHA-256 of the batch's decoded payload, in hex; `None` if the payload was not read yet.
    pub checksum: Option<String>,
}

/// Numbers of a batch's items by outcome, and of the products that it deactivated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "`ProductBatch` in openapi.yaml describes each member")]
pub struct ChangesView {
    pub inserted: u64,
    pub updated: u64,
    pub unchanged: u64,
    pub stale: u64,
    pub deactivated: u64,
}

/// Numbers of a batch's chunks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "`ProductBatch` in openapi.yaml describes each member")]
pub struct ChunksView {
    pub total: u64,
    pub done: u64,
    pub failed: u64,
    pub pending: u64,
}

/// Conditions that batches in a list must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchFilter {
    /// Status of the batches; `None` for any.
    pub status: Option<BatchStatus>,
    /// Load type of the batches; `None` for any.
    pub load_type: Option<LoadType>,
    /// Key of the dropped S3 object of which the batches were made; `None` for any batch.
    pub source_key: Option<SourceKey>,
}

/// Builds the SQL that selects batches for a viewer. `$cnpjs` is the parameter with the viewer's
/// establishments; without it, the viewer may see all of them.
macro_rules! batches {
    () => {
        batches!(@ "true")
    };
    ($cnpjs:literal) => {
        batches!(@ "(", $cnpjs, "::text[] IS NULL OR ", crate::visible::accepted_within!($cnpjs), ")")
    };
    (@ $($shown:tt)*) => {
        concat!(
            "SELECT batch_id, load_type, status, received_at, started_at, finished_at, generation, payload_bytes, ",
            "payload_checksum, items_parsed, items_failed, items_partial, unreadable_keys, errors_omitted + rejected_unlisted AS errors_omitted, inserted, updated, unchanged, stale, chunks_pending, ",
            "chunks_done, chunks_failed, deactivation, error, source, errors_uri IS NOT NULL AND ",
            $($shown)*,
            " AS has_errors_file FROM batches b WHERE ",
        )
    };
}

macro_rules! batches_where {
    ($cnpjs:literal, $condition:literal) => {
        concat!(batches!($cnpjs), visible!("$1", $cnpjs), " AND ", $condition)
    };
}

/// Selects a batch for a caller that may see every batch, with the columns that [`view`] reads.
pub(crate) const OF_ANY_TENANT: &str = concat!(batches!(), "batch_id = $1");
const ONE: &str = batches_where!("$3", "batch_id = $2");
const PAGE: &str = batches_where!(
    "$6",
    "batch_id < $2 AND ($3::text IS NULL OR status = $3) AND ($4::text IS NULL OR load_type = $4) \
     ORDER BY batch_id DESC LIMIT $5"
);
/// Query for a page of the batches that were made of dropped objects with the key `$7`, by the
/// index on that key.
const PAGE_OF_SOURCE: &str = batches_where!(
    "$6",
    "batch_id < $2 AND ($3::text IS NULL OR status = $3) AND ($4::text IS NULL OR load_type = $4) \
     AND source->>'key' = $7 ORDER BY batch_id DESC LIMIT $5"
);

impl Database {
    /// Returns a batch; `None` if it does not exist, or the viewer may not see it.
    pub async fn batch(&self, viewer: &Viewer, batch_id: Uuid) -> Result<Option<BatchView>, DatabaseError> {
        let found = self.read(ONE, &[&viewer.tenant_id(), &batch_id, &viewer.limits()]).await?;
        found.first().map(view).transpose()
    }

    /// Returns a page of up to `limit` batches that meet the filter and that the viewer may see,
    /// the newest first; `before` is the id of the last batch on the previous page.
    pub async fn batches(
        &self,
        viewer: &Viewer,
        filter: &BatchFilter,
        limit: u32,
        before: Option<Uuid>,
    ) -> Result<Vec<BatchView>, DatabaseError> {
        let before = before.unwrap_or(Uuid::max());
        let status = filter.status.map(BatchStatus::as_str);
        let load_type = filter.load_type.map(LoadType::as_str);
        let (tenant_id, cnpjs, limit) = (viewer.tenant_id(), viewer.limits(), i64::from(limit));
        let found = match filter.source_key.as_ref().map(SourceKey::as_str) {
            None => self.read(PAGE, &[&tenant_id, &before, &status, &load_type, &limit, &cnpjs]).await?,
            Some(key) => {
                let values: Params<'_> = &[&tenant_id, &before, &status, &load_type, &limit, &cnpjs, &key];
                self.read(PAGE_OF_SOURCE, values).await?
            }
        };
        found.iter().map(view).collect()
    }
}

/// Returns the API path of the file of a batch's items in error.
#[must_use]
pub fn errors_url(batch_id: Uuid) -> String {
    ERRORS_FILE.replace("{batch_id}", &batch_id.to_string())
}

pub(crate) fn view(row: &Row) -> Result<BatchView, DatabaseError> {
    let Json(deactivation): Json<Deactivation> = row.try_get("deactivation")?;
    let changes = changes(row)?;
    let status = word(row, "status")?;
    let items_partial = count(row, "items_partial")?;
    let batch_id: Uuid = row.try_get("batch_id")?;
    let has_errors_file: bool = row.try_get("has_errors_file")?;
    let (pending, done, failed) =
        (count(row, "chunks_pending")?, count(row, "chunks_done")?, count(row, "chunks_failed")?);
    Ok(BatchView {
        batch_id,
        load_type: word(row, "load_type")?,
        status,
        source: row.try_get::<_, Option<Json<Source>>>("source")?.map(|Json(source)| source),
        received_at: row.try_get("received_at")?,
        started_at: row.try_get("started_at")?,
        finished_at: row.try_get("finished_at")?,
        generation: generation(row, "generation")?,
        payload: PayloadView {
            bytes: row.try_get::<_, Option<i64>>("payload_bytes")?.map(u64::try_from).transpose()?,
            checksum: row.try_get("payload_checksum")?,
        },
        items_parsed: count(row, "items_parsed")?,
        items_processed: changes.processed(),
        items_failed: count(row, "items_failed")?,
        items_partial,
        errors_omitted: count(row, "errors_omitted")?,
        errors_url: has_errors_file.then(|| errors_url(batch_id)),
        changes: ChangesView {
            inserted: changes.inserted,
            updated: changes.updated,
            unchanged: changes.unchanged,
            stale: changes.stale,
            deactivated: match deactivation {
                Deactivation::Done { deactivated, .. } | Deactivation::Held { deactivated, .. } => {
                    deactivated
                }
                _ => 0,
            },
        },
        deactivation: deactivation.report(status),
        chunks: ChunksView {
            total: pending.saturating_add(done).saturating_add(failed),
            done,
            failed,
            pending,
        },
        error: row.try_get::<_, Option<Json<PayloadFailure>>>("error")?.map(|Json(failure)| failure),
        warnings: warnings(row)?,
    })
}
