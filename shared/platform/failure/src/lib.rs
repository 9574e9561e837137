//! Properties of errors: whether trying again helps ([`Retryable`]), and the place and kind of a
//! fault in a document from outside ([`Malformed`]). [`chain()`] writes an error with its causes.

#![forbid(unsafe_code)]

mod chain;
pub mod malformed;
mod retry;

pub use chain::chain;
pub use malformed::{Fault, Malformed};
pub use retry::{Retry, Retryable};
