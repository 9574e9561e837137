//! Giving up a chunk that was not written, or a batch whose payload was not cut.

use catalog::{GivenUp, NewBatch, PayloadFailure};
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, ChunkStatus};
use ingestion::chunk::ChunkReady;
use serde_json::Map;
use telemetry::metrics;
use transport::PayloadNotice;

use crate::{DeadLetter, DeadLetterError, SERVICE};

const GIVEN_UP_DETAIL: &str =
    "its processing failed repeatedly, for reasons that do not lie in its payload; it can be replayed";

/// The note of a chunk that no attempt left one with.
const NO_ATTEMPT_NOTED: &str = "its processing failed repeatedly, and no attempt could note why";

impl DeadLetter {
    /// Gives up a chunk. Idempotent by its place and generation.
    pub(crate) async fn give_up_chunk(&self, chunk: &ChunkReady) -> Result<(), DeadLetterError> {
        let given_up = self
            .database
            .fail_chunk(chunk.batch_id, chunk.generation, chunk.chunk_index, NO_ATTEMPT_NOTED)
            .await?;
        match given_up {
            GivenUp::Failed { batch, became_final } => {
                tracing::error!(
                    event_type = "chunk.given_up",
                    chunk_index = chunk.chunk_index,
                    batch_status = %batch,
                    "the chunk was not written and is recorded as failed"
                );
                metrics::count(SERVICE, &[metrics::CHUNKS_GIVEN_UP], Map::new());
                if became_final {
                    retention::finish(&self.database, &self.objects, chunk.batch_id, batch).await;
                }
            }
            GivenUp::Before(ChunkStatus::Done) => {
                tracing::info!(event_type = "chunk.done_before", "the chunk was written before");
            }
            GivenUp::Before(ChunkStatus::Pending | ChunkStatus::Failed) => {
                tracing::info!(event_type = "chunk.given_up_before", "the chunk was given up before");
            }
            GivenUp::Superseded => {
                tracing::info!(event_type = "chunk.superseded", "a replay of the batch has begun");
            }
        }
        Ok(())
    }

    /// Gives up a batch whose payload was not cut, unless a later run of the chunker succeeds. A
    /// sealed batch is left alone: its chunks are known, and are announced again. Idempotent by the
    /// batch.
    pub(crate) async fn give_up_payload(&self, notice: &PayloadNotice) -> Result<(), DeadLetterError> {
        let (payload, accepted) = payloads::open_accepted(&self.objects, &self.accepted, notice).await?;
        let metadata = payload.metadata;
        let (viewer, batch_id) = (Viewer::whole(metadata.tenant_id), metadata.batch_id);
        let cnpjs = accepted.ok_or(DeadLetterError::NotAccepted)?.cnpjs;
        let before = self.database.batch(&viewer, batch_id).await?.map(|batch| batch.status);
        if let Some(status) = before.filter(|status| is_past_cutting(*status)) {
            tracing::info!(event_type = "batch.cut_before", %status, "the payload was read before");
            return Ok(());
        }
        let batch = NewBatch { payload_uri: self.objects.uri(&notice.key), metadata, cnpjs };
        let failure = PayloadFailure {
            code: PayloadFailure::GIVEN_UP.into(),
            detail: GIVEN_UP_DETAIL.to_owned(),
            byte_offset: None,
        };
        let status = self.database.fail_payload(&batch, &failure).await?;
        if status == BatchStatus::Failed {
            tracing::error!(
                event_type = "batch.given_up",
                "the payload was not cut, and its batch is recorded as failed"
            );
            metrics::count(SERVICE, &[metrics::BATCHES_GIVEN_UP], Map::new());
            retention::finish(&self.database, &self.objects, batch_id, status).await;
        }
        Ok(())
    }
}

const fn is_past_cutting(status: BatchStatus) -> bool {
    status.is_final() || matches!(status, BatchStatus::Processing)
}
