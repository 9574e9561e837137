//! The store as its users see it, on a table and a bucket of its own, and the engine on a state
//! machine of its own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod attendance;
mod creation;
mod engine;
mod life;
mod lists;
mod reports;
mod steps;
mod support;
mod table;
