//! Recording of failed work: a chunk that was not written, or a batch whose payload was not cut.

use catalog::{BatchRow, GivenUp, PayloadFailure};
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, ChunkStatus};
use ingestion::chunk::ChunkReady;
use ingestion::payload::{PayloadNotice, batch_of_payload};
use objects::ObjectError;
use payloads::PayloadError;
use runtime::metrics;
use serde_json::Map;
use uuid::Uuid;

use crate::{DeadLetter, DeadLetterError, SERVICE};

const GIVEN_UP_DETAIL: &str =
    "its processing failed repeatedly, for reasons that do not lie in its payload; it can be replayed";

const LOST_DETAIL: &str = "its payload is no longer in storage; send the products again as a new batch";

/// Error text recorded with a chunk if no attempt to write it recorded one.
const NO_ATTEMPT_NOTED: &str = "its processing failed repeatedly, and no attempt could note why";

impl DeadLetter {
    /// Records a chunk as failed, unless it is written or a replay of its batch has begun.
    /// Idempotent by the chunk's index and the batch's generation (its number of starts). An event
    /// that names another object than the chunk's is refused, because the chunk's own event may
    /// still come.
    pub(crate) async fn give_up_chunk(&self, chunk: &ChunkReady) -> Result<(), DeadLetterError> {
        let ChunkReady { batch_id, chunk_index: index, ref chunk_uri, .. } = *chunk;
        match self.database.fail_chunk(chunk, NO_ATTEMPT_NOTED).await? {
            GivenUp::OtherObject => return Err(DeadLetterError::OtherObject(chunk_uri.clone())),
            GivenUp::Failed { batch, became_final, error } => {
                tracing::error!(
                    event_type = "chunk.given_up",
                    chunk_index = chunk.chunk_index,
                    batch_status = %batch,
                    error,
                    "chunk {index} of batch {batch_id} was not written and is recorded as failed; \
                     the batch is {batch}"
                );
                metrics::count(SERVICE, &[metrics::CHUNKS_GIVEN_UP], Map::new());
                if became_final {
                    payloads::retention::finish(&self.database, &self.objects, chunk.batch_id, batch).await;
                }
            }
            GivenUp::Before(ChunkStatus::Done) => {
                tracing::info!(
                    event_type = "chunk.done_before",
                    "chunk {index} of batch {batch_id} was written before"
                );
            }
            GivenUp::Before(ChunkStatus::Pending | ChunkStatus::Failed) => {
                tracing::info!(
                    event_type = "chunk.given_up_before",
                    "chunk {index} of batch {batch_id} was given up before"
                );
            }
            GivenUp::Superseded => {
                tracing::info!(
                    event_type = "chunk.superseded",
                    "chunk {index} of batch {batch_id} is not given up: a replay of the batch has begun"
                );
            }
        }
        Ok(())
    }

    /// Records a batch as failed because its payload was not cut into chunks; a later run of the
    /// chunker may still succeed. A batch that was cut is left alone: its chunks are known and will
    /// be announced again. Idempotent.
    pub(crate) async fn give_up_payload(&self, notice: &PayloadNotice) -> Result<(), DeadLetterError> {
        let metadata = match payloads::open_noticed(&self.objects, notice).await {
            Err(PayloadError::Object(ObjectError::Missing { key })) => {
                return self.give_up_lost_payload(key).await;
            }
            opened => opened?.metadata,
        };
        let accepted = self.accepted.of_payload(&metadata).await?;
        let (tenant_id, batch_id) = (metadata.tenant_id, metadata.batch_id);
        let before = self.database.batch(&Viewer::whole(tenant_id), batch_id).await?;
        if let Some(batch) = before.filter(|batch| is_past_cutting(batch.status)) {
            log_cut_before(batch_id, batch.status);
            return Ok(());
        }
        let payload_bytes = accepted.as_ref().and_then(|accepted| accepted.payload_bytes);
        // The item of an old batch has expired; the database has kept its establishments.
        let cnpjs = match accepted {
            Some(accepted) => accepted.cnpjs,
            None => {
                self.database.allowed_cnpjs(tenant_id, batch_id).await?.ok_or(DeadLetterError::NotAccepted)?
            }
        };
        let payload_uri = self.objects.uri(&notice.key);
        let batch = BatchRow { payload_uri, payload_bytes, metadata, cnpjs };
        let status = self.database.fail_payload(&batch, &given_up(GIVEN_UP_DETAIL), None).await?;
        self.finish(batch_id, status).await;
        Ok(())
    }

    /// Records a batch as failed because its payload was deleted before it was cut, so that its
    /// client learns of it. Fails if the database does not have the batch yet. Idempotent.
    async fn give_up_lost_payload(&self, key: String) -> Result<(), DeadLetterError> {
        if let Some(batch_id) = batch_of_payload(&key)
            && let Some([before, status]) =
                self.database.fail_without_payload(batch_id, &given_up(LOST_DETAIL)).await?
        {
            // One that had failed already is not counted as given up, whatever it failed for.
            if is_past_cutting(before) {
                log_cut_before(batch_id, status);
            } else {
                self.finish(batch_id, status).await;
            }
            return Ok(());
        }
        Err(PayloadError::Object(ObjectError::Missing { key }).into())
    }

    async fn finish(&self, batch_id: Uuid, status: BatchStatus) {
        if status == BatchStatus::Failed {
            tracing::error!(
                event_type = "batch.given_up",
                "batch {batch_id} is recorded as failed: its payload was not cut"
            );
            metrics::count(SERVICE, &[metrics::BATCHES_GIVEN_UP], Map::new());
            payloads::retention::finish(&self.database, &self.objects, batch_id, status).await;
        }
    }
}

fn given_up(detail: &str) -> PayloadFailure {
    PayloadFailure { code: PayloadFailure::GIVEN_UP.into(), detail: detail.to_owned(), byte_offset: None }
}

fn log_cut_before(batch_id: Uuid, status: BatchStatus) {
    tracing::info!(
        event_type = "batch.cut_before",
        %status,
        "the payload of batch {batch_id} was cut before; the batch is {status}"
    );
}

const fn is_past_cutting(status: BatchStatus) -> bool {
    status.is_final() || matches!(status, BatchStatus::Processing)
}
