//! True content of the model's queues. It shows whether the workers lost or duplicated a message.

use crate::scenario::Kind;

/// True state of all messages in the model's queues, by the kind of work that the workers do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    /// State of the single message that the workers consume.
    Consume(Message),
    /// Number of copies of each message: one array for each place (queue) at which workers put
    /// messages, and the last for copies that a refused put left [elsewhere](ASIDE).
    Produce([[u8; MESSAGES]; PLACES + 1]),
    /// State of each message on the source queue (`old`), number of its copies on the destination
    /// queue (`new`), and number of copies that a refused put left elsewhere (`aside`).
    Move { old: [Message; MESSAGES], new: [u8; MESSAGES], aside: [u8; MESSAGES] },
}

pub(crate) const MESSAGES: usize = 2;
pub(crate) const PLACES: usize = 2;
/// Index in [`Effect::Produce`] of the copies that refused puts left elsewhere: in another queue
/// behind an exchange, or in a dead-letter queue.
pub(crate) const ASIDE: usize = PLACES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    OnQueue,
    /// The worker with this index has got the message, and has not removed it.
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

    /// Puts the messages that a worker has got, and not removed, back on the queue. A broker does
    /// so when the worker dies or ends its attempt.
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

    /// Gets the message of a consume for a worker. Returns false if the message is not on the
    /// queue.
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
