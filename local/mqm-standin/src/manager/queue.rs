//! Local queue: its messages in order, and the uncommitted work or browse lock on each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Condvar};

use libmqm_sys as mq;
use serde::{Deserialize, Serialize};

use crate::definition::Definition;
use crate::protocol::{Match, Message};
use crate::selector::Selector;

/// Position of a message on its queue: by priority if the queue delivers so, then in the order of
/// the puts. A backout does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct QueuePlace {
    rank: u8,
    pub(crate) sequence: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) message: Message,
    /// Expiry of the message in milliseconds since 1970; `None` if it does not expire.
    pub(crate) expires: Option<u64>,
}

impl From<Message> for Stored {
    fn from(message: Message) -> Self {
        let tenths = u64::try_from(message.descriptor.expiry).ok().filter(|tenths| *tenths > 0);
        Self { expires: tenths.map(|tenths| crate::clock::now() + tenths * 100), message }
    }
}

/// Reason why others cannot get a message: an uncommitted put or get, or a browse lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The message was put in a unit of work that is not committed yet.
    Put,
    /// The message was got in a unit of work that is not committed yet.
    Got,
    /// The message is locked by a browse through this session and handle.
    Locked(u64, i32),
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) definition: Definition,
    ready: BTreeMap<QueuePlace, Stored>,
    held: BTreeMap<QueuePlace, (Hold, Stored)>,
    /// Number of messages that were got in units of work that are not committed yet.
    got: usize,
    /// Expiry times of messages. The entry of a removed message stays until its expiry time.
    expiries: BTreeSet<(u64, QueuePlace)>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// The session and handle whose close deletes a dynamic queue; `None` for any other queue.
    pub(crate) creator: Option<(u64, i32)>,
    /// Condition variable that wakes the gets that wait for a message.
    pub(crate) changed: Arc<Condvar>,
}

impl Queue {
    pub(crate) fn new(definition: Definition) -> Self {
        Self {
            definition,
            ready: BTreeMap::new(),
            held: BTreeMap::new(),
            got: 0,
            expiries: BTreeSet::new(),
            inputs: 0,
            outputs: 0,
            creator: None,
            changed: Arc::default(),
        }
    }

    /// Returns the depth (CURRENT_Q_DEPTH): uncommitted puts are included, and uncommitted gets are
    /// not.
    pub(crate) fn depth(&self) -> usize {
        self.ready.len() + self.held.len() - self.got
    }

    /// Returns the number of messages that are committed and not held.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        let most = usize::try_from(self.definition.max_depth).unwrap_or_default();
        self.depth() >= most
    }

    pub(crate) fn place(&self, priority: i32, sequence: u64) -> QueuePlace {
        let by_priority = self.definition.delivery_sequence == mq::MQMDS_PRIORITY;
        let priority = if by_priority { u8::try_from(priority.clamp(0, 9)).unwrap_or_default() } else { 9 };
        QueuePlace { rank: 9 - priority, sequence }
    }

    pub(crate) fn add(&mut self, place: QueuePlace, stored: Stored, hold: Option<Hold>) {
        self.expiries.extend(stored.expires.map(|at| (at, place)));
        match hold {
            Some(hold) => drop(self.held.insert(place, (hold, stored))),
            None => {
                self.ready.insert(place, stored);
                self.wake();
            }
        }
    }

    /// Wakes all gets that wait for a message on this queue.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Finds the first matching message after a position. Held messages are skipped.
    pub(crate) fn find(
        &self,
        by: &Match,
        selector: Option<&Selector>,
        after: Option<QueuePlace>,
    ) -> Option<QueuePlace> {
        let now = crate::clock::now();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut fitting = self.ready.range((from, Bound::Unbounded)).filter(|(_, stored)| {
            stored.expires.is_none_or(|at| at > now)
                && matches(by, &stored.message)
                && selector.is_none_or(|selector| selector.accepts(&stored.message))
        });
        fitting.next().map(|(place, _)| *place)
    }

    /// Returns the message at a position if nobody holds it, or if it is held as in `holder`.
    pub(crate) fn get(&self, place: QueuePlace, holder: Hold) -> Option<&Stored> {
        let locked = || self.held.get(&place).filter(|(hold, _)| *hold == holder).map(|(_, stored)| stored);
        self.ready.get(&place).or_else(locked)
    }

    /// Removes the message that [`Self::get`] returns for the same arguments.
    pub(crate) fn take(&mut self, place: QueuePlace, holder: Hold) -> Option<Stored> {
        self.get(place, holder)?;
        self.take_ready(place).or_else(|| self.drop_held(place))
    }

    pub(crate) fn take_ready(&mut self, place: QueuePlace) -> Option<Stored> {
        self.ready.remove(&place)
    }

    /// Changes how a message is held. It must be ready, or held as in `from`.
    pub(crate) fn hold(&mut self, place: QueuePlace, from: Hold, to: Hold) {
        if let Some(stored) = self.take(place, from) {
            self.got += usize::from(to == Hold::Got);
            self.held.insert(place, (to, stored));
        }
    }

    /// Releases a held message, after `change` has changed it.
    pub(crate) fn release(&mut self, place: QueuePlace, change: impl FnOnce(&mut Message)) {
        if let Some(mut stored) = self.drop_held(place) {
            change(&mut stored.message);
            self.ready.insert(place, stored);
            self.wake();
        }
    }

    /// Removes a held message from the queue.
    pub(crate) fn drop_held(&mut self, place: QueuePlace) -> Option<Stored> {
        let (hold, stored) = self.held.remove(&place)?;
        self.got -= usize::from(hold == Hold::Got);
        Some(stored)
    }

    pub(crate) fn held(&self, place: QueuePlace) -> Option<&Stored> {
        self.held.get(&place).map(|(_, stored)| stored)
    }

    /// Removes the expired messages that are not held, and returns them.
    pub(crate) fn expire(&mut self) -> Vec<(QueuePlace, Stored)> {
        let now = crate::clock::now();
        let due = self.expiries.iter().take_while(|(at, _)| *at <= now);
        // What somebody holds stays: it is discarded if it comes back.
        let due: Vec<_> = due.filter(|(_, place)| !self.held.contains_key(place)).copied().collect();
        let mut expired = Vec::new();
        for entry in due {
            self.expiries.remove(&entry);
            expired.extend(self.ready.remove(&entry.1).map(|stored| (entry.1, stored)));
        }
        expired
    }

    /// Returns the messages that survive a restart: persistent ones whose put is committed.
    pub(crate) fn persistent(&self) -> impl Iterator<Item = (QueuePlace, &Stored)> {
        let held = self.held.iter().filter(|(_, (hold, _))| *hold != Hold::Put);
        let held = held.map(|(place, (_, stored))| (*place, stored));
        let ready = self.ready.iter().map(|(place, stored)| (*place, stored));
        ready.chain(held).filter(|(_, stored)| stored.message.is_persistent())
    }

    pub(crate) fn clear(&mut self) -> Vec<(QueuePlace, Stored)> {
        std::mem::take(&mut self.ready).into_iter().collect()
    }
}

fn matches(by: &Match, message: &Message) -> bool {
    let descriptor = &message.descriptor;
    by.message_id.is_none_or(|id| id == descriptor.message_id)
        && by.correlation_id.is_none_or(|id| id == descriptor.correlation_id)
}
