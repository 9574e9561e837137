//! Tests of the connection model for long-running programs, with a real RabbitMQ, which the
//! environment variable `AMQP_URL` names. `make test` starts one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

#[path = "../it/authority.rs"]
mod authority;
mod checklist;
mod configuration;
mod encrypted;
mod invariants;
mod logging;
mod pool_bounds;
mod support;
