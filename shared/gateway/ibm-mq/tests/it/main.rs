//! Tests of the broker against the stand-in of `local/mqm-standin`: its library is loaded like
//! IBM's, and each test has a queue manager of its own behind it. The stand-in cannot show TLS,
//! real channels, timing and IBM's conversion tables, so they are not tested here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod backing_out;
mod browsing;
mod ccdt;
mod connecting;
mod consuming;
mod converting;
mod in_doubt;
mod inquiring;
mod limits;
mod load;
#[path = "../../../broker/tests/load/mod.rs"]
mod load_steps;
mod moving;
mod pooling;
mod producing;
mod resuming;
mod storm;
mod support;
