//! One local queue: its messages in their order, and who holds which of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Condvar};

use libmqm_sys as mq;
use serde::{Deserialize, Serialize};

use crate::definition::Definition;
use crate::protocol::{Match, Message};
use crate::selector::Selector;

/// The place of a message on its queue: by priority if the queue delivers so, then as they were
/// put. It stays when a message is backed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    rank: u8,
    pub(crate) sequence: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) message: Message,
    /// In milliseconds since 1970.
    pub(crate) expires: Option<u64>,
}

impl Stored {
    fn has_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

/// A message that others cannot get: who holds it, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Put in a unit of work of this session.
    Put(u64),
    /// Got in a unit of work of this session.
    Got(u64),
    /// Locked by a browse of this session's handle.
    Locked(u64, i32),
}

#[derive(Debug)]
pub(crate) struct Queue {
    /// Tells a queue from another one of the same name that was deleted.
    pub(crate) id: u64,
    pub(crate) definition: Definition,
    ready: BTreeMap<Place, Stored>,
    held: BTreeMap<Place, (Hold, Stored)>,
    /// How many of them were got in units of work.
    got: usize,
    /// When messages expire. One that is gone stays here until then.
    expiries: BTreeSet<(u64, Place)>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) exclusive: bool,
    /// The session and handle whose close deletes a temporary dynamic queue.
    pub(crate) creator: Option<(u64, i32)>,
    /// Wakes gets that wait.
    pub(crate) changed: Arc<Condvar>,
}

/// What a get looks for.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    pub(crate) by: &'a Match,
    pub(crate) selector: Option<&'a Selector>,
    /// Only messages behind this one.
    pub(crate) after: Option<Place>,
    pub(crate) now: u64,
}

impl Queue {
    pub(crate) fn new(id: u64, definition: Definition) -> Self {
        Self {
            id,
            definition,
            ready: BTreeMap::new(),
            held: BTreeMap::new(),
            got: 0,
            expiries: BTreeSet::new(),
            inputs: 0,
            outputs: 0,
            exclusive: false,
            creator: None,
            changed: Arc::default(),
        }
    }

    /// CURRENT_Q_DEPTH counts uncommitted puts, and not what was got in a unit of work.
    pub(crate) fn depth(&self) -> usize {
        self.ready.len() + self.held.len() - self.got
    }

    /// How many messages are committed and not held by anybody.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        let most = usize::try_from(self.definition.number_of(mq::MQIA_MAX_Q_DEPTH)).unwrap_or_default();
        self.depth() >= most
    }

    pub(crate) fn uncommitted(&self) -> usize {
        self.held.values().filter(|(hold, _)| !matches!(hold, Hold::Locked(..))).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.held.is_empty()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.inputs + self.outputs > 0
    }

    pub(crate) fn place(&self, priority: i32, sequence: u64) -> Place {
        let by_priority = self.definition.number_of(mq::MQIA_MSG_DELIVERY_SEQUENCE) == mq::MQMDS_PRIORITY;
        let priority = if by_priority { u8::try_from(priority.clamp(0, 9)).unwrap_or_default() } else { 9 };
        Place { rank: 9 - priority, sequence }
    }

    pub(crate) fn add(&mut self, place: Place, stored: Stored, hold: Option<Hold>) {
        if let Some(at) = stored.expires {
            self.expiries.insert((at, place));
        }
        match hold {
            Some(hold) => {
                self.held.insert(place, (hold, stored));
            }
            None => {
                self.ready.insert(place, stored);
                self.changed.notify_all();
            }
        }
    }

    /// The first message that fits and that nobody holds, or that this handle has locked.
    pub(crate) fn find(&self, search: &Search<'_>) -> Option<Place> {
        let from = search.after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut fitting = self.ready.range((from, Bound::Unbounded)).filter(|(place, stored)| {
            !stored.has_expired(search.now)
                && matches(search.by, **place, &stored.message)
                && search.selector.is_none_or(|selector| selector.accepts(&stored.message))
        });
        fitting.next().map(|(place, _)| *place)
    }

    /// A message that is there for this handle: ready, or locked by it.
    pub(crate) fn get(&self, place: Place, holder: Hold) -> Option<&Stored> {
        let locked = || self.held.get(&place).filter(|(hold, _)| *hold == holder).map(|(_, stored)| stored);
        self.ready.get(&place).or_else(locked)
    }

    /// Takes a message that is ready or locked by this handle off the queue.
    pub(crate) fn take(&mut self, place: Place, holder: Hold) -> Option<Stored> {
        if let Some(stored) = self.take_ready(place) {
            return Some(stored);
        }
        let is_locked = self.held.get(&place).is_some_and(|(hold, _)| *hold == holder);
        if is_locked { self.held.remove(&place).map(|(_, stored)| stored) } else { None }
    }

    pub(crate) fn take_ready(&mut self, place: Place) -> Option<Stored> {
        self.ready.remove(&place)
    }

    /// Changes who holds a message that is ready or held by `from`.
    pub(crate) fn hold(&mut self, place: Place, from: Hold, to: Hold) {
        if let Some(stored) = self.take(place, from) {
            self.got += usize::from(matches!(to, Hold::Got(_)));
            self.held.insert(place, (to, stored));
        }
    }

    /// Gives a held message free, changed by `change`.
    pub(crate) fn release(&mut self, place: Place, change: impl FnOnce(&mut Message)) {
        if let Some(mut stored) = self.drop_held(place) {
            change(&mut stored.message);
            self.ready.insert(place, stored);
            self.changed.notify_all();
        }
    }

    /// Takes a held message away.
    pub(crate) fn drop_held(&mut self, place: Place) -> Option<Stored> {
        let (hold, stored) = self.held.remove(&place)?;
        self.got -= usize::from(matches!(hold, Hold::Got(_)));
        Some(stored)
    }

    pub(crate) fn held(&self, place: Place) -> Option<&Stored> {
        self.held.get(&place).map(|(_, stored)| stored)
    }

    /// Takes what has expired off the queue.
    pub(crate) fn expire(&mut self, now: u64) -> Vec<(Place, Stored)> {
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

    /// What outlives the queue manager: persistent messages whose put is committed.
    pub(crate) fn persistent(&self) -> impl Iterator<Item = (Place, &Stored)> {
        let held = self.held.iter().filter(|(_, (hold, _))| !matches!(hold, Hold::Put(_)));
        let held = held.map(|(place, (_, stored))| (*place, stored));
        let ready = self.ready.iter().map(|(place, stored)| (*place, stored));
        ready.chain(held).filter(|(_, stored)| stored.message.is_persistent())
    }

    pub(crate) fn clear(&mut self) -> Vec<(Place, Stored)> {
        std::mem::take(&mut self.ready).into_iter().collect()
    }
}

/// MQGMO.MsgToken: where the message is.
pub(crate) fn token(place: Place) -> [u8; 16] {
    let mut token = [0; 16];
    if let Some(start) = token.first_chunk_mut() {
        *start = place.sequence.to_be_bytes();
    }
    token
}

fn matches(by: &Match, place: Place, message: &Message) -> bool {
    let descriptor = &message.descriptor;
    by.message_id.is_none_or(|id| id == descriptor.message_id)
        && by.correlation_id.is_none_or(|id| id == descriptor.correlation_id)
        && by.group_id.is_none_or(|id| id == descriptor.group_id)
        && by.sequence.is_none_or(|number| number == descriptor.sequence)
        && by.offset.is_none_or(|offset| offset == descriptor.offset)
        && by.token.is_none_or(|bytes| bytes == token(place))
}
