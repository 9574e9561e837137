//! Tests of the idempotency store through its public interface. Each test has its own table and
//! bucket.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod attachments;
mod claims;
mod events;
mod large;
mod reuse;
mod support;
