//! Messages of the ingest: the notification of a stored payload, the event of a chunk that is
//! ready, and the queues and the topic to which they are sent. A call that sends fails if its queue
//! does not take the message.

mod announcer;
mod event;
mod payload;
mod probe;
mod queue;
pub mod text;

pub use announcer::{ChunkAnnouncer, ChunkTransport};
pub use event::{ChunkEvent, Origin, chunk_event, read_chunk_event, record_chunk};
pub use payload::{NotificationQueue, UnknownNotice, read_payload_notices};
pub use probe::{QueueAway, probe};
pub use queue::{AnnounceError, ChunkQueue};
