//! A queue manager for tests, behind the stand-in for IBM MQ's client library. README.md says what
//! it covers, and what it cannot show.

#![allow(
    missing_docs,
    clippy::must_use_candidate,
    reason = "the names are IBM's, whose documentation says what they mean"
)]

mod clock;
mod command_server;
pub mod configuration;
mod control;
pub mod definition;
mod fault;
pub mod manager;
mod properties;
pub mod protocol;
pub mod rfh2;
mod selector;
pub mod server;
mod shown;
pub mod text;
