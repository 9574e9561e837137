//! Tests of serving jobs, and of the calls that set visibility timeouts, against a stand-in for
//! SQS.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod job;
mod logging;
mod partitions;
mod queue;
mod serving;
mod visibility;
