//! Against a real RabbitMQ, which the environment variable `AMQP_URL` names; `make test` starts
//! one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod authority;
mod checklist;
mod configuration;
mod connecting;
mod encrypted;
mod exchanges;
mod fetching;
mod foreign;
mod intake;
mod invariants;
mod logging;
mod moving;
mod pool_bounds;
mod producing;
mod proxy;
mod quorum;
mod raw;
mod retrying;
mod shared_queues;
mod support;
mod taking;
mod testing;
