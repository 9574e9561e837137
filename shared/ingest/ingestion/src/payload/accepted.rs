use jiff::Timestamp;

use super::PayloadMetadata;
use crate::batch::BatchStatus;
use crate::product::CnpjAccess;

/// Batch as it was accepted, before PostgreSQL has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedBatch {
    /// Metadata of the S3 object with the payload, which may not be stored yet.
    pub metadata: PayloadMetadata,
    /// Number of bytes of the decoded payload; `None` if they were not counted.
    pub payload_bytes: Option<u64>,
    /// Establishments that the API key of the request, or the tenant's grant for dropped objects,
    /// may load.
    pub cnpjs: CnpjAccess,
    /// Time until which the payload may be uploaded, or copied from a dropped object; `None` if it
    /// has arrived, or was sent with the request.
    pub upload_expires_at: Option<Timestamp>,
}

impl AcceptedBatch {
    /// Returns the batch's state at `now`. Before `upload_expires_at` it is AWAITING_UPLOAD, and
    /// EXPIRED from then on. Without that time (the payload came with the request, or its arrival
    /// was recorded) it is [received](BatchStatus::Received).
    #[must_use]
    pub fn status(&self, now: Timestamp) -> BatchStatus {
        match self.upload_expires_at {
            None => BatchStatus::Received,
            Some(expires_at) if now < expires_at => BatchStatus::AwaitingUpload,
            Some(_) => BatchStatus::Expired,
        }
    }
}
