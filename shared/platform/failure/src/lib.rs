//! What an error says: whether trying again helps ([`Retryable`]), and where a document from outside
//! is wrong ([`Malformed`]).

#![forbid(unsafe_code)]

pub mod malformed;
mod retry;

pub use malformed::{Fault, Malformed};
pub use retry::{Retry, Retryable};
