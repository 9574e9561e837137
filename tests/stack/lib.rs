//! Clients of the running stack for end-to-end tests: an HTTP client for the API, and clients of
//! brokers and stores that share no code with the gateway.
//!
//! The environment variables that `make test` sets have the addresses of the stack. Every test has
//! queues and keys of its own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]
#![allow(
    missing_docs,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "only tests use what is public here"
)]

mod access;
mod batches_table;
mod broker;
mod command_line;
pub mod contract;
mod gateway;
mod ingest;
pub mod leaks;
mod load_tests;
mod operations;
mod pauses;
mod payloads;
mod queue_manager;
mod records;
mod site;

pub use access::Access;
pub use batches_table::create_batches_table;
pub use broker::{Broker, Queue};
pub use command_line::{CommandLine, Ran};
pub use gateway::{Answer, Gateway, KEY_A, KEY_B, PHARMACY_KEY, READONLY_KEY, TENANT_A};
pub use ingest::{Ingest, Load, Product, Products};
pub use load_tests::LoadTests;
pub use operations::{body_of, operations, routes, targeted, with_body};
pub use pauses::Pauses;
pub use payloads::{Payload, Payloads, gzip};
pub use queue_manager::QueueManager;
pub use records::Records;
pub use site::{Fact, Message, On, Site};

/// Returns the value of an environment variable of the stack.
///
/// # Panics
/// If it is not set: tests against the stack are run by `make test`.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run these tests by `make test`, which starts their stack")
    })
}
