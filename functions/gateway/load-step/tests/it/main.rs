//! Tests of the function `load-step` as the state machine calls it, on a table, a bucket and a
//! queue of each test's own. The broker is that of the environment variable `AMQP_URL`, and the
//! stores are those of the local stack; `make test` starts both.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod attempts;
mod closing;
mod ending;
mod gate;
mod preparing;
mod running;
mod search;
mod support;
#[path = "../../../../../shared/gateway/load-test/tests/it/table.rs"]
mod table;
