//! Accepts objects that pipelines drop into S3 as batches.
//!
//! A version of an object is one batch, however often it is announced: its record is claimed by a
//! key that follows from the version. The batch's id follows from the claim, and S3 copies the
//! version, and no other, to the key of the batch's payload. From there on it is a payload as any
//! other. An attempt may die at any point: the next one writes the same item and makes the same
//! copy.
//!
//! A refused object stays where it is. Its tags, its result and an event have the reason.

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

/// The function's state: its clients and settings, all injected.
#[derive(Debug)]
pub struct DropIntake {
    service: &'static str,
    access: AccessStore,
    records: Store,
    accepted: BatchItems,
    /// Client of the payload bucket.
    objects: Objects,
    /// Further bucket for dropped objects, if the deployment has one.
    drop_bucket: Option<String>,
    /// Payload bucket, with enough time for copies.
    copier: Objects,
    publisher: Publisher,
    /// Visibility timeouts of the queue of notifications.
    visibility: Visibility,
    /// Maximum number of bytes of a dropped object.
    max_bytes: u64,
    /// Policy for items that lack members.
    partial: PartialPolicy,
}
