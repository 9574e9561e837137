use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{ChunkId, Generation};
use crate::Cnpj;
use crate::payload::generation_of_chunk;

/// Says that a chunk is ready to be written. It is the data of an event, whose envelope has the
/// tenant, the trace and the client's key. Unknown members are ignored, so that a newer sender may
/// add some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/events.md describes each member")]
pub struct ChunkReady {
    pub batch_id: Uuid,
    pub generation: Generation,
    pub chunk_index: u32,
    /// URI of the chunk's file: `s3://bucket/key`.
    pub chunk_uri: String,
    /// The first of the chunk's establishments, by which messages are grouped.
    pub cnpj: Cnpj,
    pub items: u32,
}

impl ChunkReady {
    /// The event's type, which distinguishes it from others.
    pub const EVENT_TYPE: &str = "integrahub.chunk.ready";

    /// The chunk's id, by which the event is handled once.
    #[must_use]
    pub fn chunk_id(&self) -> ChunkId {
        ChunkId::of(self.batch_id, self.generation, self.chunk_index)
    }

    /// The generation under which an object holds this chunk; `None` if it is another object. That
    /// of a replayed chunk may be of an earlier generation.
    #[must_use]
    pub fn cut_in(&self, key: &str) -> Option<Generation> {
        let cut_in = generation_of_chunk(key, self.batch_id, self.chunk_index)?;
        (cut_in <= self.generation).then_some(cut_in)
    }
}
