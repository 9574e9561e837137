//! Attachments: parts of responses that are too large for a function to send, stored as S3 objects
//! beside the responses.

use std::time::Duration;

use super::{Store, now};
use crate::attachment::AttachmentId;
use crate::dynamodb::read;
use crate::error::StoreError;
use crate::execution::Execution;
use crate::operation::OperationType;
use crate::protocol::Record;
use crate::results;

impl Store {
    /// Stores an attachment: bytes of the execution's response that are too many for a function to
    /// send. It can be read once a response that contains its id is stored, and as long as that
    /// response is replayed. An execution has at most one attachment. If the execution stores no
    /// such response, the bucket's lifecycle deletes the attachment.
    ///
    /// # Errors
    /// If the bucket does not accept the object within `time`, or if the store has no bucket. The
    /// effect of the execution must not be made final then.
    pub async fn attach(
        &self,
        execution: &Execution,
        bytes: Vec<u8>,
        sha256: [u8; 32],
        time: Duration,
    ) -> Result<AttachmentId, StoreError> {
        let bucket = self.bucket.as_ref().ok_or(StoreError::TooLarge { bytes: bytes.len() })?;
        let id = AttachmentId::of(execution)?;
        let key = id.object_key(&execution.operation, &execution.tenant);
        bucket.put_attachment(&key, bytes, sha256, time).await?;
        Ok(id)
    }

    /// Returns a signed URL for the attachment `id`, valid for `valid`. Returns `None` if `tenant`
    /// has no such attachment, or if it has expired.
    ///
    /// # Errors
    /// If the store cannot be reached, and [`StoreError::Unreadable`] if the record's response
    /// names the attachment but the object is missing.
    pub async fn attachment_url(
        &self,
        operation: OperationType,
        tenant: &str,
        id: &AttachmentId,
        valid: Duration,
    ) -> Result<Option<String>, StoreError> {
        let Some(bucket) = &self.bucket else { return Ok(None) };
        let record = read(&self.dynamodb, &self.table, &id.pk(operation, tenant)).await?;
        let Some(record) = record.filter(|record| id.is_of(record, now())) else { return Ok(None) };
        let signed = bucket.sign_attachment(&id.object_key(operation.as_str(), tenant), valid).await?;
        if signed.is_none() && self.names(&record, id).await? {
            return Err(StoreError::unreadable("what was stored beside the response is missing"));
        }
        Ok(signed)
    }

    /// True if the stored response of `record` contains a path that ends with the attachment's id.
    /// Without this check, a client could forge an id with the key of an existing record.
    async fn names(&self, record: &Record, id: &AttachmentId) -> Result<bool, StoreError> {
        let Some(stored) = &record.response else { return Ok(false) };
        let response = results::load(self.bucket.as_ref(), stored).await?;
        Ok(response.body.contains(&format!("/{id}\"")))
    }
}
