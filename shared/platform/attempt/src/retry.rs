//! Decision after a failure: whether and when another attempt at the same work may succeed.
//!
//! Each error type decides once, in an exhaustive `match` next to its definition. A function acts
//! on the result, and does not inspect the variants of other crates' errors.

use std::error::Error;

/// Retry decision after a failure: whether and when the same work may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same work may succeed later, because a store is unreachable, busy or slow.
    Later,
    /// The same work may succeed later, because only other transactions held a lock for too long.
    /// The failure need not count as an attempt.
    Contended,
    /// The invocation has no time left. The same work may succeed in another invocation.
    OutOfTime,
    /// The same work succeeds only after a person repairs the deployment or the content of a store,
    /// so retries must go on for a long time.
    AfterRepair,
    /// The same work never succeeds, for example because its object does not exist or cannot be
    /// parsed.
    Never,
}

impl Retry {
    /// Returns whether the failure may end without a repair.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Later | Self::Contended | Self::OutOfTime => true,
            Self::AfterRepair | Self::Never => false,
        }
    }
}

/// Error that decides whether a retry may succeed.
pub trait Retryable: Error {
    /// Returns the retry decision for this error.
    fn retry(&self) -> Retry;
}
