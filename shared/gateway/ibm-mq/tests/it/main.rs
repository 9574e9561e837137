//! Tests of the IBM MQ broker implementation against the stand-in of `local/mqm-standin`. Its
//! library is loaded like IBM's, and each test has its own queue manager. The stand-in cannot show
//! TLS, real channels, timing and IBM's conversion tables, so they are not tested here.

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
