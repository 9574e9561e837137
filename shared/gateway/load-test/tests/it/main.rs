//! Tests of the store of load tests through its public interface, on a table and a bucket of each
//! test's own, and of the engine on a state machine of its own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod creation;
mod engine;
mod life;
mod lists;
mod reports;
mod steps;
mod support;
mod table;
mod worker_states;
