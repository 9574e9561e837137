//! A target's broker, ready for use, in a function of the brokers' network: the clients of all
//! brokers under one limit on their connections, and the secrets to log in with.
//!
//! [`Brokers::ready`] reads the secrets of a target, and [`Ready::with_login`] makes an attempt
//! with them. If the broker refuses them, they are read again: they may have been replaced.

#![forbid(unsafe_code)]

mod brokers;
mod key_objects;
mod parameters;
mod ready;
mod secrets;
mod stores;

pub use brokers::Brokers;
pub use ready::Ready;
pub use secrets::SecretError;

/// Maximum number of bytes of memory that cached secrets and key repositories take.
pub const SECRETS_MEMORY: usize = secrets::MEMORY;
