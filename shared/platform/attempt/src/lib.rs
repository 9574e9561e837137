//! One attempt of some work in a function that freezes: the [`Deadline`] that it has, how old what
//! it uses is ([`Moment`], [`Remembered`]), and what its failure says: whether another attempt
//! helps ([`Retryable`]), and where a document from outside is wrong ([`Malformed`]). [`chain()`]
//! writes an error with its causes.

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
