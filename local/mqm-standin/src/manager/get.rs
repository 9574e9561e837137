//! MQGET: finding, waiting for, browsing, locking and truncating a message.

use std::time::{Duration, Instant};

use libmqm_sys as mq;

use super::queue::{Hold, QueuePlace};
use super::session::{Handle, Work};
use super::state::State;
use super::{HasGone, Manager, convert, open};
use crate::protocol::{Answer, Chars, Get, Got, Message, Reason, Reply};
use crate::text::UTF_8;

const BROWSES: i32 = mq::MQGMO_BROWSE_FIRST | mq::MQGMO_BROWSE_NEXT | mq::MQGMO_BROWSE_MSG_UNDER_CURSOR;

/// Options of MQGET that the stand-in supports. It does not assemble groups or segments, mark
/// browsed messages, or send signals.
const KNOWN: i32 = BROWSES
    | mq::MQGMO_WAIT
    | mq::MQGMO_SYNCPOINT
    | mq::MQGMO_NO_SYNCPOINT
    | mq::MQGMO_FAIL_IF_QUIESCING
    | mq::MQGMO_ACCEPT_TRUNCATED_MSG
    | mq::MQGMO_CONVERT
    | mq::MQGMO_MSG_UNDER_CURSOR
    | mq::MQGMO_LOCK
    | mq::MQGMO_UNLOCK
    | mq::MQGMO_PROPERTIES_IN_HANDLE
    | mq::MQGMO_NO_PROPERTIES;

/// Interval at which a waiting get checks whether its caller is still connected.
const LOOK: Duration = Duration::from_millis(200);

/// Message in the form in which a get returns it: converted, and with properties only if the caller
/// has a handle for them.
struct Shaped {
    message: Message,
    /// Length of the body before its conversion, in bytes.
    length: usize,
    warning: i32,
}

impl Get {
    fn has(&self, option: i32) -> bool {
        self.options & option != 0
    }

    fn has_room_for(&self, message: &Message) -> bool {
        u32::try_from(message.body.len()).is_ok_and(|length| length <= self.buffer_length)
    }
}

impl Manager {
    pub(super) fn get(&self, session: u64, get: &Get, has_gone: HasGone<'_>) -> Reply {
        let waits = get.has(mq::MQGMO_WAIT);
        if waits && get.wait < 0 && get.wait != mq::MQWI_UNLIMITED {
            return Err(Reason(mq::MQRC_WAIT_INTERVAL_ERROR));
        }
        let wait = u64::try_from(get.wait).ok().filter(|_| waits);
        let deadline = wait.map(|wait| Instant::now() + Duration::from_millis(wait));
        let mut state = self.state();
        loop {
            let found = state.get(session, get);
            let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if !waits || left.is_zero() || found != Err(Reason(mq::MQRC_NO_MSG_AVAILABLE)) {
                return found;
            }
            let queue = state.handle(session, get.handle)?.queue.clone();
            let changed = state.queue(&queue.ok_or(Reason(mq::MQRC_Q_DELETED))?)?.changed.clone();
            let woken = changed.wait_timeout(state, left.min(LOOK));
            state = woken.map_or_else(|error| error.into_inner().0, |woken| woken.0);
            // Nothing may be taken off a queue for a caller that is not there any more.
            if has_gone() {
                return Err(Reason(mq::MQRC_CONNECTION_BROKEN));
            }
        }
    }
}

impl State {
    fn get(&mut self, session: u64, get: &Get) -> Reply {
        self.check_phase(get.has(mq::MQGMO_FAIL_IF_QUIESCING))?;
        check_options(get)?;
        let handle = self.handle(session, get.handle)?;
        check_handle(handle, get)?;
        let through = handle.opened.clone();
        let base = handle.queue.clone().ok_or(Reason(mq::MQRC_NOT_OPEN_FOR_INPUT))?;
        if get.has(mq::MQGMO_UNLOCK) {
            let warning = if handle.locked.is_some() { mq::MQRC_NONE } else { mq::MQRC_NO_MSG_LOCKED };
            self.unlock(session, get.handle);
            return Ok((Answer::None, warning));
        }
        self.queue(&base)?;
        for name in [&through, &base] {
            if self.definition(name)?.get_inhibited {
                return Err(Reason(mq::MQRC_GET_INHIBITED));
            }
        }
        if get.has(mq::MQGMO_BROWSE_FIRST | mq::MQGMO_BROWSE_NEXT) {
            // Any browse gives up the lock of the one before.
            self.unlock(session, get.handle);
        }
        self.expire(&base);
        let place = self.look(session, get, &base)?;
        let stored = self.queue(&base)?.get(place, Hold::Locked(session, get.handle));
        let stored = stored.ok_or(Reason(mq::MQRC_NO_MSG_UNDER_CURSOR))?;
        let mut message = stored.message.clone();
        if let Some(at) = stored.expires {
            let left = at.saturating_sub(crate::clock::now()) / 100;
            message.descriptor.expiry = i32::try_from(left).unwrap_or(i32::MAX).max(1);
        }
        let shaped = shape(get, message);
        self.deliver(session, get, &base, place, shaped)
    }

    /// Returns the position of the message that a get selects by cursor, ids or selection string.
    fn look(&self, session: u64, get: &Get, name: &Chars) -> Result<QueuePlace, Reason> {
        let handle = self.handle(session, get.handle)?;
        let queue = self.queues.get(name).ok_or(Reason(mq::MQRC_Q_DELETED))?;
        if get.has(mq::MQGMO_BROWSE_MSG_UNDER_CURSOR | mq::MQGMO_MSG_UNDER_CURSOR) {
            let holder = Hold::Locked(session, get.handle);
            let there = |place: &QueuePlace| queue.get(*place, holder).is_some();
            return handle.cursor.filter(there).ok_or(Reason(mq::MQRC_NO_MSG_UNDER_CURSOR));
        }
        let after = handle.cursor.filter(|_| get.has(mq::MQGMO_BROWSE_NEXT));
        let found = queue.find(&get.match_by, handle.selector.as_ref(), after);
        found.ok_or(Reason(mq::MQRC_NO_MSG_AVAILABLE))
    }

    /// Returns the message, truncated to the caller's buffer. If it fits or truncation is accepted,
    /// a browse moves the cursor to the message, and a get removes it from the queue, or holds it
    /// until the commit.
    fn deliver(
        &mut self,
        session: u64,
        get: &Get,
        name: &Chars,
        place: QueuePlace,
        Shaped { mut message, length, warning }: Shaped,
    ) -> Reply {
        let is_cut = !get.has_room_for(&message);
        let counts = !is_cut || get.has(mq::MQGMO_ACCEPT_TRUNCATED_MSG);
        if counts && get.has(BROWSES) {
            self.browsed(session, get, name, place)?;
        } else if counts {
            self.taken(session, get, name, place)?;
            self.handle_mut(session, get.handle)?.context = Some(message.descriptor.context.clone());
        }
        let full_length = if is_cut { length } else { message.body.len() };
        let full_length = u32::try_from(full_length).unwrap_or(u32::MAX);
        message.body.truncate(usize::try_from(get.buffer_length).unwrap_or(usize::MAX));
        let warning = match (is_cut, counts) {
            (true, true) => mq::MQRC_TRUNCATED_MSG_ACCEPTED,
            (true, false) => mq::MQRC_TRUNCATED_MSG_FAILED,
            (false, _) => warning,
        };
        Ok((Answer::Got(Box::new(Got { message, full_length })), warning))
    }

    fn browsed(&mut self, session: u64, get: &Get, name: &Chars, place: QueuePlace) -> Result<(), Reason> {
        let locks = get.has(mq::MQGMO_LOCK);
        if locks {
            let hold = Hold::Locked(session, get.handle);
            self.queue(name)?.hold(place, hold, hold);
        }
        let handle = self.handle_mut(session, get.handle)?;
        handle.cursor = Some(place);
        handle.locked = if locks { Some(place) } else { handle.locked };
        Ok(())
    }

    fn taken(&mut self, session: u64, get: &Get, name: &Chars, place: QueuePlace) -> Result<(), Reason> {
        let holder = Hold::Locked(session, get.handle);
        if get.has(mq::MQGMO_SYNCPOINT) {
            self.join_unit(session, Work { queue: name.clone(), place, is_put: false })?;
            self.queue(name)?.hold(place, holder, Hold::Got);
        } else if let Some(stored) = self.queue(name)?.take(place, holder) {
            self.forget(name, &[(place, stored)]);
            self.tidy_journal();
        }
        let handle = self.handle_mut(session, get.handle)?;
        handle.locked = handle.locked.filter(|locked| *locked != place);
        Ok(())
    }
}

/// Brings a message into the form in which the get returns it: converts its text if asked to, and
/// removes the properties if the caller has no message handle.
fn shape(get: &Get, mut message: Message) -> Shaped {
    if !get.takes_properties {
        message.properties.clear();
    }
    let length = message.body.len();
    let shaped = |message, warning| Shaped { message, length, warning };
    let may_be_cut = get.has(mq::MQGMO_ACCEPT_TRUNCATED_MSG);
    // A message that stays on the queue is not converted.
    if !get.has(mq::MQGMO_CONVERT) || (!get.has_room_for(&message) && !may_be_cut) {
        return shaped(message, mq::MQRC_NONE);
    }
    let ccsid = match get.ccsid {
        mq::MQCCSI_Q_MGR | mq::MQCCSI_APPL => UTF_8,
        ccsid => ccsid,
    };
    match convert::convert(&message, ccsid) {
        Ok(Some(converted)) if get.has_room_for(&converted) || may_be_cut => shaped(converted, mq::MQRC_NONE),
        // Before the conversion it fits, so it is got.
        Ok(Some(_)) => shaped(message, mq::MQRC_CONVERTED_MSG_TOO_BIG),
        Ok(None) => shaped(message, mq::MQRC_NONE),
        Err(Reason(reason)) => shaped(message, reason),
    }
}

fn check_options(get: &Get) -> Result<(), Reason> {
    if get.has(!KNOWN) {
        return Err(Reason(mq::MQRC_OPTION_ENVIRONMENT_ERROR));
    }
    if get.has(mq::MQGMO_PROPERTIES_IN_HANDLE) && !get.takes_properties {
        return Err(Reason(mq::MQRC_HMSG_ERROR));
    }
    let several = |options: i32| (get.options & options).count_ones() > 1;
    let places = BROWSES | mq::MQGMO_MSG_UNDER_CURSOR;
    let wrong = several(mq::MQGMO_SYNCPOINT | mq::MQGMO_NO_SYNCPOINT)
        || several(mq::MQGMO_PROPERTIES_IN_HANDLE | mq::MQGMO_NO_PROPERTIES)
        || several(places)
        || (get.has(BROWSES) && get.has(mq::MQGMO_SYNCPOINT))
        || (get.has(mq::MQGMO_LOCK) && !get.has(BROWSES))
        || (get.has(mq::MQGMO_UNLOCK) && get.has(places | mq::MQGMO_LOCK | mq::MQGMO_SYNCPOINT));
    if wrong { Err(Reason(mq::MQRC_OPTIONS_ERROR)) } else { Ok(()) }
}

fn check_handle(handle: &Handle, get: &Get) -> Result<(), Reason> {
    let for_browse = BROWSES | mq::MQGMO_UNLOCK | mq::MQGMO_MSG_UNDER_CURSOR;
    let for_input = !get.has(BROWSES | mq::MQGMO_UNLOCK);
    if for_input && !handle.has(open::INPUT) {
        Err(Reason(mq::MQRC_NOT_OPEN_FOR_INPUT))
    } else if get.has(for_browse) && !handle.has(mq::MQOO_BROWSE) {
        Err(Reason(mq::MQRC_NOT_OPEN_FOR_BROWSE))
    } else {
        Ok(())
    }
}
