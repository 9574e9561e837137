//! The outbox of a real PostgreSQL, against a stand-in for EventBridge and SNS.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod at_once;
mod left;
mod stand;
