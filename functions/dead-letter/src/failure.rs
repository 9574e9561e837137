use accepted::AcceptedError;
use catalog::DatabaseError;
use idempotency::EventError;
use ingestion::payload::InvalidMetadata;
use objects::ObjectError;
use transport::UnknownNotice;

/// Why the end of some work was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum NotEnded {
    #[error("the message is not JSON")]
    Json(#[from] serde_json::Error),
    #[error("the event is not that of a chunk")]
    Event(#[from] EventError),
    #[error("the message tells of no payload")]
    Notice(#[from] UnknownNotice),
    #[error("the object lies in {0}, which is not the bucket of payloads")]
    OtherBucket(String),
    #[error("the object is no payload")]
    Metadata(#[from] InvalidMetadata),
    #[error("the object's metadata belong to the object {0}")]
    OtherKey(String),
    #[error("the batch was never accepted")]
    NotAccepted,
    #[error("the batch's item cannot be had")]
    Accepted(#[from] AcceptedError),
    #[error("the object cannot be had")]
    Object(#[from] ObjectError),
    #[error("the database did not do its work")]
    Database(#[from] DatabaseError),
    #[error("there was not enough time left")]
    OutOfTime,
}

impl NotEnded {
    /// Whether it may pass, by itself or once somebody has mended the deployment: then the message is worth keeping where it is. Otherwise nothing that is
    /// done here will ever help.
    pub(crate) const fn may_pass(&self) -> bool {
        match self {
            Self::Json(_)
            | Self::Event(_)
            | Self::Notice(_)
            | Self::OtherBucket(_)
            | Self::Metadata(_)
            | Self::OtherKey(_)
            | Self::NotAccepted => false,
            Self::Accepted(error) => matches!(error, AcceptedError::Unavailable(_)),
            Self::Object(error) => {
                matches!(error, ObjectError::Replaced { .. } | ObjectError::Storage { .. })
            }
            Self::Database(error) => {
                !matches!(error, DatabaseError::UnknownBatch(_) | DatabaseError::UnknownChunk { .. })
            }
            Self::OutOfTime => true,
        }
    }

    /// The failure and its cause, for whoever finds the message.
    pub(crate) fn reason(&self) -> String {
        std::error::Error::source(self).map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_a_store_or_the_deployment_is_to_blame_for_is_tried_again() {
        for error in [
            NotEnded::Database(DatabaseError::TimedOut),
            NotEnded::Database(DatabaseError::Unreadable("a column")),
            NotEnded::Accepted(AcceptedError::Unavailable("no answer".to_owned())),
            NotEnded::Object(ObjectError::Storage { key: "k".to_owned(), source: "no answer".into() }),
            NotEnded::OutOfTime,
        ] {
            assert!(error.may_pass(), "{error:?}");
        }
        let missing = NotEnded::Object(ObjectError::Missing { key: "incoming/1".to_owned() });
        assert_eq!(missing.reason(), "the object cannot be had: there is no object incoming/1");
        for error in [
            NotEnded::Database(DatabaseError::UnknownBatch(Uuid::nil())),
            NotEnded::Database(DatabaseError::UnknownChunk { batch_id: Uuid::nil(), index: 1 }),
            NotEnded::Accepted(AcceptedError::Unreadable("no trace".to_owned())),
            missing,
            NotEnded::NotAccepted,
        ] {
            assert!(!error.may_pass(), "{error:?}");
        }
    }
}
