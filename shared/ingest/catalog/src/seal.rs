//! Seal of a batch: the transaction that records all chunks of a payload that was cut to its end.

use ingestion::Cnpj;
use ingestion::batch::{BatchStatus, Deactivation, SkipReason, Unbalanced};
use ingestion::chunk::{ChunkId, Generation};
use ingestion::payload::LoadType;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::account::settle;
use crate::connection::{Connection, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locked_batch::{LockedBatch, lock};
use crate::rows::{bigint, texts};

/// Result of cutting a whole payload: counts of its items, and its stored chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Number of bytes of the decoded payload.
    pub payload_bytes: u64,
    /// SHA-256 of the decoded payload, in hex.
    pub checksum: String,
    /// Number of all items of the payload, including those in error.
    pub items_parsed: u64,
    /// Number of items in error, which are in no chunk.
    pub items_in_error: u64,
    /// Number of items in error whose key could not be read completely.
    pub unreadable_keys: u64,
    /// Number of valid items that lack members which other items of the payload have.
    pub items_partial: u64,
    /// Number of items in error that were not recorded, because there were too many. Their keys are
    /// not known.
    pub errors_omitted: u64,
    /// `s3://bucket/key` of the file of all items in error; `None` if no item is in error.
    pub errors_uri: Option<String>,
    /// Chunks in the order of their indexes, which have no gaps.
    pub chunks: Vec<SealedChunk>,
}

/// Chunk of a batch, as it is recorded once its file is stored in S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedChunk {
    /// Index of the chunk in its batch, from 0.
    pub index: u32,
    /// Location of the chunk's file, as `s3://bucket/key`.
    pub uri: String,
    /// Number of valid items that the chunk was made of, including duplicates.
    pub items: u32,
    /// First establishment of the chunk in the order of CNPJs, by which Kafka orders the messages
    /// about chunks.
    pub first_cnpj: Cnpj,
    /// All establishments of the chunk, in the order of CNPJs.
    pub cnpjs: Vec<Cnpj>,
}

/// Outcome of sealing a batch, which records that its payload is cut and all its chunks are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealOutcome {
    /// This call sealed the batch, which now has this state. It is final at once if it has no
    /// chunk.
    Sealed(BatchStatus),
    /// An earlier or concurrent call sealed the batch, with the same chunks. The batch has this
    /// state.
    AlreadySealed(BatchStatus),
    /// The batch is in a later generation (round of processing), so the caller's chunks are
    /// outdated.
    Superseded,
}

const SEAL: &str = "UPDATE batches SET status = 'PROCESSING', payload_bytes = $2, payload_checksum = $3, \
     items_parsed = $4, items_in_error = $5, unreadable_keys = $6, deactivation = $7, \
     items_partial = $8, errors_omitted = $9, errors_uri = $10, error = NULL, \
     objects_let_go = false, sealed_at = now() WHERE batch_id = $1";
const CHUNKS: &str = "INSERT INTO batch_chunks (chunk_id, batch_id, generation, chunk_index, chunk_uri, \
     first_cnpj, last_cnpj, items) \
     SELECT c.chunk_id, $1, $2, c.chunk_index, c.chunk_uri, c.first_cnpj, c.last_cnpj, c.items \
     FROM unnest($3::uuid[], $4::integer[], $5::text[], $6::bpchar[], $7::bpchar[], $8::bigint[]) \
         AS c (chunk_id, chunk_index, chunk_uri, first_cnpj, last_cnpj, items)";
const CNPJS: &str = "INSERT INTO batch_cnpjs (batch_id, cnpj, received_at, decides) \
     SELECT $1, cnpj, $2, $4 FROM unnest($3::bpchar[]) AS c (cnpj) ON CONFLICT DO NOTHING";

impl Database {
    /// Seals a batch: records all of its chunks and establishments in one transaction. Idempotent
    /// by the batch and its generation (round of processing).
    ///
    /// # Errors
    /// If the items in chunks and the items in error do not add up to all items, or the database
    /// fails.
    pub async fn seal(
        &self,
        batch_id: Uuid,
        generation: Generation,
        sealed: &Seal,
    ) -> Result<SealOutcome, DatabaseError> {
        sealed.balanced()?;
        self.with_connection(async |connection| seal(connection, batch_id, generation, sealed).await).await
    }
}

impl Seal {
    fn balanced(&self) -> Result<(), Unbalanced> {
        let in_chunks: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.items)).sum();
        let accounted = in_chunks.saturating_add(self.items_in_error);
        if accounted == self.items_parsed {
            Ok(())
        } else {
            Err(Unbalanced { items: self.items_parsed, accounted })
        }
    }

    /// True if the load is a full load without items in error. Such a load states which products
    /// its establishments have, so earlier full loads leave the deactivation in them to this load.
    const fn decides(&self, load_type: LoadType) -> bool {
        matches!(load_type, LoadType::Full) && self.items_in_error == 0
    }

    /// Returns the state of the batch's deactivation when it is sealed. It is skipped if the load
    /// is empty, or if keys of items in error are unknown, because any missing product may be among
    /// these items.
    const fn deactivation(&self, load_type: LoadType) -> Deactivation {
        match load_type {
            LoadType::Delta => Deactivation::NotApplicable,
            LoadType::Full if self.chunks.is_empty() => {
                Deactivation::Skipped { reason: SkipReason::EmptyLoad }
            }
            LoadType::Full if self.unreadable_keys > 0 => {
                Deactivation::Skipped { reason: SkipReason::UnreadableKey }
            }
            LoadType::Full if self.errors_omitted > 0 => {
                Deactivation::Skipped { reason: SkipReason::TooManyErrors }
            }
            LoadType::Full => Deactivation::Pending,
        }
    }
}

async fn seal(
    connection: &mut Connection,
    batch_id: Uuid,
    generation: Generation,
    sealed: &Seal,
) -> Result<SealOutcome, DatabaseError> {
    let mut session = connection.begin().await?;
    let mut batch = lock(&mut session, batch_id).await?;
    if batch.generation > generation {
        return Ok(SealOutcome::Superseded);
    }
    batch.status = batch.for_the_chunker();
    if batch.status == BatchStatus::Processing || batch.status.is_final() {
        return Ok(SealOutcome::AlreadySealed(batch.status));
    }
    batch.deactivation = sealed.deactivation(batch.load_type);
    batch.items_parsed = sealed.items_parsed;
    batch.items_in_error = sealed.items_in_error;
    write(&mut session, &batch, sealed).await?;
    let settled = settle(&mut session, &batch).await?;
    session.commit().await?;
    Ok(SealOutcome::Sealed(settled.status))
}

async fn write(session: &mut Session<'_>, batch: &LockedBatch, sealed: &Seal) -> Result<(), DatabaseError> {
    session
        .execute(
            SEAL,
            &[
                &batch.batch_id,
                &bigint(sealed.payload_bytes)?,
                &sealed.checksum,
                &bigint(sealed.items_parsed)?,
                &bigint(sealed.items_in_error)?,
                &bigint(sealed.unreadable_keys)?,
                &Json(batch.deactivation),
                &bigint(sealed.items_partial)?,
                &bigint(sealed.errors_omitted)?,
                &sealed.errors_uri,
            ],
        )
        .await?;
    let chunks = &sealed.chunks;
    let id = |chunk: &SealedChunk| ChunkId::of(batch.batch_id, batch.generation, chunk.index).uuid();
    let ids: Vec<Uuid> = chunks.iter().map(id).collect();
    let indexes = chunks.iter().map(|chunk| i32::try_from(chunk.index)).collect::<Result<Vec<_>, _>>()?;
    let uris: Vec<&str> = chunks.iter().map(|chunk| chunk.uri.as_str()).collect();
    let first: Vec<&str> = chunks.iter().map(|chunk| chunk.first_cnpj.as_str()).collect();
    let last: Vec<&str> =
        chunks.iter().map(|chunk| chunk.cnpjs.last().unwrap_or(&chunk.first_cnpj).as_str()).collect();
    let items: Vec<i64> = chunks.iter().map(|chunk| i64::from(chunk.items)).collect();
    let number = i32::try_from(batch.generation.number())?;
    session
        .execute(CHUNKS, &[&batch.batch_id, &number, &ids, &indexes, &uris, &first, &last, &items])
        .await?;
    let mut cnpjs: Vec<Cnpj> = chunks.iter().flat_map(|chunk| &chunk.cnpjs).copied().collect();
    cnpjs.sort_unstable();
    cnpjs.dedup();
    let decides = sealed.decides(batch.load_type);
    session.execute(CNPJS, &[&batch.batch_id, &batch.received_at, &texts(&cnpjs), &decides]).await?;
    Ok(())
}
