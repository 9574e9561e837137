//! Tests of the messages that are sent to SQS queues, against a stand-in for SQS.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod parking;
mod partial_failures;
mod payloads;
mod queue;
