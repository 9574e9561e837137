//! Records failed work: the messages in the dead-letter queues of payloads and of chunks.
//!
//! A message comes to these queues because the infrastructure failed again and again; faults of the
//! data are recorded where they are found. So its chunk or its batch is recorded as failed, from
//! where a replay can continue, and the message is acknowledged. A chunk that a later attempt
//! writes after all becomes done nevertheless. If the failure cannot be recorded, because a store
//! is what failed, the message stays and is retried for days. A message that cannot be read, or
//! that belongs to no batch, is forwarded to the unhandled queue. No message is ever dropped.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod error;
mod give_up;
mod job;
mod message;
mod unhandled;

pub use error::DeadLetterError;
pub use message::Work;
pub use unhandled::UnhandledQueue;

use batch_items::BatchItems;
use catalog::Database;
use events::Publisher;
use objects::Objects;
use worker::Visibility;

/// Name of the function `dead-letter` in its metrics.
const SERVICE: &str = "dead-letter";

/// State of the function `dead-letter`: its clients and queues, reused by every invocation.
#[derive(Debug)]
pub struct DeadLetter {
    pub objects: Objects,
    pub accepted: BatchItems,
    pub database: Database,
    pub publisher: Publisher,
    /// Visibility timeouts for messages of the dead-letter queue of payloads.
    pub payloads: Visibility,
    /// Visibility timeouts for messages of the dead-letter queue of chunks.
    pub chunks: Visibility,
    pub unhandled: UnhandledQueue,
}
