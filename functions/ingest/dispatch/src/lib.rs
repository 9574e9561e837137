//! Passes on S3's notifications of payloads and of dropped files, each in the message group of its
//! tenant.
//!
//! S3 cannot name a message group, and without one a queue gives every message its turn by its age:
//! one tenant's flood would delay all others. This function only looks up whose an object is, so its
//! own queue stays short, and the queues behind it are fair.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod job;

pub use job::DispatchError;

use std::time::SystemTime;

use ingestion::drops::tenant_of;
use ingestion::payload::PayloadMetadata;
use objects::{ObjectError, Objects};
use serde_json::Value;
use transport::{PayloadNotice, PayloadQueue};
use uuid::Uuid;
use worker::{BatchResponse, ServeError, Visibility};

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct Dispatch {
    pub objects: Objects,
    /// Queue of payloads to cut.
    pub payloads: PayloadQueue,
    /// Queue of dropped objects to take.
    pub drops: PayloadQueue,
    /// Visibility of messages in the queue that S3 sends to.
    pub visibility: Visibility,
}

impl Dispatch {
    /// Handles the messages of one invocation, which is cut off at `ends_at`, and returns those to
    /// retry.
    ///
    /// # Errors
    /// If the event as a whole cannot be read.
    pub async fn handle(&self, event: Value, ends_at: SystemTime) -> Result<BatchResponse, ServeError> {
        worker::serve(self, event, ends_at).await
    }

    /// Passes a message on, to the queue for the object that it names. A message whose tenant
    /// cannot be known goes without a group: the next function says what is wrong with the object.
    async fn pass_on(&self, body: &[u8], notice: &PayloadNotice) -> Result<(), DispatchError> {
        let is_drop = notice.key.starts_with(ingestion::drops::PREFIX);
        let (queue, tenant) = if is_drop {
            (&self.drops, tenant_of(&notice.key))
        } else {
            (&self.payloads, self.owner(notice).await?)
        };
        Ok(queue.pass_on(body, tenant).await?)
    }

    /// Returns the tenant that a payload belongs to, by its metadata; `None` if it is no payload,
    /// or gone.
    async fn owner(&self, notice: &PayloadNotice) -> Result<Option<Uuid>, ObjectError> {
        if notice.bucket != self.objects.bucket() {
            return Ok(None);
        }
        match self.objects.head(&notice.key).await {
            Ok(head) => {
                let metadata = PayloadMetadata::from_map(&head.metadata, self.objects.bucket());
                Ok(metadata.ok().map(|metadata| metadata.tenant_id))
            }
            Err(ObjectError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
