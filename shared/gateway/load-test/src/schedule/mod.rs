//! Times at which the messages of a test are due, and the workers that send them.
//!
//! Message `i` belongs to producer `i % producers`. With a rate it is due when the integral of the
//! rate over the time reaches `i`. All arithmetic is in whole microseconds and millionths of a
//! message, so it is exact: nothing is rounded twice, and nothing drifts over hours.

mod paced;
#[cfg(test)]
mod tests;
mod unthrottled;

pub use paced::Paced;
pub use unthrottled::Unthrottled;

/// Schedule of a load test's messages: which producer sends which, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Schedule with a rate: each message is due at a time of its own.
    Paced(Paced),
    /// Schedule without a rate: each message is due as soon as its producer can send it.
    Unthrottled(Unthrottled),
}

/// Messages that one producer sends in one minute of the test. Their sequence numbers are `first`,
/// `first + step`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Sequence number of the first message.
    pub first: u64,
    /// Distance between two consecutive sequence numbers of the producer: the number of producers.
    pub step: u64,
    /// Number of messages that the producer sends in this minute of the test.
    pub count: u64,
}

#[cfg(test)]
impl Share {
    /// Returns the sequence numbers of the messages in order.
    pub(crate) fn sequences(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |index| self.first.saturating_add(index.saturating_mul(self.step)))
    }
}
