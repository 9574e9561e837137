//! Schedule of a load test: the time at which each message is due, and the producer that sends it.
//!
//! Message `i` belongs to producer `i % producers`. In a test with a rate, the message is due when
//! the integral of the rate over time reaches `i`. All arithmetic is in whole microseconds and
//! millionths of a message, so it is exact: nothing is rounded twice, and nothing drifts over
//! hours.

mod paced;
#[cfg(test)]
mod tests;
mod unthrottled;

pub use paced::Paced;
pub use unthrottled::Unthrottled;

/// Schedule of a load test's messages: the producer that sends each message, and the time at which
/// it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Schedule with a rate, which fixes the time at which each message is due.
    Paced(Paced),
    /// Schedule without a rate: each message is due as soon as its producer can send it.
    Unthrottled(Unthrottled),
}

/// Messages that one producer has to send in one minute of the test. Their sequence numbers are
/// `first`, `first + step`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinuteMessages {
    /// Sequence number of the first of these messages.
    pub first: u64,
    /// Distance between two consecutive sequence numbers of one producer: the number of producers.
    pub step: u64,
    /// Number of these messages: those that the producer has to send in this minute of the test.
    pub count: u64,
}

#[cfg(test)]
impl MinuteMessages {
    /// Returns the sequence numbers of the messages of this share, in order.
    pub(crate) fn sequences(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |index| self.first.saturating_add(index.saturating_mul(self.step)))
    }
}
