//! Final batches, and their objects in S3.

use ingestion::chunk::Generation;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::batch::generation;
use crate::database::Database;
use crate::error::DatabaseError;

/// Final batch. A replay may start its next generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalBatch {
    /// Id of the batch.
    pub batch_id: Uuid,
    /// Generation that ended. Before the objects are released, it must be checked that there is no
    /// later one.
    pub generation: Generation,
    /// Idempotency key under which the batch was accepted.
    pub idempotency_key: String,
    /// URIs of the payload, the chunks, and the file of items in error.
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

/// Records that the objects may expire. The condition decides the race between the function that
/// tags them and the one that continues the batch.
const LET_GO: &str = "UPDATE batches SET objects_let_go = true WHERE batch_id = $1 AND generation = $2 \
     AND status IN ('COMPLETED', 'PARTIAL_FAIL', 'FAILED', 'EXPIRED') RETURNING batch_id";

impl Database {
    /// Returns a final batch with its objects; `None` if it is in progress or unknown.
    pub async fn final_batch(&self, batch_id: Uuid) -> Result<Option<FinalBatch>, DatabaseError> {
        let rows = self.read(OBJECTS, &[&batch_id]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let generation = generation(row, "generation")?;
        let idempotency_key = row.try_get("idempotency_key")?;
        let uris = rows.iter().map(|row| row.try_get("uri")).collect::<Result<_, _>>()?;
        Ok(Some(FinalBatch { batch_id, generation, idempotency_key, uris }))
    }

    /// Records that the objects of a batch have their tags, if it is still final in this
    /// generation, and returns whether it is. Idempotent by the batch and its generation.
    pub async fn note_released(&self, batch_id: Uuid, generation: Generation) -> Result<bool, DatabaseError> {
        let number = i32::try_from(generation.number())?;
        let parameters: [&(dyn ToSql + Sync); 2] = [&batch_id, &number];
        Ok(!self.change(LET_GO, &parameters).await?.is_empty())
    }

    /// True if the batch is final in this generation, and no replay has begun.
    pub async fn is_final_in(&self, batch_id: Uuid, generation: Generation) -> Result<bool, DatabaseError> {
        let number = i32::try_from(generation.number())?;
        let parameters: [&(dyn ToSql + Sync); 2] = [&batch_id, &number];
        Ok(!self.read(IS_FINAL, &parameters).await?.is_empty())
    }
}
