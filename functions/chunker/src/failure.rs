use accepted::AcceptedError;
use catalog::DatabaseError;
use ingestion::payload::InvalidMetadata;
use objects::ObjectError;
use transport::{AnnounceError, UnknownNotice};

use crate::pipeline::Trouble;

/// Why a delivery is not acknowledged. It comes again, and after too many times lies in the dead-letter queue; its object stays where it is.
#[derive(Debug, thiserror::Error)]
pub enum NotCut {
    #[error("the delivery cannot be read")]
    Event(#[from] UnknownNotice),
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
    #[error("the payload was not read to its end")]
    Run(#[source] Trouble),
    #[error("the chunks were not announced")]
    Announce(#[from] AnnounceError),
    #[error("there was not enough time left")]
    OutOfTime,
}

impl NotCut {
    /// Whether it may pass by itself; otherwise somebody has to look at it.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Event(_)
            | Self::OtherBucket(_)
            | Self::Metadata(_)
            | Self::OtherKey(_)
            | Self::NotAccepted => false,
            Self::Accepted(error) => matches!(error, AcceptedError::Unavailable(_)),
            Self::Object(error) => {
                matches!(error, ObjectError::Replaced { .. } | ObjectError::Storage { .. })
            }
            Self::Database(error) => error.is_transient(),
            Self::Run(_) | Self::OutOfTime => true,
            Self::Announce(error) => {
                matches!(error, AnnounceError::Queue(_) | AnnounceError::Refused { .. })
            }
        }
    }
}
