//! MQGET: find, wait, browse, lock, cut.

use std::time::{Duration, Instant};

use libmqm_sys as mq;

use super::queue::{Hold, Place, Queue, Search, token};
use super::session::{Handle, Work, WorkKind};
use super::state::State;
use super::{HasGone, Manager, convert};
use crate::protocol::{Answer, Chars, Get, Got, Message, Reason, Reply};

const BROWSES: i32 = mq::MQGMO_BROWSE_FIRST | mq::MQGMO_BROWSE_NEXT | mq::MQGMO_BROWSE_MSG_UNDER_CURSOR;
const INPUT: i32 = mq::MQOO_INPUT_AS_Q_DEF | mq::MQOO_INPUT_SHARED | mq::MQOO_INPUT_EXCLUSIVE;

/// Options that the stand-in does not carry out: groups and segments put together by the queue
/// manager, marks of browsing, signals.
const ELSEWHERE: i32 = mq::MQGMO_LOGICAL_ORDER
    | mq::MQGMO_COMPLETE_MSG
    | mq::MQGMO_ALL_MSGS_AVAILABLE
    | mq::MQGMO_ALL_SEGMENTS_AVAILABLE
    | mq::MQGMO_MARK_BROWSE_HANDLE
    | mq::MQGMO_MARK_BROWSE_CO_OP
    | mq::MQGMO_UNMARK_BROWSE_CO_OP
    | mq::MQGMO_UNMARK_BROWSE_HANDLE
    | mq::MQGMO_UNMARKED_BROWSE_MSG
    | mq::MQGMO_MARK_SKIP_BACKOUT
    | mq::MQGMO_SET_SIGNAL;

/// How often a waiting get looks whether its caller is still there.
const LOOK: Duration = Duration::from_millis(200);

/// A message as a get wants it.
struct Shaped {
    message: Message,
    /// The length of the body before its conversion.
    length: usize,
    warning: Option<i32>,
}

impl Get {
    fn has_room_for(&self, message: &Message) -> bool {
        u32::try_from(message.body.len()).is_ok_and(|length| length <= self.buffer_length)
    }
}

impl Manager {
    pub(super) fn get(&self, session: u64, get: &Get, has_gone: HasGone<'_>) -> Reply {
        let waits = get.options & mq::MQGMO_WAIT != 0;
        if waits && get.wait < 0 && get.wait != mq::MQWI_UNLIMITED {
            return Reply::failed(mq::MQRC_WAIT_INTERVAL_ERROR);
        }
        let wait = u64::try_from(get.wait).ok().filter(|_| waits);
        let deadline = wait.map(|wait| Instant::now() + Duration::from_millis(wait));
        let mut state = self.state();
        loop {
            let found = state.get(session, get);
            let (reason, queue) = match found {
                Ok(reply) => return reply,
                Err(Reason(reason)) => (reason, state.handle(session, get.handle).ok()),
            };
            let can_come = reason == mq::MQRC_NO_MSG_AVAILABLE && waits;
            let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            let queue = queue.and_then(|handle| handle.queue.clone());
            let changed = queue.and_then(|(name, _)| Some(state.queues.get(&name)?.changed.clone()));
            let Some(changed) = changed.filter(|_| can_come && !left.is_zero()) else {
                return Reply::failed(reason);
            };
            let slice = left.min(LOOK);
            state =
                changed.wait_timeout(state, slice).map_or_else(|error| error.into_inner().0, |woken| woken.0);
            // Nothing may be taken off a queue for a caller that is not there any more.
            if has_gone() {
                return Reply::failed(mq::MQRC_CONNECTION_BROKEN);
            }
        }
    }
}

impl State {
    fn get(&mut self, session: u64, get: &Get) -> Result<Reply, Reason> {
        self.check_phase(get.options & mq::MQGMO_FAIL_IF_QUIESCING != 0)?;
        check_options(get)?;
        let handle = self.handle(session, get.handle)?;
        check_handle(handle, get.options)?;
        let through = handle.opened.clone();
        let (name, id) = handle.queue.clone().ok_or(Reason(mq::MQRC_NOT_OPEN_FOR_INPUT))?;
        if get.options & mq::MQGMO_UNLOCK != 0 {
            let is_locked = handle.locked.is_some();
            self.unlock(session, get.handle);
            let reply = Reply::warning(mq::MQRC_NO_MSG_LOCKED, Answer::None);
            return Ok(if is_locked { Reply::ok(Answer::None) } else { reply });
        }
        self.opened_queue(&name, id)?;
        for name in [&through, &name] {
            if self.definition(name)?.number_of(mq::MQIA_INHIBIT_GET) == mq::MQQA_GET_INHIBITED {
                return Err(Reason(mq::MQRC_GET_INHIBITED));
            }
        }
        if get.options & BROWSES != 0 && get.options & mq::MQGMO_BROWSE_MSG_UNDER_CURSOR == 0 {
            // Any browse gives up the lock of the one before.
            self.unlock(session, get.handle);
        }
        self.expire(&name);
        let place = self.look(session, get, &name)?;
        let holder = Hold::Locked(session, get.handle);
        let queue = self.opened_queue(&name, id)?;
        let stored = queue.get(place, holder).ok_or(Reason(mq::MQRC_NO_MSG_UNDER_CURSOR))?;
        let control = queue.definition.number_of(mq::MQIA_PROPERTY_CONTROL);
        let mut message = stored.message.clone();
        if let Some(at) = stored.expires {
            let left = at.saturating_sub(crate::clock::now()) / 100;
            message.descriptor.expiry = i32::try_from(left).unwrap_or(i32::MAX).max(1);
        }
        let shaped = self.shape(get, message, control)?;
        self.deliver(session, get, (name, id, place), shaped)
    }

    /// The message as this get wants it: properties where they belong, and converted.
    fn shape(&self, get: &Get, message: Message, control: i32) -> Result<Shaped, Reason> {
        let message = crate::properties::arrange(message, get, control)?;
        let length = message.body.len();
        let shaped = |message, warning| Ok(Shaped { message, length, warning });
        let may_be_cut = get.options & mq::MQGMO_ACCEPT_TRUNCATED_MSG != 0;
        // A message that stays on the queue is not converted.
        if get.options & mq::MQGMO_CONVERT == 0 || (!get.has_room_for(&message) && !may_be_cut) {
            return shaped(message, None);
        }
        let ccsid = match get.ccsid {
            mq::MQCCSI_Q_MGR | mq::MQCCSI_APPL => self.configuration.ccsid,
            ccsid => ccsid,
        };
        match convert::convert(&message, ccsid, get.encoding) {
            Ok(Some(converted)) if get.has_room_for(&converted) || may_be_cut => shaped(converted, None),
            // Before the conversion it fits, so it is got.
            Ok(Some(_)) => shaped(message, Some(mq::MQRC_CONVERTED_MSG_TOO_BIG)),
            Ok(None) => shaped(message, None),
            Err(Reason(reason)) => shaped(message, Some(reason)),
        }
    }

    /// Which message this get is about.
    fn look(&self, session: u64, get: &Get, name: &Chars) -> Result<Place, Reason> {
        let handle = self.handle(session, get.handle)?;
        let queue = self.queues.get(name).ok_or(Reason(mq::MQRC_Q_DELETED))?;
        let under_cursor = mq::MQGMO_BROWSE_MSG_UNDER_CURSOR | mq::MQGMO_MSG_UNDER_CURSOR;
        if get.options & under_cursor != 0 {
            let holder = Hold::Locked(session, get.handle);
            let there = |place: &Place| queue.get(*place, holder).is_some();
            return handle.cursor.filter(there).ok_or(Reason(mq::MQRC_NO_MSG_UNDER_CURSOR));
        }
        let search = Search {
            by: &get.match_by,
            selector: handle.selector.as_ref(),
            after: handle.cursor.filter(|_| get.options & mq::MQGMO_BROWSE_NEXT != 0),
            now: crate::clock::now(),
        };
        queue.find(&search).ok_or(Reason(mq::MQRC_NO_MSG_AVAILABLE))
    }

    /// Cuts the message to the buffer and, if it counts as read, moves the cursor or takes it.
    fn deliver(
        &mut self,
        session: u64,
        get: &Get,
        (name, id, place): (Chars, u64, Place),
        Shaped { mut message, length, warning }: Shaped,
    ) -> Result<Reply, Reason> {
        let is_cut = !get.has_room_for(&message);
        let full_length = if is_cut { length } else { message.body.len() };
        let full_length = u32::try_from(full_length).unwrap_or(u32::MAX);
        let counts = !is_cut || get.options & mq::MQGMO_ACCEPT_TRUNCATED_MSG != 0;
        if counts {
            let in_unit = get.options & mq::MQGMO_SYNCPOINT != 0
                || (get.options & mq::MQGMO_SYNCPOINT_IF_PERSISTENT != 0 && message.is_persistent());
            if get.options & BROWSES != 0 {
                self.browsed(session, get, (&name, id, place))?;
            } else {
                self.taken(session, get.handle, (&name, id, place), in_unit)?;
                self.handle_mut(session, get.handle)?.context =
                    Some((message.descriptor.identity.clone(), message.descriptor.origin.clone()));
            }
        }
        message.body.truncate(usize::try_from(get.buffer_length).unwrap_or(usize::MAX));
        let got = Got { message, full_length, token: token(place), resolved_queue: name };
        let answer = Answer::Got(Box::new(got));
        Ok(match (is_cut, counts, warning) {
            (true, true, _) => Reply::warning(mq::MQRC_TRUNCATED_MSG_ACCEPTED, answer),
            (true, false, _) => Reply::warning(mq::MQRC_TRUNCATED_MSG_FAILED, answer),
            (false, _, Some(reason)) => Reply::warning(reason, answer),
            (false, _, None) => Reply::ok(answer),
        })
    }

    fn browsed(
        &mut self,
        session: u64,
        get: &Get,
        (name, id, place): (&Chars, u64, Place),
    ) -> Result<(), Reason> {
        let locks = get.options & mq::MQGMO_LOCK != 0;
        if locks {
            let hold = Hold::Locked(session, get.handle);
            self.opened_queue(name, id)?.hold(place, hold, hold);
        }
        let handle = self.handle_mut(session, get.handle)?;
        handle.cursor = Some(place);
        if locks {
            handle.locked = Some(place);
        }
        Ok(())
    }

    fn taken(
        &mut self,
        session: u64,
        handle: i32,
        (name, id, place): (&Chars, u64, Place),
        in_unit: bool,
    ) -> Result<(), Reason> {
        let holder = Hold::Locked(session, handle);
        if in_unit {
            self.join_unit(session, Work { queue: name.clone(), id, place, kind: WorkKind::Get })?;
            self.opened_queue(name, id)?.hold(place, holder, Hold::Got(session));
        } else {
            let stored = self.opened_queue(name, id)?.take(place, holder);
            if let Some(stored) = stored {
                self.forget(name, &[(place, stored)]);
                self.tidy_journal();
            }
        }
        let handle = self.handle_mut(session, handle)?;
        if handle.locked == Some(place) {
            handle.locked = None;
        }
        Ok(())
    }
}

fn check_options(get: &Get) -> Result<(), Reason> {
    let options = get.options;
    if options & ELSEWHERE != 0 {
        return Err(Reason(mq::MQRC_OPTION_ENVIRONMENT_ERROR));
    }
    if options & mq::MQGMO_PROPERTIES_IN_HANDLE != 0 && !get.takes_properties {
        return Err(Reason(mq::MQRC_HMSG_ERROR));
    }
    let units = mq::MQGMO_SYNCPOINT | mq::MQGMO_NO_SYNCPOINT | mq::MQGMO_SYNCPOINT_IF_PERSISTENT;
    let places = BROWSES | mq::MQGMO_MSG_UNDER_CURSOR;
    let browses = options & BROWSES != 0;
    let wrong = (options & units).count_ones() > 1
        || (options & places).count_ones() > 1
        || (browses && options & (mq::MQGMO_SYNCPOINT | mq::MQGMO_SYNCPOINT_IF_PERSISTENT) != 0)
        || (options & mq::MQGMO_LOCK != 0 && !browses)
        || (options & mq::MQGMO_UNLOCK != 0
            && options & (places | mq::MQGMO_LOCK | mq::MQGMO_SYNCPOINT) != 0);
    if wrong { Err(Reason(mq::MQRC_OPTIONS_ERROR)) } else { Ok(()) }
}

fn check_handle(handle: &Handle, options: i32) -> Result<(), Reason> {
    if options & (BROWSES | mq::MQGMO_UNLOCK) != 0 {
        if !handle.has(mq::MQOO_BROWSE) {
            return Err(Reason(mq::MQRC_NOT_OPEN_FOR_BROWSE));
        }
    } else if !handle.has(INPUT) {
        return Err(Reason(mq::MQRC_NOT_OPEN_FOR_INPUT));
    } else if options & mq::MQGMO_MSG_UNDER_CURSOR != 0 && !handle.has(mq::MQOO_BROWSE) {
        return Err(Reason(mq::MQRC_NOT_OPEN_FOR_BROWSE));
    }
    Ok(())
}

impl Queue {
    /// Wakes everybody who waits on this queue, to look again.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }
}
