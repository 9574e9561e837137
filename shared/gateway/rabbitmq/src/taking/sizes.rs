//! Number of bytes that the messages kept by a fetch take in a response.

use mq::ReceivedMessage;

/// Size of the kept messages in a response, each with a comma. An upper bound is used first; exact
/// sizes, which need writing the JSON, are computed only when the bound would decide what fits.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// Number of messages, from the first one, whose exact size is known.
    counted: usize,
    /// Number of bytes that the messages with a known exact size take together.
    exact: usize,
    /// Number of bytes that the largest message with a known exact size takes.
    largest: usize,
    /// Maximum number of bytes that the messages without a known exact size take together.
    others: usize,
    /// Maximum number of bytes that the largest message without a known exact size takes.
    largest_other: usize,
}

impl Sizes {
    /// Adds the size of a message to the sizes of the messages `in_hand`, which the fetch has kept
    /// so far, if all of them together fit into `room` bytes. Returns `false` if they do not.
    pub(super) fn add(
        &mut self,
        message: &ReceivedMessage,
        in_hand: &[ReceivedMessage],
        room: usize,
    ) -> bool {
        let at_most = with_comma(message.carried_at_most());
        let others = self.others.saturating_add(at_most);
        if self.exact.saturating_add(others) <= room {
            self.others = others;
            self.largest_other = self.largest_other.max(at_most);
            return true;
        }
        self.count(in_hand);
        let exact = with_comma(message.carried_size());
        let fits = self.exact.saturating_add(exact) <= room;
        if fits {
            self.note(exact);
        }
        fits
    }

    /// Returns how many more messages like the largest one fit into `room` bytes beside the
    /// messages `in_hand`, which the fetch has kept so far; at most `most`.
    pub(super) fn fitting(&mut self, most: usize, in_hand: &[ReceivedMessage], room: usize) -> usize {
        let fitting = |sizes: &Self| {
            let left = room.saturating_sub(sizes.exact.saturating_add(sizes.others));
            left / sizes.largest.max(sizes.largest_other).max(1)
        };
        if fitting(self) < most {
            self.count(in_hand);
        }
        fitting(self).min(most)
    }

    /// Computes the exact sizes of those messages of `in_hand`, which the fetch has kept so far,
    /// that are not counted yet.
    fn count(&mut self, in_hand: &[ReceivedMessage]) {
        for message in in_hand.get(self.counted..).unwrap_or_default() {
            self.note(with_comma(message.carried_size()));
        }
        (self.others, self.largest_other) = (0, 0);
    }

    fn note(&mut self, exact: usize) {
        self.counted += 1;
        self.exact = self.exact.saturating_add(exact);
        self.largest = self.largest.max(exact);
    }
}

fn with_comma(bytes: usize) -> usize {
    bytes.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use mq::MessageBody;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_fits_is_what_the_exact_bytes_say(
            bodies in prop::collection::vec(0_usize..300, 1..30),
            room in 0_usize..20_000,
            most in 0_usize..50,
        ) {
            let (mut sizes, mut in_hand) = (Sizes::default(), Vec::<ReceivedMessage>::new());
            let (mut all, mut largest) = (0_usize, 0_usize);
            for body in bodies {
                let body = MessageBody(vec![b'x'; body]);
                let message = ReceivedMessage { body, ..ReceivedMessage::default() };
                let exact = message.carried_size() + 1;
                let fits = sizes.add(&message, &in_hand, room);
                prop_assert_eq!(fits, all + exact <= room);
                if fits {
                    in_hand.push(message);
                    (all, largest) = (all + exact, exact.max(largest));
                }
                let fitting = (room - all) / largest.max(1);
                prop_assert_eq!(sizes.fitting(most, &in_hand, room), fitting.min(most));
            }
        }
    }
}
