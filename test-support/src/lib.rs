//! Servers, proxies and fake endpoints that tests, benches and the local stack start. The functions
//! and the crates of `shared/` use this crate in their tests only, and it depends on none of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    missing_docs,
    reason = "a test fails where its surroundings do not work"
)]

pub mod built;
pub mod dynamodb;
pub mod environment;
pub mod event_bus;
pub mod freeze;
pub mod http_server;
pub mod kafka;
pub mod log;
pub mod ports;
pub mod postgres;
pub mod proxy;
pub mod queue_manager;
pub mod rabbitmq;
pub mod root;
pub mod runtime_api;
pub mod sqs;
pub mod template;
