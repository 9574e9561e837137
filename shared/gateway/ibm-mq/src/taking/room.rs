//! Room that is left in a response.

use mq::ReceivedMessage;

/// Bytes of the response that the messages take. The maximum of each is known at once; its exact
/// size is computed only when it matters: when the maximums fill half of the response.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Exact bytes of the first `counted` messages.
    exact: usize,
    counted: usize,
    /// Maximum bytes of the messages that are not counted exactly.
    pub(super) at_most: usize,
}

impl Room {
    /// Number of bytes that are certainly left of `max_bytes`.
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
