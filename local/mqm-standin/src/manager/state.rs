//! The state that one lock guards: queues, sessions and the journal.

use std::collections::BTreeMap;

use libmqm_sys as mq;

use super::journal::{Journal, Record};
use super::queue::{Hold, Queue, QueuePlace, Stored};
use super::session::{Handle, Session, Work};
use crate::configuration::Configuration;
use crate::definition::Definition;
use crate::protocol::{Chars, Reason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// The queue manager is quiescing: calls with a fail-if-quiescing option fail, others succeed.
    Quiescing,
    /// The queue manager is ending: every call fails.
    Stopping,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) configuration: Configuration,
    pub(crate) phase: Phase,
    pub(crate) queues: BTreeMap<Chars, Queue>,
    pub(crate) sessions: BTreeMap<u64, Session>,
    pub(crate) journal: Journal,
    /// Counts of connections since a channel's limit was last set.
    pub(crate) since_limit: SinceLimit,
    /// Last number that `number` returned.
    pub(super) next: u64,
}

/// Counts of connections since a channel's limit was last set.
#[derive(Debug, Default)]
pub(crate) struct SinceLimit {
    /// Largest number of connections at one time.
    pub(crate) most: usize,
    /// Number of connections that were refused because their channel was at its limit.
    pub(crate) refused: usize,
}

impl State {
    /// Returns a new unique number, such as for a session or for the position of a message.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the queue manager's name.
    pub(crate) fn name(&self) -> Chars {
        Chars::from(self.configuration.name.as_str())
    }

    pub(crate) fn define(&mut self, definition: Definition) {
        self.queues.insert(definition.name.clone(), Queue::new(definition));
    }

    pub(crate) fn session(&self, session: u64) -> Result<&Session, Reason> {
        self.sessions.get(&session).ok_or(Reason(mq::MQRC_CONNECTION_BROKEN))
    }

    pub(crate) fn session_mut(&mut self, session: u64) -> Result<&mut Session, Reason> {
        self.sessions.get_mut(&session).ok_or(Reason(mq::MQRC_CONNECTION_BROKEN))
    }

    pub(crate) fn handle(&self, session: u64, handle: i32) -> Result<&Handle, Reason> {
        self.session(session)?.handles.get(&handle).ok_or(Reason(mq::MQRC_HOBJ_ERROR))
    }

    pub(crate) fn handle_mut(&mut self, session: u64, handle: i32) -> Result<&mut Handle, Reason> {
        self.session_mut(session)?.handles.get_mut(&handle).ok_or(Reason(mq::MQRC_HOBJ_ERROR))
    }

    /// Returns the queue with this name. A queue that was deleted after it was opened is an error.
    pub(crate) fn queue(&mut self, name: &Chars) -> Result<&mut Queue, Reason> {
        self.queues.get_mut(name).ok_or(Reason(mq::MQRC_Q_DELETED))
    }

    pub(crate) fn definition(&self, name: &Chars) -> Result<&Definition, Reason> {
        self.queues.get(name).map(|queue| &queue.definition).ok_or(Reason(mq::MQRC_Q_DELETED))
    }

    /// Fails if the journal cannot be written, since persistent messages would be lost.
    pub(crate) fn check_journal(&self) -> Result<(), Reason> {
        if self.journal.failed { Err(Reason(mq::MQRC_RESOURCE_PROBLEM)) } else { Ok(()) }
    }

    /// Fails if the queue manager is stopping, or if it is quiescing and the call has a
    /// fail-if-quiescing option.
    pub(crate) fn check_phase(&self, fails_if_quiescing: bool) -> Result<(), Reason> {
        match self.phase {
            Phase::Stopping => Err(Reason(mq::MQRC_Q_MGR_STOPPING)),
            Phase::Quiescing if fails_if_quiescing => Err(Reason(mq::MQRC_Q_MGR_QUIESCING)),
            Phase::Running | Phase::Quiescing => Ok(()),
        }
    }

    /// Adds an operation to the session's unit of work. The maximum number of operations is
    /// MAXUMSGS.
    pub(crate) fn join_unit(&mut self, session: u64, work: Work) -> Result<(), Reason> {
        let most = self.configuration.max_uncommitted;
        let unit = &mut self.session_mut(session)?.work;
        if unit.len() >= most {
            return Err(Reason(mq::MQRC_SYNCPOINT_LIMIT_REACHED));
        }
        unit.push(work);
        Ok(())
    }

    /// Discards the expired messages of a queue.
    pub(crate) fn expire(&mut self, name: &Chars) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        let expired = queue.expire();
        self.forget(name, &expired);
    }

    /// Writes to the journal that persistent messages were removed from a queue.
    pub(crate) fn forget(&mut self, name: &Chars, gone: &[(QueuePlace, Stored)]) {
        let persistent = gone.iter().filter(|(_, stored)| stored.message.is_persistent());
        let gets: Vec<_> = persistent.map(|(place, _)| (name.clone(), *place)).collect();
        if !gets.is_empty() {
            self.journal.append(&Record::Commit { puts: Vec::new(), gets });
        }
    }

    /// Releases the browse lock that this handle holds, if it holds one.
    pub(crate) fn unlock(&mut self, session: u64, handle: i32) {
        let Ok(opened) = self.handle_mut(session, handle) else { return };
        let Some((place, name)) = opened.locked.take().zip(opened.queue.clone()) else { return };
        if let Ok(queue) = self.queue(&name)
            && queue.get(place, Hold::Locked(session, handle)).is_some()
        {
            queue.release(place, |_| ());
        }
    }

    /// Changes the phase of the queue manager, and wakes the waiting gets so that they check it.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.queues.values().for_each(Queue::wake);
    }
}
