use catalog::DatabaseError;
use idempotency::EventError;
use ingestion::chunk::ChunkFileError;
use objects::ObjectError;

/// Why a chunk was not written. Its event comes again, and after too many times lies in the dead-letter queue.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    #[error("the record has no event")]
    NoEvent,
    #[error("the event is not that of a chunk")]
    Event(#[from] EventError),
    #[error("the event names {0}, which is not its chunk's object")]
    OtherObject(String),
    #[error("the chunk's object cannot be had")]
    Object(#[from] ObjectError),
    #[error("the chunk's object is damaged")]
    File(#[from] ChunkFileError),
    #[error("the object holds another chunk than the event's")]
    OtherChunk,
    #[error("the database did not do its work")]
    Database(#[from] DatabaseError),
    #[error("there was not enough time left")]
    OutOfTime,
}

impl NotWritten {
    /// Whether it may pass by itself; otherwise somebody has to look at it.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::NoEvent | Self::Event(_) | Self::OtherObject(_) | Self::File(_) | Self::OtherChunk => false,
            Self::Object(error) => matches!(error, ObjectError::Storage { .. }),
            Self::Database(error) => error.is_transient(),
            Self::OutOfTime => true,
        }
    }
}
