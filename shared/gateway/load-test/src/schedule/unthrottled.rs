//! Schedule of a load test without a rate, where each message is due as soon as it can be sent.

use super::MinuteMessages;
use crate::plan::Window;

/// Schedule without a rate: each message is due as soon as its producer can send it.
///
/// The number of messages that a producer sends in a window (minute of the test) is not known in
/// advance. So each producer has a range of [`Unthrottled::WINDOW_NUMBERS`] sequence numbers for
/// each window. An invocation need not know the numbers that a lost invocation used in the previous
/// window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unthrottled {
    workers: u64,
    most: u64,
}

impl Unthrottled {
    /// Number of sequence numbers that each producer has in one minute of the test: 16,777,216,
    /// which is more than one connection carries in a minute.
    pub const WINDOW_NUMBERS: u64 = 1 << 24;

    /// Creates a schedule in which `workers` producers may send at most `most` messages together.
    #[must_use]
    pub fn new(workers: u32, most: u64) -> Self {
        Self { workers: u64::from(workers.max(1)), most }
    }

    /// Returns the number of messages that one producer may send over the whole test. The numbers
    /// of all producers add up to the schedule's maximum.
    #[must_use]
    pub fn quota(&self, producer: u32) -> u64 {
        let own = u64::from(producer) % self.workers;
        self.most.saturating_sub(own).div_ceil(self.workers)
    }

    /// Returns the messages that a producer may send in a window (minute of the test), if it sent
    /// `already` messages in earlier windows: their sequence numbers, and the maximum of their
    /// count.
    #[must_use]
    pub fn share(&self, producer: u32, window: Window, already: u64) -> MinuteMessages {
        let own = u64::from(producer) % self.workers;
        let numbers_before = u64::from(window.number()).saturating_mul(Self::WINDOW_NUMBERS);
        let first = numbers_before.saturating_mul(self.workers).saturating_add(own);
        let left = self.quota(producer).saturating_sub(already);
        MinuteMessages { first, step: self.workers, count: left.min(Self::WINDOW_NUMBERS) }
    }
}
