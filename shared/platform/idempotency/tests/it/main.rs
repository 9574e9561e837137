//! The store as its users see it, on a table and a bucket of its own.

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
