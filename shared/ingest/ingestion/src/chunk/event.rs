use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{ChunkId, Generation};
use crate::Cnpj;
use crate::payload::generation_of_chunk;

/// Data of the event that a chunk is ready to be written. The event's envelope has the tenant, the
/// trace id and the client's idempotency key. Unknown members are ignored, so that a newer sender
/// may add some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/events.md describes each member")]
pub struct ChunkReady {
    pub batch_id: Uuid,
    pub generation: Generation,
    pub chunk_index: u32,
    /// URI of the chunk's file: `s3://bucket/key`.
    pub chunk_uri: String,
    /// First of the chunk's establishments, by which Kafka orders the messages about chunks.
    pub cnpj: Cnpj,
    pub items: u32,
}

impl ChunkReady {
    /// Type of the event that a chunk is ready to be written.
    pub const EVENT_TYPE: &str = "integrahub.chunk.ready";

    /// Returns the chunk's id, by which a repeated event is recognized.
    #[must_use]
    pub fn chunk_id(&self) -> ChunkId {
        ChunkId::of(self.batch_id, self.generation, self.chunk_index)
    }

    /// Returns the generation (round of processing) in whose folder the S3 object `key` is, if the
    /// object is this chunk; `None` if it is any other object. A replayed chunk may still be stored
    /// in the folder of an earlier generation.
    #[must_use]
    pub fn cut_in(&self, key: &str) -> Option<Generation> {
        let cut_in = generation_of_chunk(key, self.batch_id, self.chunk_index)?;
        (cut_in <= self.generation).then_some(cut_in)
    }
}
