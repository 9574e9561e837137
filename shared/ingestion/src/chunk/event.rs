use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Chunk, ChunkId, Generation};
use crate::Cnpj;

/// Tells that a chunk lies ready to be written; the same from SQS and from Kafka. Unknown members are ignored, so that a newer
/// chunker may say more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkReady {
    pub event_type: EventType,
    /// The chunk's id, by which the event is handled once.
    #[serde(rename = "idempotencykey")]
    pub chunk_id: ChunkId,
    pub batch_id: Uuid,
    pub tenant_id: Uuid,
    pub generation: Generation,
    pub chunk_index: u32,
    pub chunk_uri: String,
    /// The first of the chunk's establishments, by which messages are grouped.
    pub cnpj: Option<Cnpj>,
    pub items: u32,
    /// The key that the client sent its batch with.
    pub source_idempotency_key: String,
    /// The trace of the request that brought the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// The event's name on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventType {
    ChunkReady,
}

impl ChunkReady {
    /// The event of a chunk that was stored at `chunk_uri`.
    #[must_use]
    pub fn new(chunk: &Chunk, tenant_id: Uuid, chunk_uri: String, source_idempotency_key: String) -> Self {
        Self {
            event_type: EventType::ChunkReady,
            chunk_id: chunk.id(),
            batch_id: chunk.batch().batch_id(),
            tenant_id,
            generation: chunk.generation(),
            chunk_index: chunk.index(),
            chunk_uri,
            cnpj: chunk.rows().first().map(|row| row.key.cnpj),
            items: chunk.items(),
            source_idempotency_key,
            correlation_id: None,
        }
    }
}
