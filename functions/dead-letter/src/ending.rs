//! The end of a chunk, and of a batch that was never cut.

use catalog::{GivenUp, NewBatch, PayloadFailure};
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, ChunkStatus};
use ingestion::payload::PayloadMetadata;
use serde_json::Map;
use telemetry::metrics;
use transport::{ChunkEvent, PayloadNotice};
use uuid::Uuid;

use crate::failure::NotEnded;
use crate::{DeadLetter, SERVICE};

const GIVEN_UP_DETAIL: &str =
    "its processing failed repeatedly, for reasons that do not lie in its payload; it can be replayed";

/// What is noted with a chunk of which no attempt noted anything.
const NO_ATTEMPT_NOTED: &str = "its processing failed repeatedly, and no attempt could note why";

impl DeadLetter {
    /// Gives a chunk up. Repeated by its place and generation.
    pub(crate) async fn end_chunk(&self, event: &ChunkEvent) -> Result<(), NotEnded> {
        let (attributes, chunk) = (event.attributes(), event.data());
        let span = tracing::Span::current();
        span.record("correlation_id", &attributes.trace_id);
        span.record("tenant", &attributes.tenant);
        span.record("batch_id", chunk.batch_id.to_string());
        span.record("chunk_id", chunk.chunk_id().to_string());
        span.record("cnpj", chunk.cnpj.as_str());
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
                    "the chunk was not written, and is failed"
                );
                metrics::count(SERVICE, &[metrics::CHUNKS_GIVEN_UP], Map::new());
                if became_final {
                    self.let_go(chunk.batch_id, batch).await;
                }
            }
            GivenUp::Before(ChunkStatus::Done) => {
                tracing::info!(event_type = "chunk.done_before", "the chunk was written before");
            }
            GivenUp::Before(ChunkStatus::Pending | ChunkStatus::Failed) => {
                tracing::info!(event_type = "chunk.given_up_before", "the chunk was given up before");
            }
            GivenUp::Superseded => {
                tracing::info!(event_type = "chunk.superseded", "the batch is being replayed by now");
            }
        }
        Ok(())
    }

    /// Gives up a batch whose payload was not cut, until a run of the chunker succeeds after all. One that was sealed is left alone: its chunks are known, and announced
    /// again by whoever looks after what got stuck. Repeated by the batch.
    pub(crate) async fn end_payload(&self, notice: &PayloadNotice) -> Result<(), NotEnded> {
        if notice.bucket != self.objects.bucket() {
            return Err(NotEnded::OtherBucket(notice.bucket.clone()));
        }
        let head = self.objects.head(&notice.key).await?;
        let metadata = PayloadMetadata::from_map(&head.metadata)?;
        let (tenant_id, batch_id) = (metadata.tenant_id, metadata.batch_id);
        let span = tracing::Span::current();
        span.record("correlation_id", &metadata.trace_id);
        span.record("tenant", tenant_id.to_string());
        span.record("batch_id", batch_id.to_string());
        if metadata.key() != notice.key {
            return Err(NotEnded::OtherKey(metadata.key()));
        }
        let viewer = Viewer::whole(tenant_id);
        let accepted = self.accepted.get(&viewer, batch_id).await?;
        let cnpjs = accepted.ok_or(NotEnded::NotAccepted)?.cnpjs;
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
                "the payload was not cut, and its batch is failed"
            );
            metrics::count(SERVICE, &[metrics::BATCHES_GIVEN_UP], Map::new());
            self.let_go(batch_id, status).await;
        }
        Ok(())
    }

    /// Lets the objects of a batch that is final expire. What fails here costs storage and nothing else.
    async fn let_go(&self, batch_id: Uuid, status: BatchStatus) {
        tracing::info!(event_type = "batch.final", %status, "the batch came to its end");
        retention::let_go(&self.database, &self.objects, batch_id).await;
    }
}

const fn is_past_cutting(status: BatchStatus) -> bool {
    status.is_final() || matches!(status, BatchStatus::Processing)
}
