//! Counts the bytes that the messages of a consume leave free in its response.

use mq::ReceivedMessage;

/// Number of bytes that the messages of a consume take in the response. An upper bound is used
/// first; exact sizes are computed only once the bounds fill half of the response.
#[derive(Debug, Default)]
pub(super) struct ResponseBytes {
    /// Exact number of bytes of the first `counted` messages.
    exact: usize,
    counted: usize,
    /// Upper bound in bytes of the messages after the first `counted` ones.
    pub(super) at_most: usize,
}

impl ResponseBytes {
    /// Returns how many of the response's `max_bytes` are certainly left beside the consume's
    /// `messages`.
    pub(super) fn left(&mut self, messages: &[ReceivedMessage], max_bytes: usize) -> usize {
        let left = |room: &Self| max_bytes.saturating_sub(room.exact.saturating_add(room.at_most));
        if self.at_most > 0 && left(self) < max_bytes / 2 {
            let others = messages.get(self.counted..).unwrap_or_default();
            self.exact += others.iter().map(ReceivedMessage::carried_size).sum::<usize>();
            (self.counted, self.at_most) = (messages.len(), 0);
        }
        left(self)
    }
}
