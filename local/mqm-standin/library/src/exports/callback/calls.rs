//! The thread that gets messages and calls callbacks, and what it passes to them.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libmqm_sys as mq;
use mqm_standin::protocol::Reason;

use super::Callback;
use crate::connection::Connection;
use crate::consumption::{Ended, Outcome, Progress, Turn};
use crate::exports::get::get;
use crate::structures::field;

/// The calls of one connection's callbacks, from its start until it is stopped.
pub(super) struct Calls {
    pub(super) number: mq::MQHCONN,
    pub(super) connection: Arc<Connection>,
    pub(super) area: mq::MQPTR,
}

// SAFETY: the pointer is the caller's, who gave it to be passed to callbacks.
unsafe impl Send for Calls {}

impl Calls {
    /// Calls until the end. `stays` is false if the caller of MQCTL waits.
    pub(super) fn make(&self, stays: bool) -> Ended {
        let consumption = &self.connection.consumption;
        consumption.enter();
        self.say(mq::MQCBDO_START_CALL, mq::MQCBCT_START_CALL);
        let mut buffer = Vec::new();
        loop {
            let turn = match consumption.next(stays) {
                Ok(turn) => turn,
                Err(ended) => {
                    self.say(mq::MQCBDO_STOP_CALL, mq::MQCBCT_STOP_CALL);
                    if consumption.leave(ended) {
                        return ended;
                    }
                    continue;
                }
            };
            let mut progress = turn.progress;
            let outcome = self.deliver(&turn, &mut progress, &mut buffer);
            consumption.end(&turn, progress, outcome);
        }
    }

    /// Calls the callbacks that asked for it when consumption starts or stops.
    fn say(&self, option: mq::MQLONG, call: mq::MQLONG) {
        for (handle, callback) in self.connection.consumption.callbacks() {
            if callback.options & option != 0 {
                self.with_area(callback).say(self.number, handle, call);
            }
        }
    }

    fn with_area(&self, callback: Callback) -> Callback {
        Callback { connection_area: self.area, ..callback }
    }

    /// Gets a message if there is one, and calls the consumer with it, or with the reason why there
    /// will be none.
    fn deliver(&self, turn: &Turn<Callback>, progress: &mut Progress, buffer: &mut Vec<u8>) -> Outcome {
        let callback = self.with_area(turn.callback);
        let mut md = callback.descriptor;
        let mut gmo = callback.get;
        gmo.Options = callback.get_options(progress.has_browsed);
        if buffer.len() < callback.longest {
            *buffer = vec![0; callback.longest];
        }
        let mut length = 0;
        let room = u32::try_from(callback.longest).unwrap_or(u32::MAX);
        // SAFETY: descriptor and options are copies of structures of their versions, and the buffer
        // has that many bytes.
        let got = unsafe {
            let message = (room, buffer.as_mut_ptr().cast::<c_void>());
            get(self.number, turn.handle, (&raw mut md).cast(), &raw mut gmo, message, &raw mut length)
        };
        match got {
            Ok(warning) => {
                *progress = Progress { since: Instant::now(), told: None, has_browsed: true };
                let removed = warning != mq::MQRC_TRUNCATED_MSG_FAILED && !browses(gmo.Options);
                let call = if removed { mq::MQCBCT_MSG_REMOVED } else { mq::MQCBCT_MSG_NOT_REMOVED };
                let mut context = callback.context(turn.handle, call);
                context.Reason = warning;
                context.CompCode = if warning == mq::MQRC_NONE { mq::MQCC_OK } else { mq::MQCC_WARNING };
                context.DataLength = length;
                context.BufferLength = gmo.ReturnedLength;
                let parts = ((&raw mut md).cast(), (&raw mut gmo).cast(), buffer.as_mut_ptr().cast());
                callback.call(self.number, parts, &mut context);
                // It would look at the same message for ever.
                if warning == mq::MQRC_TRUNCATED_MSG_FAILED { Outcome::Suspend } else { Outcome::Delivered }
            }
            Err(reason) => self.tell(turn.handle, &callback, progress, reason),
        }
    }

    /// Tells a consumer once that it gets no message, and the event handler what ends them all.
    fn tell(
        &self,
        handle: mq::MQHOBJ,
        callback: &Callback,
        progress: &mut Progress,
        Reason(reason): Reason,
    ) -> Outcome {
        let outcome = match reason {
            mq::MQRC_NO_MSG_AVAILABLE | mq::MQRC_GET_INHIBITED | mq::MQRC_Q_MGR_QUIESCING => Outcome::Nothing,
            mq::MQRC_CONNECTION_BROKEN | mq::MQRC_Q_MGR_STOPPING => Outcome::Stop,
            _ => Outcome::Suspend,
        };
        let is_due = match callback.patience() {
            _ if reason != mq::MQRC_NO_MSG_AVAILABLE => progress.told != Some(reason),
            Patience::None => progress.told != Some(reason),
            Patience::For(wait) => progress.since.elapsed() >= wait,
            Patience::Unlimited => false,
        };
        if !is_due {
            return outcome;
        }
        *progress = Progress { since: Instant::now(), told: Some(reason), ..*progress };
        callback.event(self.number, handle, reason, outcome);
        if outcome == Outcome::Stop {
            for (other, callback) in self.connection.consumption.callbacks() {
                if other != handle {
                    self.with_area(callback).event(self.number, other, reason, outcome);
                }
            }
        } else if reason == mq::MQRC_Q_MGR_QUIESCING
            && let Some(handler) = self.connection.consumption.event_handler()
        {
            self.with_area(handler).event(self.number, mq::MQHO_NONE, reason, outcome);
        }
        outcome
    }
}

/// How long a consumer waits until it is told that there is no message.
enum Patience {
    None,
    For(Duration),
    Unlimited,
}

impl Callback {
    fn patience(&self) -> Patience {
        if self.get.Options & mq::MQGMO_WAIT == 0 {
            return Patience::None;
        }
        match u64::try_from(self.get.WaitInterval) {
            Ok(0) => Patience::None,
            Ok(wait) => Patience::For(Duration::from_millis(wait)),
            Err(_) => Patience::Unlimited,
        }
    }

    /// The options of one MQGET, which does not wait. After the first message of a queue comes the
    /// next one.
    fn get_options(&self, has_browsed: bool) -> mq::MQLONG {
        let options = self.get.Options & !mq::MQGMO_WAIT;
        if has_browsed && options & mq::MQGMO_BROWSE_FIRST != 0 {
            options & !mq::MQGMO_BROWSE_FIRST | mq::MQGMO_BROWSE_NEXT
        } else {
            options
        }
    }

    fn context(&self, object: mq::MQHOBJ, call: mq::MQLONG) -> mq::MQCBC {
        // SAFETY: numbers, characters and pointers may be zero.
        let zeros = unsafe { std::mem::zeroed() };
        mq::MQCBC {
            StrucId: field(&"CBC".into()),
            Version: mq::MQCBC_VERSION_2,
            CallType: call,
            Hobj: object,
            CallbackArea: self.area,
            ConnectionArea: self.connection_area,
            ..zeros
        }
    }

    fn call(
        &self,
        number: mq::MQHCONN,
        (md, gmo, buffer): (mq::PMQVOID, mq::PMQVOID, mq::PMQVOID),
        context: &mut mq::MQCBC,
    ) {
        (self.function)(number, md, gmo, buffer, context);
    }

    /// Calls without a message: consumption starts or stops, or this is registered or not.
    pub(super) fn say(&self, number: mq::MQHCONN, object: mq::MQHOBJ, call: mq::MQLONG) {
        self.without_message(number, &mut self.context(object, call));
    }

    pub(super) fn deregistered(&self, number: mq::MQHCONN, object: mq::MQHOBJ) {
        if self.options & mq::MQCBDO_DEREGISTER_CALL != 0 {
            self.say(number, object, mq::MQCBCT_DEREGISTER_CALL);
        }
    }

    fn event(&self, number: mq::MQHCONN, object: mq::MQHOBJ, reason: mq::MQLONG, outcome: Outcome) {
        let mut context = self.context(object, mq::MQCBCT_EVENT_CALL);
        context.CompCode = mq::MQCC_FAILED;
        context.Reason = reason;
        context.State = match outcome {
            Outcome::Delivered | Outcome::Nothing if reason == mq::MQRC_NO_MSG_AVAILABLE => mq::MQCS_NONE,
            Outcome::Delivered | Outcome::Nothing => mq::MQCS_SUSPENDED_TEMPORARY,
            Outcome::Suspend => mq::MQCS_SUSPENDED,
            Outcome::Stop => mq::MQCS_STOPPED,
        };
        self.without_message(number, &mut context);
    }

    fn without_message(&self, number: mq::MQHCONN, context: &mut mq::MQCBC) {
        let (mut md, mut gmo) = (self.descriptor, self.get);
        self.call(number, ((&raw mut md).cast(), (&raw mut gmo).cast(), null_mut()), context);
    }
}

fn browses(options: mq::MQLONG) -> bool {
    let browse = mq::MQGMO_BROWSE_FIRST | mq::MQGMO_BROWSE_NEXT | mq::MQGMO_BROWSE_MSG_UNDER_CURSOR;
    options & browse != 0
}
