//! The queue, as an onlooker who knows everything sees it.

use crate::scenario::Kind;

/// Changes that the workers made to the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    /// State of the one message of a consume.
    Consume(Message),
    /// Number of times that each message was put, at each place and, by a refusal, [aside](ASIDE).
    Produce([[u8; MESSAGES]; PLACES + 1]),
    /// State of each message at its old place, and the number of times that it was put at the new
    /// one and that a refusal left it elsewhere.
    Move { old: [Message; MESSAGES], new: [u8; MESSAGES], aside: [u8; MESSAGES] },
}

pub(crate) const MESSAGES: usize = 2;
pub(crate) const PLACES: usize = 2;
/// Index of the place for refused messages: another queue behind an exchange, or a dead-letter
/// queue.
pub(crate) const ASIDE: usize = PLACES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    OnQueue,
    /// The message was got by a worker, and is not settled.
    Got(usize),
    Removed,
}

impl Effect {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Consume => Self::Consume(Message::OnQueue),
            Kind::Produce => Self::Produce([[0; MESSAGES]; PLACES + 1]),
            Kind::Move => {
                Self::Move { old: [Message::OnQueue; MESSAGES], new: [0; MESSAGES], aside: [0; MESSAGES] }
            }
        }
    }

    /// Puts the messages back that a worker holds, when it dies or lets go.
    pub(crate) fn release(&mut self, worker: usize) {
        let messages = match self {
            Self::Consume(message) => std::slice::from_mut(message),
            Self::Produce(_) => &mut [],
            Self::Move { old, .. } => old,
        };
        for message in messages {
            if *message == Message::Got(worker) {
                *message = Message::OnQueue;
            }
        }
    }

    /// Gets the message, if it is there.
    pub(crate) fn get(&mut self, worker: usize) -> bool {
        let is_there = *self == Self::Consume(Message::OnQueue);
        if is_there {
            *self = Self::Consume(Message::Got(worker));
        }
        is_there
    }

    pub(crate) fn remove(&mut self, worker: usize) {
        if *self == Self::Consume(Message::Got(worker)) {
            *self = Self::Consume(Message::Removed);
        }
    }

    pub(crate) fn put(&mut self, at: usize, index: u64) {
        if let Self::Produce(places) = self
            && let Some(count) = places[at].get_mut(usize::try_from(index).unwrap())
        {
            *count = count.saturating_add(1);
        }
    }
}
