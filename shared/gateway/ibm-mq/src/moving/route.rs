//! Decides the destination of each message of a move, or the reason why the message stays.

use std::collections::HashMap;

use libmqm_sys as mqi;
use mq::{AllowedQueues, Destination, KeptReason, QueueName};

use crate::dead_letter::{Origin, origin};

/// Rules and state by which a move decides the destination of each message.
#[derive(Clone, Debug)]
pub(super) struct Route {
    from: QueueName,
    to: Destination,
    reach: AllowedQueues,
    /// Name of the connected queue manager; `None` if the user may not inquire it.
    manager: Option<String>,
    /// Destination queues on which the move puts no more messages, each with the reason why
    /// messages for it stay.
    closed: HashMap<QueueName, KeptReason>,
}

/// Decision about one message of a move: its destination, or the reason to keep it.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) to: Option<QueueName>,
    pub(super) stays: Option<KeptReason>,
    /// Dead-letter header to remove from a message that returns to its first destination; otherwise
    /// `None`.
    pub(super) without: Option<Origin>,
}

impl Route {
    pub(super) fn new(
        from: QueueName,
        to: Destination,
        reach: AllowedQueues,
        manager: Option<String>,
    ) -> Self {
        Self { from, to, reach, manager, closed: HashMap::new() }
    }

    pub(super) fn decide(&self, md: &mqi::MQMD, body: &[u8]) -> Decision {
        match &self.to {
            Destination::Queue(to) => {
                Decision { to: Some(to.clone()), stays: self.closed.get(to).copied(), without: None }
            }
            Destination::Origin => self.back(origin(md, body)),
        }
    }

    fn back(&self, origin: Option<Origin>) -> Decision {
        let Some(origin) = origin else {
            return Decision { to: None, stays: Some(KeptReason::NoOrigin), without: None };
        };
        let Ok(to) = QueueName::try_from(origin.queue.clone()) else {
            return Decision { to: None, stays: Some(KeptReason::NoOrigin), without: None };
        };
        let is_elsewhere = !origin.queue_manager.is_empty()
            && self.manager.as_ref().is_none_or(|name| *name != origin.queue_manager);
        let stays = if to == self.from {
            Some(KeptReason::SameQueue)
        } else if is_elsewhere {
            Some(KeptReason::Unroutable)
        } else if !self.reach.contains(&to) {
            Some(KeptReason::NotAllowed)
        } else {
            self.closed.get(&to).copied()
        };
        Decision { to: Some(to), stays, without: Some(origin) }
    }

    /// Excludes the destination `to` from the rest of the move. Messages for it stay, with the
    /// reason `why`.
    pub(super) fn close(&mut self, to: QueueName, why: KeptReason) {
        self.closed.insert(to, why);
    }

    /// True if the only destination of the move is excluded, so that no further message can be
    /// moved.
    pub(super) fn is_closed(&self) -> bool {
        matches!(&self.to, Destination::Queue(to) if self.closed.contains_key(to))
    }
}
