//! The thread that gets messages and calls callbacks.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libmqm_sys as mq;
use mqm_standin::protocol::Reason;

use super::callback::Callback;
use super::consumption::{Outcome, Progress, Turn};
use crate::connection::Connection;
use crate::exports::get;
use crate::structures::field;

/// Makes the calls of one connection's callbacks, until it is stopped.
pub(super) fn make(number: mq::MQHCONN, connection: &Connection) {
    let callbacks = &connection.callbacks;
    // Callbacks may have asked to be called when consumption starts or stops.
    let tell = |option: mq::MQLONG, call: mq::MQLONG| {
        for (handle, callback) in callbacks.callbacks() {
            if callback.options & option != 0 {
                callback.tell(number, handle, call);
            }
        }
    };
    callbacks.enter();
    tell(mq::MQCBDO_START_CALL, mq::MQCBCT_START_CALL);
    let mut buffer = Vec::new();
    loop {
        if let Some(turn) = callbacks.next() {
            let mut progress = turn.progress;
            let outcome = deliver(number, connection, &turn, &mut progress, &mut buffer);
            callbacks.end(&turn, progress, outcome);
        } else {
            tell(mq::MQCBDO_STOP_CALL, mq::MQCBCT_STOP_CALL);
            if callbacks.leave() {
                return;
            }
        }
    }
}

/// Gets a message if there is one, and calls the consumer with it, or with the reason why there
/// will be none.
fn deliver(
    number: mq::MQHCONN,
    connection: &Connection,
    turn: &Turn<Callback>,
    progress: &mut Progress,
    buffer: &mut Vec<u8>,
) -> Outcome {
    let callback = turn.callback;
    let (mut md, mut gmo) = (callback.descriptor, callback.get);
    // No MQGET waits, and after the first message of a queue comes the next one.
    gmo.Options &= !mq::MQGMO_WAIT;
    if progress.has_browsed && gmo.Options & mq::MQGMO_BROWSE_FIRST != 0 {
        gmo.Options ^= mq::MQGMO_BROWSE_FIRST | mq::MQGMO_BROWSE_NEXT;
    }
    if buffer.len() < callback.longest {
        *buffer = vec![0; callback.longest];
    }
    let mut length = 0;
    let room = u32::try_from(callback.longest).unwrap_or(u32::MAX);
    // SAFETY: descriptor and options are copies of structures of their versions, and the buffer has
    // that many bytes.
    let got = unsafe {
        let message = (room, buffer.as_mut_ptr().cast::<c_void>());
        get(number, turn.handle, (&raw mut md).cast(), &raw mut gmo, message, &raw mut length)
    };
    let warning = match got {
        Ok(warning) => warning,
        Err(reason) => return failed(number, connection, turn, progress, reason),
    };
    *progress = Progress { since: Instant::now(), told: None, has_browsed: true };
    let browses = mq::MQGMO_BROWSE_FIRST | mq::MQGMO_BROWSE_NEXT | mq::MQGMO_BROWSE_MSG_UNDER_CURSOR;
    let stays = warning == mq::MQRC_TRUNCATED_MSG_FAILED || gmo.Options & browses != 0;
    let call = if stays { mq::MQCBCT_MSG_NOT_REMOVED } else { mq::MQCBCT_MSG_REMOVED };
    let mut context = callback.context(turn.handle, call);
    context.Reason = warning;
    context.CompCode = if warning == mq::MQRC_NONE { mq::MQCC_OK } else { mq::MQCC_WARNING };
    (context.DataLength, context.BufferLength) = (length, gmo.ReturnedLength);
    let (md, gmo, body) = ((&raw mut md).cast(), (&raw mut gmo).cast(), buffer.as_mut_ptr().cast());
    (callback.function)(number, md, gmo, body, &raw mut context);
    // A consumer with a short buffer would look at the same message for ever.
    if warning == mq::MQRC_TRUNCATED_MSG_FAILED { Outcome::Suspend } else { Outcome::Delivered }
}

/// Tells a consumer once that it gets no message, and all callbacks what ends them all.
fn failed(
    number: mq::MQHCONN,
    connection: &Connection,
    turn: &Turn<Callback>,
    progress: &mut Progress,
    Reason(reason): Reason,
) -> Outcome {
    let outcome = match reason {
        mq::MQRC_NO_MSG_AVAILABLE | mq::MQRC_GET_INHIBITED | mq::MQRC_Q_MGR_QUIESCING => Outcome::Nothing,
        mq::MQRC_CONNECTION_BROKEN | mq::MQRC_Q_MGR_STOPPING => Outcome::Stop,
        _ => Outcome::Suspend,
    };
    let get = &turn.callback.get;
    let waits = reason == mq::MQRC_NO_MSG_AVAILABLE && get.Options & mq::MQGMO_WAIT != 0;
    let is_due = match u64::try_from(get.WaitInterval) {
        Ok(wait @ 1..) if waits => progress.since.elapsed() >= Duration::from_millis(wait),
        Err(_) if waits => false,
        _ => progress.told != Some(reason),
    };
    if !is_due {
        return outcome;
    }
    *progress = Progress { since: Instant::now(), told: Some(reason), ..*progress };
    let ends_all = outcome == Outcome::Stop || reason == mq::MQRC_Q_MGR_QUIESCING;
    for (handle, callback) in connection.callbacks.callbacks() {
        let is_handler = handle == mq::MQHO_NONE;
        if handle == turn.handle || outcome == Outcome::Stop || (is_handler && ends_all) {
            let mut context = callback.context(handle, mq::MQCBCT_EVENT_CALL);
            (context.CompCode, context.Reason) = (mq::MQCC_FAILED, reason);
            callback.without_message(number, &mut context);
        }
    }
    outcome
}

impl Callback {
    fn context(&self, object: mq::MQHOBJ, call: mq::MQLONG) -> mq::MQCBC {
        // SAFETY: numbers, characters and pointers may be zero.
        let zeros = unsafe { std::mem::zeroed() };
        mq::MQCBC {
            StrucId: field(&"CBC".into()),
            Version: mq::MQCBC_VERSION_2,
            CallType: call,
            Hobj: object,
            CallbackArea: self.area,
            ..zeros
        }
    }

    /// Calls without a message, as consumption starts or stops, or the callback is deregistered.
    fn tell(&self, number: mq::MQHCONN, object: mq::MQHOBJ, call: mq::MQLONG) {
        self.without_message(number, &mut self.context(object, call));
    }

    pub(super) fn deregistered(&self, number: mq::MQHCONN, object: mq::MQHOBJ) {
        if self.options & mq::MQCBDO_DEREGISTER_CALL != 0 {
            self.tell(number, object, mq::MQCBCT_DEREGISTER_CALL);
        }
    }

    fn without_message(&self, number: mq::MQHCONN, context: &mut mq::MQCBC) {
        (self.function)(number, null_mut(), null_mut(), null_mut(), context);
    }
}
