//! The room that an answer has.

use mq::ReceivedMessage;

/// How much of the answer the messages take. What each takes at most is known at once, and what it
/// does take is counted once that matters: when by the first sum half of the answer is full.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// What is known exactly, of so many messages.
    exact: usize,
    counted: usize,
    /// What the others take at most.
    pub(super) at_most: usize,
}

impl Room {
    /// How many bytes are left of `max_bytes`, at least.
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
