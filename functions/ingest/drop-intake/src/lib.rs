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

/// State of the function `drop-intake`: its clients and settings, all injected.
#[derive(Debug)]
pub struct DropIntake {
    service: &'static str,
    access: AccessStore,
    records: Store,
    accepted: BatchItems,
    /// Client of the payload bucket, in which objects may be dropped too.
    objects: Objects,
    /// Second bucket in which objects may be dropped, if the deployment has one.
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
