//! Items of steps: which invocation works, and what it counted.

mod claim;
mod earlier;
mod key;
mod sum;
mod tallies;

pub(crate) use key::partitions;

/// Messages that a worker handled before a step, as far as they are stored: that a producer sent,
/// or a consumer took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// Messages of all earlier windows and attempts.
    pub before: u64,
    /// Messages of earlier attempts in the same window; `before` includes them.
    pub in_window: u64,
}
