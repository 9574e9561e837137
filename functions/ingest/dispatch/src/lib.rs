//! Passes on S3's notifications of payloads and of dropped files, each in the message group of its
//! tenant.
//!
//! S3 cannot name a message group, and without one a queue gives every message its turn by its age:
//! one tenant's flood would delay all others. This function only looks up the object's tenant, so
//! its own queue stays short, and the queues behind it are fair.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod job;

pub use job::DispatchError;

use ingestion::drops::{PREFIX, tenant_of};
use ingestion::payload::{PayloadMetadata, PayloadNotice};
use objects::{ObjectError, Objects};
use transport::PayloadQueue;
use uuid::Uuid;
use worker::Visibility;

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct Dispatch {
    pub objects: Objects,
    /// SQS queue of payloads to cut into chunks.
    pub payloads: PayloadQueue,
    /// SQS queue of dropped objects to take in.
    pub drops: PayloadQueue,
    /// Visibility timeouts of the queue that S3 sends to.
    pub visibility: Visibility,
}

impl Dispatch {
    /// Passes a message on to the queue for its object. A message of an unknown tenant is sent
    /// without a group: the next function reports the object's fault.
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

    /// Returns the tenant of a payload, from the object's metadata; `None` if the object is no
    /// payload or was deleted.
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
