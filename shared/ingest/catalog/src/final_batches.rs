//! Final batches, and the release of their S3 objects, which expire afterwards.

use ingestion::chunk::Generation;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::database::Database;
use crate::error::DatabaseError;
use crate::locked_batch::generation;

/// Batch that is final, with its S3 objects. A replay may start its next generation (round of
/// processing) at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalBatch {
    /// Id of the batch.
    pub batch_id: Uuid,
    /// Generation (round of processing) in which the batch is final. Before the objects may expire,
    /// it must be checked that no later generation has begun.
    pub generation: Generation,
    /// Idempotency key under which the batch was accepted.
    pub idempotency_key: String,
    /// URIs of the payload, of the chunks, and of the file of items in error if there is one.
    pub uris: Vec<String>,
}

const OBJECTS: &str = "WITH final AS (SELECT batch_id, generation, idempotency_key, payload_uri, \
     errors_uri FROM batches WHERE batch_id = $1 \
         AND status IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED', 'EXPIRED')) \
     SELECT generation, idempotency_key, payload_uri AS uri FROM final \
     UNION ALL SELECT generation, idempotency_key, errors_uri FROM final WHERE errors_uri IS NOT NULL \
     UNION ALL SELECT final.generation, final.idempotency_key, chunk_uri FROM batch_chunks JOIN final USING (batch_id)";
const IS_FINAL: &str = "SELECT FROM batches WHERE batch_id = $1 AND generation = $2 \
     AND status IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED', 'EXPIRED')";

/// Records that a batch's S3 objects may expire, if the batch is still final in the generation
/// (round of processing) `$2`. If a replay of the batch has begun, nothing is recorded.
const LET_GO: &str = "UPDATE batches SET objects_let_go = true WHERE batch_id = $1 AND generation = $2 \
     AND status IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED', 'EXPIRED') RETURNING batch_id";

impl Database {
    /// Returns a batch with its S3 objects if it is final; `None` if it is in progress or not in
    /// the database.
    pub async fn final_batch(&self, batch_id: Uuid) -> Result<Option<FinalBatch>, DatabaseError> {
        let rows = self.read(OBJECTS, &[&batch_id]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let generation = generation(row, "generation")?;
        let idempotency_key = row.try_get("idempotency_key")?;
        let uris = rows.iter().map(|row| row.try_get("uri")).collect::<Result<_, _>>()?;
        Ok(Some(FinalBatch { batch_id, generation, idempotency_key, uris }))
    }

    /// Records that a batch's S3 objects have the tags by which they expire, if the batch is still
    /// final in this generation (round of processing). Returns true if it is. Idempotent by the
    /// batch and its generation.
    pub async fn note_released(&self, batch_id: Uuid, generation: Generation) -> Result<bool, DatabaseError> {
        let number = i32::try_from(generation.number())?;
        let parameters: [&(dyn ToSql + Sync); 2] = [&batch_id, &number];
        Ok(!self.change(LET_GO, &parameters).await?.is_empty())
    }

    /// True if the batch is final in this generation (round of processing), and no replay has
    /// begun.
    pub async fn is_final_in(&self, batch_id: Uuid, generation: Generation) -> Result<bool, DatabaseError> {
        let number = i32::try_from(generation.number())?;
        let parameters: [&(dyn ToSql + Sync); 2] = [&batch_id, &number];
        Ok(!self.read(IS_FINAL, &parameters).await?.is_empty())
    }
}
