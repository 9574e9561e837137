//! Processing of one batch: its payload is cut into chunks, the batch is sealed (the database
//! records its chunks), and the chunks are announced. A repeated run of the chunker continues where
//! the last one stopped.

use std::borrow::Cow;
use std::time::Instant;

use catalog::{BatchRow, ChunkingOutcome, FailedChunking, PayloadFailure, Seal, SealOutcome};
use ingestion::chunk::{ChunkReady, Generation, Plan};
use ingestion::payload::{MediaType, chunk_key, chunk_prefix, errors_key, errors_prefix};
use ingestion::product::{BatchStamp, ItemRules};
use ingestion::split::Format;
use objects::{Head, ObjectError};
use runtime::metrics;
use transport::Origin;

use crate::cutter::CutSpec;
use crate::pipeline::{self, Outcome};
use crate::storage::Stored;
use crate::unusable::PayloadFault;
use crate::{Chunker, ChunkerError};

/// Maximum number of pending chunks that are announced again in one step, after their expiry tags
/// were removed.
const SLICE: usize = 200;

impl Chunker {
    /// Continues a batch from its current state: cuts it, announces its pending chunks again, or
    /// finalizes it. `head` is that of the payload's S3 object. Idempotent: completed steps are
    /// skipped.
    pub(crate) async fn advance(&self, batch: &BatchRow, head: &Head) -> Result<(), ChunkerError> {
        match self.database.begin_chunking(batch, self.settings.plan).await? {
            ChunkingOutcome::Chunk { plan, generation } => {
                self.keep_payload(batch).await?;
                self.give_up_earlier(batch, generation).await;
                self.cut(batch, head, plan, generation).await
            }
            ChunkingOutcome::Sealed { pending, .. } if pending.is_empty() => self.finish(batch).await,
            ChunkingOutcome::Sealed { pending, .. } => {
                self.keep_payload(batch).await?;
                self.announce_again(batch, pending).await
            }
            ChunkingOutcome::TooOld(status) => {
                tracing::warn!(
                    event_type = "batch.too_old",
                    %status,
                    "batch {} is older than the history of loads and is not processed; it is {status}",
                    batch.metadata.batch_id
                );
                self.release(batch).await;
                Ok(())
            }
            ChunkingOutcome::Final(status) => {
                let batch_id = batch.metadata.batch_id;
                tracing::info!(
                    event_type = "batch.final_before",
                    %status,
                    "batch {batch_id} was final before: {status}"
                );
                self.release(batch).await;
                Ok(())
            }
        }
    }

    /// Removes from a batch's payload the tag by which S3 would expire it, because this run of the
    /// chunker or a later one still reads the payload. The tag is there if the batch is replayed,
    /// or was given up and is now continued. Every run removes it, because an earlier run that
    /// should have removed it may have died.
    async fn keep_payload(&self, batch: &BatchRow) -> Result<(), ChunkerError> {
        Ok(self.objects.untag_final(vec![batch.payload_uri.clone()]).await?)
    }

    /// Tags the objects that earlier generations (starts or replays of the batch) left in the
    /// bucket, so that S3 expires them. The database does not know these objects, because the runs
    /// that stored them died before the batch was sealed. A failure is only logged: it costs
    /// nothing but storage.
    async fn give_up_earlier(&self, batch: &BatchRow, generation: Generation) {
        if generation == Generation::FIRST {
            return;
        }
        let batch_id = batch.metadata.batch_id;
        for prefix in [chunk_prefix(batch_id), errors_prefix(batch_id)] {
            if let Err(error) = self.give_up_before(&prefix, generation).await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    event_type = "batch.not_tagged",
                    error,
                    "objects of earlier generations of batch {batch_id} will not expire: {error}"
                );
            }
        }
    }

    async fn give_up_before(&self, prefix: &str, generation: Generation) -> Result<(), ObjectError> {
        let is_before = |key: &str| {
            let number = key.strip_prefix(prefix).and_then(|rest| rest.split('/').next()?.parse().ok());
            number.is_some_and(|number: u32| number < generation.number())
        };
        let mut from = None;
        loop {
            let page = self.objects.list(prefix, from).await?;
            let before = page.objects.iter().filter(|object| is_before(&object.key));
            self.objects.tag_final(before.map(|object| self.objects.uri(&object.key)).collect()).await?;
            from = page.next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    /// Announces the pending chunks of a sealed batch (one whose payload is cut) once more. Chunks
    /// of a replay were tagged for expiry, so their tags are removed before. Each step untags and
    /// announces up to [`SLICE`] chunks: if this run dies, the next run has to announce only the
    /// chunks that are not written by then.
    async fn announce_again(&self, batch: &BatchRow, pending: Vec<ChunkReady>) -> Result<(), ChunkerError> {
        let origin = origin(batch);
        for slice in pending.chunks(SLICE) {
            let replayed = slice.iter().filter(|chunk| chunk.generation > Generation::FIRST);
            self.objects.untag_final(replayed.map(|chunk| chunk.chunk_uri.clone()).collect()).await?;
            self.announcer.announce(&origin, slice.iter().cloned()).await?;
        }
        tracing::info!(
            event_type = "batch.announced_again",
            chunks = pending.len(),
            "batch {} was cut before; its {} pending chunks were announced again",
            batch.metadata.batch_id,
            pending.len()
        );
        Ok(())
    }

    /// Finalizes a batch whose payload is cut and that has no pending chunks: a replay that only
    /// deactivates products, or a batch whose last writer died before finalizing it.
    async fn finish(&self, batch: &BatchRow) -> Result<(), ChunkerError> {
        let batch_id = batch.metadata.batch_id;
        let end = self.database.finalize(batch_id).await?;
        let status = end.status;
        tracing::info!(
            event_type = "batch.finished",
            %status,
            "batch {batch_id} had no pending chunk and is {status}"
        );
        if end.status.is_final() {
            self.release(batch).await;
        }
        Ok(())
    }

    async fn cut(
        &self,
        batch: &BatchRow,
        head: &Head,
        plan: Plan,
        generation: Generation,
    ) -> Result<(), ChunkerError> {
        let began = Instant::now();
        let metadata = &batch.metadata;
        let spec = CutSpec {
            format: match metadata.media_type {
                MediaType::Json => Format::Array,
                MediaType::NdJson => Format::Lines,
            },
            rules: ItemRules {
                zone: self.settings.zone.clone(),
                cnpjs: batch.cnpjs.clone(),
                partial: metadata.partial,
            },
            plan,
            batch: BatchStamp::new(metadata.received_at, metadata.batch_id),
            generation,
            max_bytes: self.settings.max_payload_bytes,
            bounds: self.settings.bounds,
            checksum: metadata.checksum.clone(),
        };
        let mut source = self.objects.body(&metadata.key(), head);
        let output = Stored {
            objects: &self.objects,
            database: &self.database,
            batch_id: metadata.batch_id,
            generation,
        };
        match pipeline::run(spec, &mut source, &output).await.map_err(ChunkerError::Run)? {
            Outcome::Cut(cut) => {
                report(batch, &cut, began);
                self.seal(batch, generation, cut).await
            }
            Outcome::Unusable { why, errors_omitted, stored } => {
                self.fail(batch, generation, (why, errors_omitted), stored).await
            }
        }
    }

    async fn seal(&self, batch: &BatchRow, generation: Generation, cut: Seal) -> Result<(), ChunkerError> {
        let batch_id = batch.metadata.batch_id;
        let errors_uri =
            (cut.items_in_error > 0).then(|| self.objects.uri(&errors_key(batch_id, generation)));
        let seal = Seal { errors_uri, ..cut };
        let status = match self.database.seal(batch_id, generation, &seal).await? {
            // A faster run may have died before it announced the chunks.
            SealOutcome::Sealed(status) | SealOutcome::AlreadySealed(status) => status,
            SealOutcome::Superseded => {
                tracing::info!(event_type = "batch.superseded", "a replay of batch {batch_id} has begun");
                return Ok(());
            }
        };
        if status.is_final() {
            self.release(batch).await;
            return Ok(());
        }
        // The batch may have been given up while the payload was read.
        self.keep_payload(batch).await?;
        let chunks = seal.chunks.into_iter().map(|chunk| ChunkReady {
            batch_id,
            generation,
            chunk_index: chunk.index,
            chunk_uri: chunk.uri,
            cnpj: chunk.first_cnpj,
            items: chunk.items,
        });
        Ok(self.announcer.announce(&origin(batch), chunks).await?)
    }

    async fn fail(
        &self,
        batch: &BatchRow,
        generation: Generation,
        (why, errors_omitted): (PayloadFault, u64),
        stored: u32,
    ) -> Result<(), ChunkerError> {
        let code = why.code.as_str();
        tracing::warn!(
            event_type = "batch.payload_failed",
            code,
            byte_offset = why.byte_offset,
            detail = why.detail,
            "the payload of batch {} is unusable: {code}",
            batch.metadata.batch_id
        );
        metrics::count(crate::SERVICE, &[metrics::PAYLOADS_FAILED], serde_json::Map::new());
        let failure =
            PayloadFailure { code: Cow::Borrowed(code), detail: why.detail, byte_offset: why.byte_offset };
        let key = |index| chunk_key(batch.metadata.batch_id, generation, index);
        let stored: Vec<String> = (0..stored).map(|index| self.objects.uri(&key(index))).collect();
        // The database does not know these chunks, so no later release finds them. A run that cuts
        // the payload again stores them anew, without the tag.
        if let Err(error) = self.objects.tag_final(stored.clone()).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                event_type = "batch.not_tagged",
                error,
                "chunks of the unusable payload of batch {} will not expire: {error}",
                batch.metadata.batch_id
            );
        }
        let chunking = FailedChunking { generation, errors_omitted };
        if self.database.fail_payload(batch, &failure, Some(chunking)).await?.is_final() {
            self.release(batch).await;
        } else {
            // Another run was able to use the payload, or a later generation has begun.
            self.objects.untag_final(stored).await?;
        }
        Ok(())
    }

    async fn release(&self, batch: &BatchRow) {
        payloads::retention::release(&self.database, &self.objects, batch.metadata.batch_id).await;
    }
}

fn origin(batch: &BatchRow) -> Origin {
    Origin {
        tenant_id: batch.metadata.tenant_id,
        idempotency_key: batch.metadata.idempotency_key.clone(),
        trace_id: batch.metadata.trace_id.clone(),
    }
}

fn report(batch: &BatchRow, cut: &Seal, began: Instant) {
    let took = metrics::milliseconds(began.elapsed());
    tracing::info!(
        event_type = "batch.cut",
        bytes = cut.payload_bytes,
        items = cut.items_parsed,
        items_in_error = cut.items_in_error,
        items_partial = cut.items_partial,
        chunks = cut.chunks.len(),
        duration_ms = took,
        "the payload of batch {} was cut: {} items in {} chunks, {} items in error",
        batch.metadata.batch_id,
        cut.items_parsed,
        cut.chunks.len(),
        cut.items_in_error
    );
    let measures = [
        (metrics::PAYLOADS_CUT, 1),
        (metrics::ITEMS_PARSED, cut.items_parsed),
        (metrics::ITEMS_IN_ERROR, cut.items_in_error),
        (metrics::ITEMS_PARTIAL, cut.items_partial),
        (metrics::CHUNKING_TIME, took),
    ];
    metrics::measure(crate::SERVICE, &measures, serde_json::Map::new());
}
