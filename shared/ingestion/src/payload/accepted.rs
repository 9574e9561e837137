use jiff::Timestamp;

use super::PayloadMetadata;
use crate::batch::BatchStatus;
use crate::product::CnpjAccess;

/// What is known of a batch from its acceptance on, before PostgreSQL knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedBatch {
    pub metadata: PayloadMetadata,
    /// Bytes of the decoded content, where it was seen.
    pub payload_bytes: Option<u64>,
    /// What the API key that brought it may load.
    pub cnpjs: CnpjAccess,
    /// Until when the payload may be put, where the client does that itself.
    pub upload_expires_at: Option<Timestamp>,
}

impl AcceptedBatch {
    /// Where the batch stands as far as this tells. An upload that came is [received](BatchStatus::Received) only once somebody was told of its object, so it
    /// seems to wait until then.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> BatchStatus {
        match self.upload_expires_at {
            None => BatchStatus::Received,
            Some(expires_at) if now < expires_at => BatchStatus::AwaitingUpload,
            Some(_) => BatchStatus::Expired,
        }
    }
}
