//! Limits and outcome of an attempt at some work, in a function that Lambda freezes between
//! invocations. [`Deadline`] limits the attempt. [`Moment`] and [`Remembered`] tell how old cached
//! values and connections are. [`Retryable`] tells whether another attempt helps after a failure,
//! and [`Malformed`] where a document from outside is wrong. [`chain()`] writes an error with its
//! causes.

mod chain;
mod deadline;
pub mod malformed;
mod moment;
mod remembered;
mod retry;

pub use chain::chain;
pub use deadline::Deadline;
pub use malformed::{Fault, Malformed};
pub use moment::Moment;
pub use remembered::Remembered;
pub use retry::{Retry, Retryable};
