//! How chunks that are ready reach those that write them: one event, the same from SQS and from Kafka, and the queue that it goes to.

mod event;
mod queue;

pub use event::{ChunkEvent, Origin, chunk_event, read_chunk_event};
pub use queue::{AnnounceError, ChunksReady};
