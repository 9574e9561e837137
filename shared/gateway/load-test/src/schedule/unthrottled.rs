//! Messages that are due as soon as they can be sent.

use super::Share;
use crate::plan::Window;

/// Schedule without a rate: each message is due as soon as its producer can send it.
///
/// The number of messages of a window (minute of the test) is not known in advance, so each window
/// has its own range of [`Unthrottled::WINDOW_NUMBERS`] sequence numbers for each producer. An
/// invocation need not know the numbers that a lost invocation used in the previous window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unthrottled {
    workers: u64,
    most: u64,
}

impl Unthrottled {
    /// Number of sequence numbers that each producer has in one minute of the test: 16,777,216,
    /// which is more than one connection carries in a minute.
    pub const WINDOW_NUMBERS: u64 = 1 << 24;

    /// Creates a schedule of at most `most` messages of all producers together.
    #[must_use]
    pub fn new(workers: u32, most: u64) -> Self {
        Self { workers: u64::from(workers.max(1)), most }
    }

    /// Returns the number of messages that one producer may send over the whole test. The quotas of
    /// all producers add up to the total of the schedule.
    #[must_use]
    pub fn quota(&self, producer: u32) -> u64 {
        let own = u64::from(producer) % self.workers;
        self.most.saturating_sub(own).div_ceil(self.workers)
    }

    /// Returns the messages that a producer may send in a window (minute of the test), if it sent
    /// `already` messages in earlier windows.
    #[must_use]
    pub fn share(&self, producer: u32, window: Window, already: u64) -> Share {
        let own = u64::from(producer) % self.workers;
        let numbers_before = u64::from(window.number()).saturating_mul(Self::WINDOW_NUMBERS);
        let first = numbers_before.saturating_mul(self.workers).saturating_add(own);
        let left = self.quota(producer).saturating_sub(already);
        Share { first, step: self.workers, count: left.min(Self::WINDOW_NUMBERS) }
    }
}
