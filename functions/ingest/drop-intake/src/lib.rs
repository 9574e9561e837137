//! Accepts objects that pipelines drop into S3 as batches.
//!
//! A version of an object is one batch, however often it is announced: its idempotency key is
//! derived from the version, and the key's record is claimed. The batch's id is derived from the
//! claim, and S3 copies this version, and no other, to the key of the batch's payload. This payload
//! is processed like any other. An attempt may die at any point: the next one writes the same
//! DynamoDB item and makes the same copy.
//!
//! A refused object stays where it is. The reason is in its tags, in the result file beside it, and
//! in an event.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod error;
mod event;
mod intake;
mod job;
mod refusal;
mod settings;

pub use error::IntakeError;

use access::AccessStore;
use batch_items::BatchItems;
use events::Publisher;
use idempotency::Store;
use ingestion::product::PartialPolicy;
use objects::Objects;
use worker::Visibility;

/// State of the function `drop-intake`: its clients and settings, all injected.
#[derive(Debug)]
pub struct DropIntake {
    service: &'static str,
    access: AccessStore,
    records: Store,
    accepted: BatchItems,
    /// Client of the payload bucket, in which objects may be dropped too.
    objects: Objects,
    /// Second bucket in which objects may be dropped; `None` if the deployment has only the payload
    /// bucket.
    drop_bucket: Option<String>,
    /// Client of the payload bucket for copying objects into it, with one attempt that may take 20
    /// s.
    copier: Objects,
    publisher: Publisher,
    /// Visibility timeouts for messages of the queue of dropped objects.
    visibility: Visibility,
    /// Maximum size of a dropped object in bytes.
    max_bytes: u64,
    /// Policy for items that lack members, in all batches of dropped objects.
    partial: PartialPolicy,
}
