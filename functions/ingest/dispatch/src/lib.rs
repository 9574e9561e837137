//! Passes on S3's notifications of payloads and of dropped files, each in the message group of its
//! tenant.
//!
//! S3 cannot name a message group, and without one a queue gives every message its turn by its age:
//! one tenant's flood would delay all others. This function only looks up the object's tenant, so
//! its own queue stays short, and the queues behind it are fair to all tenants.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod job;

pub use job::DispatchError;

use ingestion::drops::{PREFIX, tenant_of};
use ingestion::payload::{PayloadMetadata, PayloadNotice};
use objects::{ObjectError, Objects};
use transport::NotificationQueue;
use uuid::Uuid;
use worker::Visibility;

/// State of the function `dispatch`: its clients and queues, reused by every invocation.
#[derive(Debug)]
pub struct Dispatch {
    pub objects: Objects,
    /// SQS queue of the chunker: payloads to be cut.
    pub payloads: NotificationQueue,
    /// SQS queue of the function `drop-intake`: dropped objects to be accepted as batches.
    pub drops: NotificationQueue,
    /// Visibility timeouts for messages of the queue to which S3 sends its notifications.
    pub visibility: Visibility,
}

impl Dispatch {
    /// Sends a message to the queue for its object, in the message group of the tenant. If the
    /// tenant is unknown, the message has no group, and the next function reports the fault.
    async fn pass_on(&self, body: &[u8], notice: &PayloadNotice) -> Result<(), DispatchError> {
        // Another bucket has nothing but dropped files, and what its owner keeps beside them.
        let is_drop = notice.bucket != self.objects.bucket() || notice.key.starts_with(PREFIX);
        let (queue, tenant) = if is_drop {
            (&self.drops, tenant_of(&notice.key))
        } else {
            (&self.payloads, self.owner(notice).await?)
        };
        if let Some(tenant) = tenant {
            tracing::Span::current().record("tenant", tracing::field::display(tenant));
        }
        Ok(queue.pass_on(body, tenant).await?)
    }

    /// Reads the tenant of a payload from its object's metadata; `None` if the object was deleted
    /// or is not a payload.
    async fn owner(&self, notice: &PayloadNotice) -> Result<Option<Uuid>, ObjectError> {
        let head = match self.objects.head(&notice.key).await {
            Err(ObjectError::Missing { .. }) => return Ok(None),
            head => head?,
        };
        let Ok(metadata) = PayloadMetadata::from_map(&head.metadata, self.objects.bucket()) else {
            return Ok(None);
        };
        let span = tracing::Span::current();
        span.record("correlation_id", &metadata.trace_id);
        span.record("batch_id", tracing::field::display(metadata.batch_id));
        span.record("idempotency_key", &metadata.idempotency_key);
        Ok(Some(metadata.tenant_id))
    }
}
