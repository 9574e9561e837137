//! Properties of errors: whether trying again helps ([`Retryable`]), and the place and kind of a
//! fault in a document from outside ([`Malformed`]).

#![forbid(unsafe_code)]

pub mod malformed;
mod retry;

pub use malformed::{Fault, Malformed};
pub use retry::{Retry, Retryable};
