//! What is sent to queues, against a server that takes it or does not.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod partial_failures;
mod payloads;
mod queue;
mod visibility;
