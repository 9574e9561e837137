//! MQOPEN and MQCLOSE.

use libmqm_sys as mq;

use super::session::Handle;
use super::state::State;
use crate::configuration::Right;
use crate::definition::{Definition, Kind};
use crate::protocol::{Answer, Chars, Open, Opened, Reason, Reply};
use crate::selector::Selector;

const INPUT: i32 = mq::MQOO_INPUT_AS_Q_DEF | mq::MQOO_INPUT_SHARED | mq::MQOO_INPUT_EXCLUSIVE;
const IDENTITY: i32 = mq::MQOO_PASS_IDENTITY_CONTEXT | mq::MQOO_SET_IDENTITY_CONTEXT;
const CONTEXT: i32 = mq::MQOO_PASS_ALL_CONTEXT | mq::MQOO_SET_ALL_CONTEXT;
const OF_QUEUES: i32 = INPUT | mq::MQOO_BROWSE | mq::MQOO_OUTPUT | mq::MQOO_SET | IDENTITY | CONTEXT;

/// More handles than this at a time are refused: MAXHANDS.
const MAX_HANDLES: usize = 256;

/// Options, and the right that each needs.
const RIGHTS: &[(i32, Right)] = &[
    (INPUT, Right::Get),
    (mq::MQOO_BROWSE, Right::Browse),
    (mq::MQOO_OUTPUT, Right::Put),
    (mq::MQOO_INQUIRE, Right::Inquire),
    (mq::MQOO_SET, Right::Set),
    (IDENTITY, Right::Identity),
    (CONTEXT, Right::Context),
];

impl State {
    pub(super) fn open(&mut self, session: u64, open: &Open) -> Result<Opened, Reason> {
        self.check_phase(open.options & mq::MQOO_FAIL_IF_QUIESCING != 0)?;
        if self.session(session)?.handles.len() >= MAX_HANDLES {
            return Err(Reason(mq::MQRC_HANDLE_NOT_AVAILABLE));
        }
        match open.object_type {
            mq::MQOT_Q => self.open_queue(session, open),
            mq::MQOT_Q_MGR => self.open_manager(session, open),
            // As a queue manager answers that has publish/subscribe turned off.
            mq::MQOT_TOPIC => Err(Reason(mq::MQRC_PUBSUB_INHIBITED)),
            mq::MQOT_NAMELIST | mq::MQOT_PROCESS | mq::MQOT_AUTH_INFO => {
                Err(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME))
            }
            _ => Err(Reason(mq::MQRC_OBJECT_TYPE_ERROR)),
        }
    }

    fn open_manager(&mut self, session: u64, open: &Open) -> Result<Opened, Reason> {
        if open.options & OF_QUEUES != 0 {
            return Err(Reason(mq::MQRC_OPTION_NOT_VALID_FOR_TYPE));
        }
        let name = Chars::from(self.configuration.name.as_str());
        if !open.name.is_blank() && open.name != name {
            return Err(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME));
        }
        let handle = handle(None, name.clone(), open.options, None);
        let handle = self.add_handle(session, Handle { is_manager: true, ..handle })?;
        Ok(Opened { handle, name: open.name.clone(), resolved_manager: name, ..Opened::default() })
    }

    fn open_queue(&mut self, session: u64, open: &Open) -> Result<Opened, Reason> {
        let manager = Chars::from(self.configuration.name.as_str());
        if !open.queue_manager.is_blank() && open.queue_manager != manager {
            return Err(Reason(mq::MQRC_UNKNOWN_REMOTE_Q_MGR));
        }
        if open.name.is_blank() {
            return Err(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME));
        }
        let definition = self.queues.get(&open.name).map(|queue| queue.definition.clone());
        let definition = definition.ok_or(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME))?;
        check_options(open.options, definition.kind)?;
        self.check_rights(session, open)?;
        let selector = selector(open)?;

        let (opened, base) = match definition.kind {
            Kind::Local => (open.name.clone(), Some(open.name.clone())),
            Kind::Model => {
                let name = self.create_dynamic(&definition, &open.dynamic_name)?;
                (name.clone(), Some(name))
            }
            Kind::Alias => (open.name.clone(), self.base(&definition, open.options)?),
            Kind::Remote => (open.name.clone(), remote(open.options)?),
        };
        let queue = match &base {
            Some(name) => Some((name.clone(), self.use_queue(name, open.options)?)),
            None => None,
        };
        let handle = self.add_handle(session, handle(queue, opened.clone(), open.options, selector))?;
        if definition.kind == Kind::Model
            && let Some(queue) = self.queues.get_mut(&opened)
        {
            queue.creator = queue.definition.is_temporary().then_some((session, handle));
        }
        let resolved_queue = base.unwrap_or_default();
        Ok(Opened { handle, name: opened, resolved_queue, resolved_manager: manager })
    }

    /// Whether the user may open the queue so, for an alias by the alias itself.
    fn check_rights(&self, session: u64, open: &Open) -> Result<(), Reason> {
        let user = &self.session(session)?.user;
        let mut needed = RIGHTS.iter().filter(|(options, _)| open.options & options != 0);
        let is_alternate = open.options & mq::MQOO_ALTERNATE_USER_AUTHORITY != 0;
        let as_another = is_alternate && open.alternate_user.as_bytes() != user.as_bytes();
        if as_another || !needed.all(|(_, right)| self.may(user, &open.name, *right)) {
            return Err(Reason(mq::MQRC_NOT_AUTHORIZED));
        }
        Ok(())
    }

    /// The queue behind an alias; none is needed to inquire the alias itself.
    fn base(&self, alias: &Definition, options: i32) -> Result<Option<Chars>, Reason> {
        if options & (INPUT | mq::MQOO_BROWSE | mq::MQOO_OUTPUT) == 0 {
            return Ok(None);
        }
        let name = alias.text_of(mq::MQCA_BASE_Q_NAME);
        let base = self.queues.get(&name).ok_or(Reason(mq::MQRC_UNKNOWN_ALIAS_BASE_Q))?;
        match base.definition.kind {
            Kind::Local => Ok(Some(name)),
            Kind::Remote => remote(options),
            Kind::Alias | Kind::Model => Err(Reason(mq::MQRC_ALIAS_BASE_Q_TYPE_ERROR)),
        }
    }

    /// Counts a handle on a queue, if its sharing allows it, and returns the queue's number.
    fn use_queue(&mut self, name: &Chars, options: i32) -> Result<u64, Reason> {
        let queue = self.queues.get_mut(name).ok_or(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME))?;
        if options & INPUT != 0 {
            let default = queue.definition.number_of(mq::MQIA_DEF_INPUT_OPEN_OPTION);
            let shareable = queue.definition.number_of(mq::MQIA_SHAREABILITY) == mq::MQQA_SHAREABLE;
            let exclusive = options & mq::MQOO_INPUT_EXCLUSIVE != 0
                || (options & mq::MQOO_INPUT_AS_Q_DEF != 0 && default == mq::MQOO_INPUT_EXCLUSIVE)
                || !shareable;
            if queue.exclusive || (exclusive && queue.inputs > 0) {
                return Err(Reason(mq::MQRC_OBJECT_IN_USE));
            }
            queue.exclusive = exclusive;
            queue.inputs += 1;
        }
        queue.outputs += usize::from(options & mq::MQOO_OUTPUT != 0);
        Ok(queue.id)
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
        let Ok(opened) = self.handle(session, handle) else {
            return Reply::failed(mq::MQRC_HOBJ_ERROR);
        };
        let (queue, opened_options) = (opened.queue.clone(), opened.options);
        let delete = options & (mq::MQCO_DELETE | mq::MQCO_DELETE_PURGE) != 0;
        let deletion = match &queue {
            Some((name, id)) => self.deletion(session, handle, (name, *id), options),
            None if delete => Err(Reason(mq::MQRC_OPTION_NOT_VALID_FOR_TYPE)),
            None => Ok(false),
        };
        let deletes = match deletion {
            Ok(deletes) => deletes,
            Err(Reason(reason)) => return Reply::failed(reason),
        };
        if let Ok(session) = self.session_mut(session) {
            session.handles.remove(&handle);
        }
        let Some((name, id)) = queue else { return Reply::ok(Answer::None) };
        if let Ok(queue) = self.opened_queue(&name, id) {
            if opened_options & INPUT != 0 {
                queue.inputs = queue.inputs.saturating_sub(1);
                queue.exclusive &= queue.inputs > 0;
            }
            let output = usize::from(opened_options & mq::MQOO_OUTPUT != 0);
            queue.outputs = queue.outputs.saturating_sub(output);
            if deletes {
                self.delete(&name);
            }
        }
        Reply::ok(Answer::None)
    }
}

fn handle(queue: Option<(Chars, u64)>, opened: Chars, options: i32, selector: Option<Selector>) -> Handle {
    Handle { queue, opened, is_manager: false, options, selector, cursor: None, locked: None, context: None }
}

fn check_options(options: i32, kind: Kind) -> Result<(), Reason> {
    let inputs = [mq::MQOO_INPUT_AS_Q_DEF, mq::MQOO_INPUT_SHARED, mq::MQOO_INPUT_EXCLUSIVE];
    let ways = inputs.iter().filter(|&&way| options & way != 0).count();
    let saves = options & mq::MQOO_SAVE_ALL_CONTEXT != 0 && options & INPUT == 0;
    let passes = options & (IDENTITY | CONTEXT) != 0 && options & mq::MQOO_OUTPUT == 0;
    let uses = options & (OF_QUEUES | mq::MQOO_INQUIRE) != 0;
    if ways > 1 || saves || passes || !uses {
        return Err(Reason(mq::MQRC_OPTIONS_ERROR));
    }
    // A model is opened for what it makes: a local queue.
    if kind == Kind::Remote && options & (INPUT | mq::MQOO_BROWSE) != 0 {
        return Err(Reason(mq::MQRC_OPTION_NOT_VALID_FOR_TYPE));
    }
    Ok(())
}

/// A remote queue can be inquired. There is no other queue manager to put to.
fn remote(options: i32) -> Result<Option<Chars>, Reason> {
    if options & (INPUT | mq::MQOO_BROWSE) != 0 {
        return Err(Reason(mq::MQRC_OPTION_NOT_VALID_FOR_TYPE));
    }
    if options & mq::MQOO_OUTPUT != 0 {
        return Err(Reason(mq::MQRC_UNKNOWN_REMOTE_Q_MGR));
    }
    Ok(None)
}

fn selector(open: &Open) -> Result<Option<Selector>, Reason> {
    let Some(text) = open.selection.as_deref().filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    if open.options & (INPUT | mq::MQOO_BROWSE) == 0 {
        return Ok(None);
    }
    Selector::parse(text).map(Some).ok_or(Reason(mq::MQRC_SELECTOR_SYNTAX_ERROR))
}
