use attempt::{Retry, Retryable};
use catalog::DatabaseError;
use events::EventError;
use ingestion::chunk::ChunkFileError;
use objects::ObjectError;

/// Reason why a chunk was not written to the database.
#[derive(Debug, thiserror::Error)]
pub enum UpsertError {
    #[error("the record has no event")]
    NoEvent,
    #[error("the event is not a chunk's")]
    Event(#[from] EventError),
    #[error("the event names {0}, which is not its chunk's object")]
    OtherObject(String),
    #[error("cannot read the chunk's object")]
    Object(#[from] ObjectError),
    #[error("the chunk's object is damaged")]
    File(#[from] ChunkFileError),
    #[error("the object holds another chunk than the event's")]
    OtherChunk,
    #[error("database error")]
    Database(#[from] DatabaseError),
}

impl Retryable for UpsertError {
    fn retry(&self) -> Retry {
        match self {
            Self::NoEvent | Self::OtherObject(_) | Self::File(_) | Self::OtherChunk => Retry::Never,
            Self::Event(error) => error.retry(),
            Self::Object(error) => error.retry(),
            Self::Database(error) => error.retry(),
        }
    }
}

impl UpsertError {
    /// Describes the failure and its direct cause, as stored with the chunk. Deeper causes are left
    /// out, since PostgreSQL's contain values.
    pub(crate) fn note(&self) -> String {
        std::error::Error::source(self).map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }

    /// True if the failure is to be stored with the chunk. Nothing is stored if the database is
    /// unreachable, or if the event could not be read, so that the chunk is unknown.
    pub(crate) const fn is_noted(&self) -> bool {
        match self {
            Self::Database(error) => !error.is_away(),
            Self::NoEvent | Self::Event(_) => false,
            Self::OtherObject(_) | Self::Object(_) | Self::File(_) | Self::OtherChunk => true,
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
            UpsertError::from(missing).note(),
            "cannot read the chunk's object: object `chunks/1` does not exist"
        );
        assert_eq!(UpsertError::OtherChunk.note(), "the object holds another chunk than the event's");
    }
}
