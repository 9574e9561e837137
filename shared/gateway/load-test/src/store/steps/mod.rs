//! DynamoDB items of steps (a worker's attempts at minutes of the test): the claim of a step by an
//! invocation, and the counts of its messages.

mod claim;
mod earlier;
mod key;
mod sum;
mod tallies;

pub(crate) use key::partitions;

/// Number of messages that a worker had handled before a step (attempt at a minute of the test):
/// sent as a producer, or taken as a consumer. Counts that are not stored yet are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// Number of messages that the worker handled in all earlier minutes of the test, and in
    /// earlier attempts at the same minute.
    pub before: u64,
    /// Number of messages that the worker handled in earlier attempts at the same minute of the
    /// test. `before` includes them.
    pub in_window: u64,
}
