//! Batches whose chunks a test makes and stores itself, in place of the chunker.

use std::time::Instant;

use catalog::{BatchRow, ChunkingOutcome, Seal, SealOutcome, SealedChunk};
use end_to_end::{Pauses, TENANT_A, variable};
use ingestion::batch::BatchStatus;
use ingestion::chunk::{Chunk, ChunkReady, Generation, Plan, Planner};
use ingestion::payload::{PayloadMetadata, chunk_key};
use ingestion::product::{Attributes, BatchStamp, CnpjAccess, MemberSet, Product, ProductKey};
use ingestion::{Cnpj, Viewer};
use transport::{ChunkQueue, Origin};
use uuid::Uuid;

use super::functions::{Functions, PATIENCE, is_completed};

/// Makes `count` chunks of three products each for a batch, in the order of their indexes.
pub(super) fn chunks(batch: &PayloadMetadata, count: u32) -> Vec<Chunk> {
    chunks_of("11444777000161".parse().unwrap(), batch, count)
}

/// Makes `count` chunks of three products each for a batch. All products belong to the
/// establishment `cnpj`.
pub(super) fn chunks_of(cnpj: Cnpj, batch: &PayloadMetadata, count: u32) -> Vec<Chunk> {
    let stamp = BatchStamp::new(batch.received_at, batch.batch_id);
    let chunk = |index| {
        let mut planner = Planner::new(Plan::default(), stamp, Generation::FIRST);
        for item in index * 3..index * 3 + 3 {
            let product_id = format!("{}-{item}", batch.batch_id);
            let key = ProductKey { cnpj, shop_id: 1, product_id };
            let (attributes, members) = (Attributes::default(), MemberSet::default());
            assert!(planner.push(Product { key, attributes, members }, u64::from(item)).is_empty());
        }
        planner.finish().remove(0).numbered(index)
    };
    (0..count).map(chunk).collect()
}

impl Functions {
    pub(super) fn ready(&self, chunk: &Chunk, batch: &PayloadMetadata) -> ChunkReady {
        ChunkReady {
            batch_id: batch.batch_id,
            generation: Generation::FIRST,
            chunk_index: chunk.index,
            chunk_uri: format!(
                "s3://{}/{}",
                self.bucket,
                chunk_key(batch.batch_id, Generation::FIRST, chunk.index)
            ),
            cnpj: chunk.cnpjs()[0],
            items: chunk.items,
        }
    }

    pub(super) async fn put_chunk(&self, chunk: &Chunk, batch: &PayloadMetadata, file: Vec<u8>) {
        let key = chunk_key(batch.batch_id, Generation::FIRST, chunk.index);
        self.s3.put_object().bucket(&self.bucket).key(key).body(file.into()).send().await.unwrap();
    }

    /// Records in the database that the chunker began to cut a batch.
    pub(super) async fn begin(&self, metadata: &PayloadMetadata) {
        let payload_uri = format!("s3://{}/{}", self.bucket, metadata.key());
        let batch =
            BatchRow { metadata: metadata.clone(), payload_uri, payload_bytes: None, cnpjs: CnpjAccess::Any };
        let begun = self.database.begin_chunking(&batch, Plan::default()).await.unwrap();
        assert!(matches!(begun, ChunkingOutcome::Chunk { .. }), "{begun:?}");
    }

    /// Records a batch as cut into these chunks, and stores a payload for it. The payload's
    /// notification makes the chunker announce the chunks to `upsert`. The test stores the chunks'
    /// objects.
    pub(super) async fn seal(&self, metadata: &PayloadMetadata, chunks: &[Chunk]) {
        self.seal_quietly(metadata, chunks).await;
        self.put(metadata, b"[]".to_vec()).await;
    }

    /// Records a batch as cut into these chunks, but stores no payload, so that no function
    /// announces the chunks.
    pub(super) async fn seal_quietly(&self, metadata: &PayloadMetadata, chunks: &[Chunk]) {
        self.begin(metadata).await;
        let sealed = chunks.iter().map(|chunk| SealedChunk {
            index: chunk.index,
            uri: self.ready(chunk, metadata).chunk_uri,
            items: chunk.items,
            first_cnpj: chunk.cnpjs()[0],
            cnpjs: chunk.cnpjs(),
        });
        let seal = Seal {
            payload_bytes: 2,
            checksum: "ab".repeat(32),
            items_parsed: chunks.iter().map(|chunk| u64::from(chunk.items)).sum(),
            items_in_error: 0,
            unreadable_keys: 0,
            items_partial: 0,
            errors_omitted: 0,
            errors_uri: None,
            chunks: sealed.collect(),
        };
        let outcome = self.database.seal(metadata.batch_id, Generation::FIRST, &seal).await.unwrap();
        assert_eq!(outcome, SealOutcome::Sealed(BatchStatus::Processing));
    }

    /// Sends the message about a chunk to the queue of chunks once more.
    pub(super) async fn announce(&self, chunk: &Chunk, batch: &PayloadMetadata) {
        let sdk = runtime::Sdk::from_environment().await;
        let queue = ChunkQueue::new(aws_sdk_sqs::Client::new(sdk.standard()), variable("CHUNKS_QUEUE_URL"));
        queue.announce(&origin(batch), [self.ready(chunk, batch)]).await.unwrap();
    }

    pub(super) async fn completed(&self, batch_id: Uuid) -> catalog::BatchView {
        let (began, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let view = self
                .database
                .batch(&Viewer::whole(TENANT_A.parse().unwrap()), batch_id)
                .await
                .unwrap()
                .unwrap();
            if is_completed(&view) {
                return view;
            }
            assert!(began.elapsed() < PATIENCE, "the batch does not complete: {view:?}");
            pauses.wait().await;
        }
    }
}

pub(super) fn origin(batch: &PayloadMetadata) -> Origin {
    Origin {
        tenant_id: batch.tenant_id,
        idempotency_key: batch.idempotency_key.clone(),
        trace_id: batch.trace_id.clone(),
    }
}
