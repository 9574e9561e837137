//! Publishes that a batch was received, once its payload is stored.
//!
//! EventBridge notifies this function of a payload beside the notification that the chunker gets.
//! So the event of the receipt does not wait for chunkers, and no chunker waits for an unreachable
//! destination. The event follows from the batch alone, so it is the same one however often its
//! payload is announced or stored.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod error;
mod event;
mod job;

pub use error::ReceiptError;

use batch_items::BatchItems;
use events::Publisher;
use objects::Objects;
use worker::Visibility;

/// State of the function `receipts`: its clients and settings, reused by every invocation.
#[derive(Debug)]
pub struct Receipts {
    pub objects: Objects,
    pub accepted: BatchItems,
    pub publisher: Publisher,
    /// Visibility timeouts for messages of the queue to which EventBridge sends.
    pub visibility: Visibility,
}
