//! Items of steps: which invocation works, and what it counted.

mod claim;
mod earlier;
mod key;
mod sum;
mod tallies;

pub(crate) use key::partitions;

/// Number of messages that a producer had sent, or a consumer had taken, before a step (an attempt
/// at a minute of the test). Counts that are not stored yet are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// Number of messages in all earlier minutes of the test, and in earlier attempts at the same
    /// minute.
    pub before: u64,
    /// Number of messages in earlier attempts at the same minute of the test; `before` includes
    /// them.
    pub in_window: u64,
}
