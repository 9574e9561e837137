//! How the ingest's messages travel: the news of a payload that is to be cut, the event of a chunk that is to be written (the same from SQS and from Kafka), the
//! queues that they go to, and when a message that failed comes again.

mod event;
mod payload;
mod probe;
mod queue;
mod visibility;

pub use event::{ChunkEvent, Origin, chunk_event, read_chunk_event};
pub use payload::{PayloadNotice, PayloadsReceived, UnknownNotice, read_payload_notices};
pub use probe::{QueueAway, probe};
pub use queue::{AnnounceError, ChunksReady};
pub use visibility::{Receipt, Visibility};
