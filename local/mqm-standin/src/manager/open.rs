//! MQOPEN and MQCLOSE. Opening a model queue makes a dynamic one, which its close deletes.

use libmqm_sys as mq;

use super::session::Handle;
use super::state::State;
use crate::configuration::Right;
use crate::definition::{Definition, Kind};
use crate::protocol::{Answer, Chars, Open, Reason, Reply, done};
use crate::selector::Selector;

pub(super) const INPUT: i32 = mq::MQOO_INPUT_AS_Q_DEF | mq::MQOO_INPUT_SHARED;
const CONTEXT: i32 = mq::MQOO_PASS_ALL_CONTEXT | mq::MQOO_SET_ALL_CONTEXT;
const OF_QUEUES: i32 = INPUT | mq::MQOO_BROWSE | mq::MQOO_OUTPUT | CONTEXT;

/// Maximum number of handles that a connection may have open at a time (MAXHANDS).
const MAX_HANDLES: usize = 256;

/// Maximum length of a dynamic queue's name before its asterisk, in bytes.
const MAX_PREFIX: usize = 32;

/// Open options, with the right that each needs.
const RIGHTS: &[(i32, Right)] = &[
    (INPUT, Right::Get),
    (mq::MQOO_BROWSE, Right::Browse),
    (mq::MQOO_OUTPUT, Right::Put),
    (mq::MQOO_INQUIRE, Right::Inquire),
    (CONTEXT, Right::Context),
];

impl Open {
    fn has(&self, option: i32) -> bool {
        self.options & option != 0
    }
}

impl State {
    pub(super) fn open(&mut self, session: u64, open: &Open) -> Reply {
        self.check_phase(open.has(mq::MQOO_FAIL_IF_QUIESCING))?;
        if self.session(session)?.handles.len() >= MAX_HANDLES {
            return Err(Reason(mq::MQRC_HANDLE_NOT_AVAILABLE));
        }
        match open.object_type {
            mq::MQOT_Q => self.open_queue(session, open),
            mq::MQOT_Q_MGR => self.open_manager(session, open),
            _ => Err(Reason(mq::MQRC_OBJECT_TYPE_ERROR)),
        }
    }

    fn open_manager(&mut self, session: u64, open: &Open) -> Reply {
        if open.has(OF_QUEUES) {
            return Err(Reason(mq::MQRC_OPTION_NOT_VALID_FOR_TYPE));
        }
        let opened = self.name();
        if !open.name.is_blank() && open.name != opened {
            return Err(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME));
        }
        let handle = Handle { opened, is_manager: true, options: open.options, ..Handle::default() };
        let handle = self.add_handle(session, handle)?;
        done(Answer::Opened { handle, name: open.name.clone() })
    }

    fn open_queue(&mut self, session: u64, open: &Open) -> Reply {
        if !open.queue_manager.is_blank() && open.queue_manager != self.name() {
            return Err(Reason(mq::MQRC_UNKNOWN_REMOTE_Q_MGR));
        }
        let queue = self.queues.get(&open.name).ok_or(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME))?;
        let definition = queue.definition.clone();
        check_options(open)?;
        self.check_rights(session, open)?;
        let selector = selector(open)?;

        let opened = match definition.kind {
            Kind::Model => self.create_dynamic(&definition, &open.dynamic_name)?,
            _ => open.name.clone(),
        };
        let base = match definition.kind {
            Kind::Local | Kind::Model => Some(opened.clone()),
            Kind::Alias => self.base(&definition, open)?,
            Kind::Remote => remote(open)?,
        };
        let queue = base.map(|name| self.use_queue(name, open)).transpose()?;
        let handle =
            Handle { queue, opened: opened.clone(), options: open.options, selector, ..Handle::default() };
        let handle = self.add_handle(session, handle)?;
        if let Some(queue) = self.queues.get_mut(&opened).filter(|_| definition.kind == Kind::Model) {
            queue.creator = Some((session, handle));
        }
        done(Answer::Opened { handle, name: opened })
    }

    /// Creates a dynamic queue from a model queue. The asterisk at the end of the wanted name is
    /// replaced by a unique text.
    fn create_dynamic(&mut self, model: &Definition, wanted: &Chars) -> Result<Chars, Reason> {
        let text = wanted.to_string();
        let prefix = text.strip_suffix('*').filter(|prefix| prefix.len() <= MAX_PREFIX);
        let prefix = prefix.ok_or(Reason(mq::MQRC_DYNAMIC_Q_NAME_ERROR))?;
        let name = format!("{prefix}{:016X}", crate::clock::now() << 20 ^ self.number());
        let name = Chars::from(name.as_str());
        self.define(Definition { name: name.clone(), kind: Kind::Local, ..model.clone() });
        Ok(name)
    }

    /// Checks that the user may open the queue with these options. For an alias, the rights of the
    /// alias itself count.
    fn check_rights(&self, session: u64, open: &Open) -> Result<(), Reason> {
        let user = &self.session(session)?.user;
        let mut needed = RIGHTS.iter().filter(|(options, _)| open.has(*options));
        match needed.all(|(_, right)| self.configuration.may(user, &open.name, *right)) {
            true => Ok(()),
            false => Err(Reason(mq::MQRC_NOT_AUTHORIZED)),
        }
    }

    /// Returns the queue that an alias stands for; `None` if the alias was opened only to inquire
    /// its attributes.
    fn base(&self, alias: &Definition, open: &Open) -> Result<Option<Chars>, Reason> {
        if !open.has(INPUT | mq::MQOO_BROWSE | mq::MQOO_OUTPUT) {
            return Ok(None);
        }
        let base = self.queues.get(&alias.target).ok_or(Reason(mq::MQRC_UNKNOWN_ALIAS_BASE_Q))?;
        match base.definition.kind {
            Kind::Local => Ok(Some(alias.target.clone())),
            Kind::Remote => remote(open),
            Kind::Alias | Kind::Model => Err(Reason(mq::MQRC_ALIAS_BASE_Q_TYPE_ERROR)),
        }
    }

    /// Adds a new handle to the queue's counts of handles for input and for output.
    fn use_queue(&mut self, name: Chars, open: &Open) -> Result<Chars, Reason> {
        let queue = self.queues.get_mut(&name).ok_or(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME))?;
        queue.inputs += usize::from(open.has(INPUT));
        queue.outputs += usize::from(open.has(mq::MQOO_OUTPUT));
        Ok(name)
    }

    fn add_handle(&mut self, session: u64, handle: Handle) -> Result<i32, Reason> {
        let session = self.session_mut(session)?;
        let number = session.next_handle;
        session.next_handle += 1;
        session.handles.insert(number, handle);
        Ok(number)
    }

    pub(super) fn close(&mut self, session: u64, handle: i32, options: i32) -> Reply {
        self.unlock(session, handle);
        let name = self.handle(session, handle)?.queue.clone();
        let queue = name.as_ref().and_then(|name| self.queues.get(name));
        let deletes = queue.is_some_and(|queue| queue.creator == Some((session, handle)));
        if !deletes && options & (mq::MQCO_DELETE | mq::MQCO_DELETE_PURGE) != 0 {
            return Err(Reason(mq::MQRC_OPTION_NOT_VALID_FOR_TYPE));
        }
        let closed = self.session_mut(session)?.handles.remove(&handle);
        if let Some((name, handle)) = name.zip(closed)
            && let Ok(queue) = self.queue(&name)
        {
            queue.inputs -= usize::from(handle.has(INPUT));
            queue.outputs -= usize::from(handle.has(mq::MQOO_OUTPUT));
            if deletes {
                queue.wake();
                self.queues.remove(&name);
            }
        }
        done(Answer::None)
    }
}

fn check_options(open: &Open) -> Result<(), Reason> {
    let several_inputs = (open.options & INPUT).count_ones() > 1;
    let saves = open.has(mq::MQOO_SAVE_ALL_CONTEXT) && !open.has(INPUT);
    let passes = open.has(CONTEXT) && !open.has(mq::MQOO_OUTPUT);
    let uses = open.has(OF_QUEUES | mq::MQOO_INQUIRE);
    if several_inputs || open.has(mq::MQOO_INPUT_EXCLUSIVE) || saves || passes || !uses {
        return Err(Reason(mq::MQRC_OPTIONS_ERROR));
    }
    Ok(())
}

/// Checks the options for opening a remote queue. It can only be inquired, since the stand-in has
/// no other queue manager to send to.
fn remote(open: &Open) -> Result<Option<Chars>, Reason> {
    if open.has(INPUT | mq::MQOO_BROWSE) {
        return Err(Reason(mq::MQRC_OPTION_NOT_VALID_FOR_TYPE));
    }
    if open.has(mq::MQOO_OUTPUT) {
        return Err(Reason(mq::MQRC_UNKNOWN_REMOTE_Q_MGR));
    }
    Ok(None)
}

fn selector(open: &Open) -> Result<Option<Selector>, Reason> {
    let selects = |text: &&str| !text.trim().is_empty() && open.has(INPUT | mq::MQOO_BROWSE);
    let text = open.selection.as_deref().filter(selects);
    text.map(|text| Selector::parse(text).ok_or(Reason(mq::MQRC_SELECTOR_SYNTAX_ERROR))).transpose()
}
