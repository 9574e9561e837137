//! Whether trying again helps after a failure.
//!
//! Each error type answers once, in an exhaustive `match` next to its definition. A function acts
//! on the answer, and does not look at the variants of other crates' errors.

use std::error::Error;

/// Remedy after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same work may succeed later: a store is away, busy or slow.
    Later,
    /// The same work may succeed later, and nothing was wrong: others held a lock for too long.
    /// This need not count as a failed attempt.
    Contended,
    /// The invocation's time was over. The same work may succeed in another invocation.
    OutOfTime,
    /// The same work succeeds once somebody repairs the deployment or what a store holds. Trying
    /// again soon does not help, trying again for long does.
    AfterRepair,
    /// The same work never succeeds: what it is about does not exist or cannot be understood.
    Never,
}

impl Retry {
    /// Whether the failure may pass by itself.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Later | Self::Contended | Self::OutOfTime => true,
            Self::AfterRepair | Self::Never => false,
        }
    }
}

/// An error that knows whether trying again helps.
pub trait Retryable: Error {
    /// Returns what helps after this failure.
    fn retry(&self) -> Retry;
}
