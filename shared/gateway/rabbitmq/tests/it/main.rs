//! Tests of the RabbitMQ client against a real RabbitMQ, which the environment variable `AMQP_URL`
//! names. `make test` starts one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod cluster;
mod connecting;
mod exchanges;
mod fetching;
mod foreign;
mod intake;
mod large;
mod load;
#[path = "../../../broker/tests/load/mod.rs"]
mod load_steps;
mod logging;
mod long_headers;
mod moving;
mod producing;
mod proxy;
mod quorum;
mod raw;
mod reach;
mod refused;
mod retrying;
mod settling;
mod shared_queues;
mod support;
mod taking;
mod testing;
mod versions;
