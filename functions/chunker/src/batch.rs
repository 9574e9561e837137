//! One batch: cut, sealed, announced; or found to be so already.

use std::borrow::Cow;
use std::time::Instant;

use catalog::{Begun, NewBatch, PayloadFailure, PendingChunk, Seal, SealOutcome, SealedChunk};
use ingestion::chunk::{ChunkReady, Generation, Plan};
use ingestion::payload::{MediaType, chunk_key};
use ingestion::product::{BatchStamp, ItemRules};
use ingestion::split::Format;
use objects::Head;
use telemetry::metrics::{self, Measure};
use transport::Origin;

use crate::cutter::{Cut, Job};
use crate::pipeline::{self, Outcome};
use crate::storage::Stored;
use crate::unusable::Unusable;
use crate::{Chunker, NotCut};

/// Chunks of a replay that are kept and announced at once.
const SLICE: usize = 200;

impl Chunker {
    /// Brings a batch as far as it can be brought here. Repeated by the batch's id: what is done already is not done again, but for the news of chunks that
    /// still wait.
    pub(crate) async fn bring_on(&self, batch: &NewBatch, head: &Head) -> Result<(), NotCut> {
        match self.database.begin_chunking(batch, self.settings.plan).await? {
            Begun::Chunk { plan, generation } => {
                self.keep_payload(batch).await?;
                self.cut(batch, head, plan, generation).await
            }
            Begun::Sealed { pending, .. } if pending.is_empty() => self.finish(batch).await,
            Begun::Sealed { pending, .. } => {
                self.keep_payload(batch).await?;
                self.announce_again(batch, pending).await
            }
            Begun::TooOld(status) => {
                tracing::warn!(
                    event_type = "batch.too_old",
                    %status,
                    "the batch is older than the history of loads, and is not processed"
                );
                self.let_go(batch).await;
                Ok(())
            }
            Begun::Final(status) => {
                tracing::info!(event_type = "batch.final_before", %status, "the batch was final before");
                self.let_go(batch).await;
                Ok(())
            }
        }
    }

    /// Keeps the payload of a batch from expiring: it is read again, or at least looked at whenever the batch
    /// is brought on. It was tagged if the batch is replayed, or was given up in this generation. Whether it
    /// was given up, only the run that goes on from there sees, and that may die.
    async fn keep_payload(&self, batch: &NewBatch) -> Result<(), NotCut> {
        Ok(self.objects.keep(vec![batch.payload_uri.clone()]).await?)
    }

    /// Announces the chunks of a sealed batch that are pending. Those of a replay were tagged at the end of
    /// the generation before, so they are kept from expiring first, slice by slice: a run that dies leaves
    /// its successor only the chunks that are not written yet.
    async fn announce_again(&self, batch: &NewBatch, pending: Vec<PendingChunk>) -> Result<(), NotCut> {
        let origin = origin(batch);
        for slice in pending.chunks(SLICE) {
            let replayed = slice.iter().filter(|chunk| chunk.generation > Generation::FIRST);
            self.objects.keep(replayed.map(|chunk| chunk.uri.clone()).collect()).await?;
            let chunks = slice.iter().map(|chunk| ChunkReady {
                batch_id: batch.metadata.batch_id,
                generation: chunk.generation,
                chunk_index: chunk.index,
                chunk_uri: chunk.uri.clone(),
                cnpj: chunk.cnpj,
                items: chunk.items,
            });
            self.queue.announce(&origin, chunks).await?;
        }
        tracing::info!(
            event_type = "batch.announced_again",
            chunks = pending.len(),
            "the batch was cut before"
        );
        Ok(())
    }

    /// Brings a batch to its end of which no chunk is left: that of a replay which only deactivates, or one that a crash prevented.
    async fn finish(&self, batch: &NewBatch) -> Result<(), NotCut> {
        let end = self.database.finalize(batch.metadata.batch_id).await?;
        tracing::info!(event_type = "batch.finished", status = %end.status, "the batch had no chunk to be written");
        if end.status.is_final() {
            self.let_go(batch).await;
        }
        Ok(())
    }

    async fn cut(
        &self,
        batch: &NewBatch,
        head: &Head,
        plan: Plan,
        generation: Generation,
    ) -> Result<(), NotCut> {
        let began = Instant::now();
        let metadata = &batch.metadata;
        let job = Job {
            format: match metadata.media_type {
                MediaType::Json => Format::Array,
                MediaType::NdJson => Format::Lines,
            },
            rules: ItemRules { zone: self.settings.zone.clone(), cnpjs: batch.cnpjs.clone() },
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
        match pipeline::run(job, &mut source, &output).await.map_err(NotCut::Run)? {
            Outcome::Cut(cut) => {
                report(&cut, began);
                self.seal(batch, generation, cut).await
            }
            Outcome::Unusable { why, stored } => self.fail(batch, generation, why, stored).await,
        }
    }

    async fn seal(&self, batch: &NewBatch, generation: Generation, cut: Cut) -> Result<(), NotCut> {
        let batch_id = batch.metadata.batch_id;
        let seal = self.sealed(batch, generation, cut);
        let status = match self.database.seal(batch_id, generation, &seal).await? {
            // Whoever was faster may have died before it announced anything.
            SealOutcome::Sealed(status) | SealOutcome::AlreadySealed(status) => status,
            SealOutcome::Superseded => {
                tracing::info!(event_type = "batch.superseded", "the batch is being replayed by now");
                return Ok(());
            }
        };
        if status.is_final() {
            self.let_go(batch).await;
            return Ok(());
        }
        // While the payload was read, the batch may have been given up.
        self.keep_payload(batch).await?;
        let chunks = seal.chunks.into_iter().map(|chunk| ChunkReady {
            batch_id,
            generation,
            chunk_index: chunk.index,
            chunk_uri: chunk.uri,
            cnpj: chunk.first_cnpj,
            items: chunk.items,
        });
        Ok(self.queue.announce(&origin(batch), chunks).await?)
    }

    fn sealed(&self, batch: &NewBatch, generation: Generation, cut: Cut) -> Seal {
        let chunks = cut.chunks.into_iter().filter_map(|chunk| {
            Some(SealedChunk {
                index: chunk.index,
                uri: self.objects.uri(&chunk_key(batch.metadata.batch_id, generation, chunk.index)),
                items: chunk.items,
                first_cnpj: *chunk.cnpjs.first()?,
                cnpjs: chunk.cnpjs,
            })
        });
        Seal {
            payload_bytes: cut.bytes,
            checksum: cut.checksum,
            items_parsed: cut.items_parsed,
            items_in_error: cut.items_in_error,
            unreadable_keys: cut.unreadable_keys,
            items_partial: cut.items_partial,
            errors_omitted: cut.errors_omitted,
            chunks: chunks.collect(),
        }
    }

    async fn fail(
        &self,
        batch: &NewBatch,
        generation: Generation,
        why: Unusable,
        stored: u32,
    ) -> Result<(), NotCut> {
        let code = why.code.as_str();
        tracing::warn!(
            event_type = "batch.payload_failed",
            code,
            byte_offset = why.byte_offset,
            detail = why.detail,
            "the payload cannot be used"
        );
        metrics::count(crate::SERVICE, &[metrics::PAYLOADS_FAILED], serde_json::Map::new());
        let failure =
            PayloadFailure { code: Cow::Borrowed(code), detail: why.detail, byte_offset: why.byte_offset };
        let key = |index| chunk_key(batch.metadata.batch_id, generation, index);
        let stored: Vec<String> = (0..stored).map(|index| self.objects.uri(&key(index))).collect();
        // The database does not know these chunks, so nobody finds them once the batch is final. A later run
        // that cuts the payload again stores them anew, without the tag.
        if let Err(error) = self.objects.tag_final(stored.clone()).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(event_type = "batch.not_tagged", error, "chunks that nobody needs are kept");
        }
        if self.database.fail_payload(batch, &failure).await?.is_final() {
            self.let_go(batch).await;
        } else {
            // Another run could use the payload.
            self.objects.keep(stored).await?;
        }
        Ok(())
    }

    /// Lets the objects of a batch that is final expire.
    async fn let_go(&self, batch: &NewBatch) {
        retention::let_go(&self.database, &self.objects, batch.metadata.batch_id).await;
    }
}

fn origin(batch: &NewBatch) -> Origin {
    Origin {
        tenant_id: batch.metadata.tenant_id,
        idempotency_key: batch.metadata.idempotency_key.clone(),
        trace_id: batch.metadata.trace_id.clone(),
    }
}

fn report(cut: &Cut, began: Instant) {
    let took = Measure::duration(began.elapsed());
    tracing::info!(
        event_type = "batch.cut",
        bytes = cut.bytes,
        items = cut.items_parsed,
        items_in_error = cut.items_in_error,
        items_partial = cut.items_partial,
        chunks = cut.chunks.len(),
        duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "the payload was cut into chunks"
    );
    let measures = [
        (metrics::PAYLOADS_CUT, Measure::Count(1)),
        (metrics::ITEMS_PARSED, Measure::Count(cut.items_parsed)),
        (metrics::ITEMS_IN_ERROR, Measure::Count(cut.items_in_error)),
        (metrics::ITEMS_PARTIAL, Measure::Count(cut.items_partial)),
        (metrics::CHUNKING_TIME, took),
    ];
    metrics::measure(crate::SERVICE, &measures, serde_json::Map::new());
}
