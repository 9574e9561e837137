//! Whether trying again helps after a failure.
//!
//! Each error type decides once, in an exhaustive `match` next to its definition. A function acts
//! on the result, and does not inspect the variants of other crates' errors.

use std::error::Error;

/// Decision after a failure: when to retry, or to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Retry later: a store is unreachable, busy or slow.
    Later,
    /// The same work may succeed later, and nothing was wrong: other transactions held a lock for
    /// too long. This need not count as a failed attempt.
    Contended,
    /// The invocation's time has run out. The same work may succeed in another invocation.
    OutOfTime,
    /// The same work succeeds once a person repairs the deployment or the content of a store.
    /// Trying again soon does not help, trying again for long does.
    AfterRepair,
    /// The same work never succeeds: its object does not exist or cannot be read.
    Never,
}

impl Retry {
    /// True if the failure may pass by itself.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Later | Self::Contended | Self::OutOfTime => true,
            Self::AfterRepair | Self::Never => false,
        }
    }
}

/// Error that decides whether a retry helps.
pub trait Retryable: Error {
    /// Returns the decision after this failure.
    fn retry(&self) -> Retry;
}
