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
    /// What is noted of it with the chunk: the failure and its cause, and nothing deeper, where the database tells of values.
    pub(crate) fn note(&self) -> String {
        std::error::Error::source(self).map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }

    /// Whether it is not noted with a chunk: the database is unreachable, or the failure is not a chunk's.
    pub(crate) const fn is_not_noted(&self) -> bool {
        match self {
            Self::Database(error) => error.is_away(),
            Self::NoEvent | Self::Event(_) | Self::OutOfTime => true,
            Self::OtherObject(_) | Self::Object(_) | Self::File(_) | Self::OtherChunk => false,
        }
    }

    /// Whether nothing was tried: others held the locks.
    pub(crate) const fn is_no_attempt(&self) -> bool {
        matches!(self, Self::Database(DatabaseError::Contended(_)))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_failed_and_why() {
        let missing = ObjectError::Missing { key: "chunks/1".to_owned() };
        assert_eq!(
            NotWritten::from(missing).note(),
            "the chunk's object cannot be had: there is no object chunks/1"
        );
        assert_eq!(NotWritten::OtherChunk.note(), "the object holds another chunk than the event's");
    }
}
