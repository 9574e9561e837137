//! Cuts a stored payload into chunks, and announces them.
//!
//! A notification is delivered at least once, and a run may die anywhere, so every step can be
//! repeated: chunks have the same names and bytes in every run, a batch is sealed (its list of
//! chunks is stored) once, and a chunk that is announced twice is written once. A message is
//! acknowledged when its batch has been sealed and announced, or has failed because of its own
//! content. Any other message returns to its queue, also one about an object that is not a payload:
//! it then lies in the dead-letter queue, and the object stays where it is.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod batch;
mod content;
mod cutter;
mod decode;
mod error;
mod job;
pub mod pipeline;
mod report;
mod settings;
mod storage;
mod unusable;

pub use cutter::{Bounds, CutSpec};
pub use error::{ChunkerError, InvocationError};
pub use settings::Settings;
pub use unusable::{PayloadFault, UnusableCode};

use std::time::SystemTime;

use batch_items::BatchItems;
use catalog::{BatchRow, Database};
use events::Publisher;
use ingestion::payload::{AcceptedBatch, PayloadMetadata, PayloadNotice};
use ingestion::product::CnpjAccess;
use objects::Objects;
use serde_json::Value;
use transport::ChunkAnnouncer;
use worker::{SqsBatchResponse, Visibility};

/// Name of the chunker in its metrics.
const SERVICE: &str = "chunker";

/// State of the chunker: its clients and settings, reused by every invocation.
#[derive(Debug)]
pub struct Chunker {
    pub objects: Objects,
    pub accepted: BatchItems,
    pub database: Database,
    pub publisher: Publisher,
    pub announcer: ChunkAnnouncer,
    /// Visibility timeouts for messages of the payload queue that are to be retried.
    pub visibility: Visibility,
    pub settings: Settings,
}

impl Chunker {
    /// Handles the messages of one invocation, which Lambda ends at `ends_at`, and returns those to
    /// retry. Instead of queue messages, the event may be a single S3 event.
    ///
    /// # Errors
    /// If the event cannot be read, or it is a single S3 event and its payload fails.
    pub async fn handle(
        &self,
        event: Value,
        ends_at: SystemTime,
    ) -> Result<SqsBatchResponse, InvocationError> {
        if worker::is_from_queue(&event) {
            return Ok(worker::serve(self, event, ends_at).await?);
        }
        worker::serve_directly(self, &event, ends_at).await?;
        Ok(SqsBatchResponse::default())
    }

    async fn process(&self, notice: &PayloadNotice) -> Result<(), ChunkerError> {
        let payload = payloads::open_noticed(&self.objects, notice).await?;
        let metadata = payload.metadata;
        let accepted = self.accepted.of_payload(&metadata).await?;
        let payload_bytes = accepted.as_ref().and_then(|accepted| accepted.payload_bytes);
        let cnpjs = self.allowed(&metadata, accepted).await?;
        let payload_uri = self.objects.uri(&notice.key);
        let batch = BatchRow { payload_uri, payload_bytes, metadata, cnpjs };
        self.advance(&batch, &payload.head).await
    }

    /// Returns the establishments that a batch may load: from its DynamoDB item, or from the
    /// database if an old batch is replayed and its item has expired. Also marks an upload's item
    /// as arrived.
    async fn allowed(
        &self,
        metadata: &PayloadMetadata,
        accepted: Option<AcceptedBatch>,
    ) -> Result<CnpjAccess, ChunkerError> {
        let (tenant_id, batch_id) = (metadata.tenant_id, metadata.batch_id);
        if let Some(accepted) = accepted {
            if accepted.upload_expires_at.is_some() {
                self.accepted.note_arrival(tenant_id, batch_id).await?;
            }
            return Ok(accepted.cnpjs);
        }
        self.database.allowed_cnpjs(tenant_id, batch_id).await?.ok_or(ChunkerError::NotAccepted)
    }
}
