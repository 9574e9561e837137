use jiff::Timestamp;

use super::PayloadMetadata;
use crate::batch::BatchStatus;
use crate::product::CnpjAccess;

/// Facts about an accepted batch, known before PostgreSQL has the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedBatch {
    /// Metadata that the payload's object has, or will have.
    pub metadata: PayloadMetadata,
    /// Number of bytes of the decoded content; `None` if they were not counted.
    pub payload_bytes: Option<u64>,
    /// Establishments that the API key of the batch's request may load.
    pub cnpjs: CnpjAccess,
    /// Time until which the client may upload the payload, if it uploads it itself.
    pub upload_expires_at: Option<Timestamp>,
}

impl AcceptedBatch {
    /// Returns the state of the batch as far as these facts show it. A batch whose upload came
    /// stays AWAITING_UPLOAD here until the notification of its object was handled, and is
    /// [received](BatchStatus::Received) from then on.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> BatchStatus {
        match self.upload_expires_at {
            None => BatchStatus::Received,
            Some(expires_at) if now < expires_at => BatchStatus::AwaitingUpload,
            Some(_) => BatchStatus::Expired,
        }
    }
}
