//! A queue manager for tests, behind the stand-in for IBM MQ's client library. README.md says what
//! it covers and what it cannot show.

#![allow(
    missing_docs,
    clippy::must_use_candidate,
    reason = "the names are IBM's, whose documentation says what they mean"
)]

mod clock;
pub mod configuration;
mod control;
pub mod definition;
mod fault;
pub mod manager;
pub mod protocol;
mod selector;
pub mod server;
mod shown;
mod text;
