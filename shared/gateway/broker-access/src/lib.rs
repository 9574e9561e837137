//! Access to the broker of a target, for functions in the brokers' network: the clients of both
//! kinds of broker under one limit on connections, and the secrets to log in with.
//!
//! [`Brokers::ready`] reads the secrets of a target, and [`Ready::with_login`] runs an operation
//! with them. If the broker refuses the secrets, they are read again. If they were replaced, the
//! operation is repeated.

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
