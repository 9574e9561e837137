//! MQCB and MQCTL: callbacks, and the thread that gets messages for them.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libmqm_sys as mq;
use mqm_standin::protocol::Reason;

use super::answer;
use super::get::get;
use crate::connection::{self, Connection};
use crate::consumption::{Ended, Outcome, Progress, Turn};
use crate::structures::{Borrowed, bytes, field};

/// No message is longer: 100 MiB, the most that MAXMSGL can be. Pages that no message needs are
/// never touched.
const LONGEST: usize = 104_857_600;

/// MQCB_FUNCTION, without its demand that there are always options.
type Function = extern "C" fn(mq::MQHCONN, mq::PMQVOID, mq::PMQVOID, mq::PMQVOID, *mut mq::MQCBC);

/// What MQCB registers: a function of the caller's, and how to get messages for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callback {
    function: Function,
    area: mq::MQPTR,
    connection_area: mq::MQPTR,
    options: mq::MQLONG,
    longest: usize,
    descriptor: mq::MQMD,
    get: mq::MQGMO,
}

// SAFETY: the pointers in it are the caller's, who gave them to be used on the thread that calls
// the function.
unsafe impl Send for Callback {}

/// # Safety
///
/// As the MQI says: `descriptor` is an MQCBD whose function takes what the MQI passes, message
/// descriptor and options are an MQMD and an MQGMO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQCB(
    connection: mq::MQHCONN,
    operation: mq::MQLONG,
    descriptor: *mut mq::MQCBD,
    object: mq::MQHOBJ,
    message_descriptor: mq::PMQVOID,
    options: *mut mq::MQGMO,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let number = connection;
            let connection = connection::find(number)?;
            let consumption = &connection.consumption;
            let suspends = operation & mq::MQOP_SUSPEND != 0;
            match operation & !(mq::MQOP_SUSPEND | mq::MQOP_RESUME) {
                mq::MQOP_REGISTER => {
                    let (kind, callback) = read(descriptor, message_descriptor.cast(), options)?;
                    if kind == mq::MQCBT_EVENT_HANDLER {
                        consumption.handle_events(callback);
                    } else {
                        consumption.register(object, callback, suspends)?;
                    }
                    if callback.options & mq::MQCBDO_REGISTER_CALL != 0 {
                        callback.say(number, object, mq::MQCBCT_REGISTER_CALL);
                    }
                }
                mq::MQOP_DEREGISTER => {
                    consumption.deregister(object)?.deregistered(number, object);
                }
                0 if operation == mq::MQOP_SUSPEND || operation == mq::MQOP_RESUME => {
                    consumption.pause(object, suspends)?;
                }
                _ => return Err(Reason(mq::MQRC_OPERATION_ERROR)),
            }
            Ok(mq::MQRC_NONE)
        });
    }
}

/// Reads what is registered, and whether it is a message consumer or the event handler.
///
/// # Safety
///
/// As for [`MQCB`].
unsafe fn read(
    descriptor: *mut mq::MQCBD,
    md: *mut mq::MQMD,
    gmo: *mut mq::MQGMO,
) -> Result<(mq::MQLONG, Callback), Reason> {
    // SAFETY: the caller says so.
    let descriptor = unsafe { Borrowed::read(descriptor) }?.value;
    let kind = descriptor.CallbackType;
    if kind != mq::MQCBT_MESSAGE_CONSUMER && kind != mq::MQCBT_EVENT_HANDLER {
        return Err(Reason(mq::MQRC_CALLBACK_TYPE_ERROR));
    }
    let known = mq::MQCBDO_START_CALL
        | mq::MQCBDO_STOP_CALL
        | mq::MQCBDO_REGISTER_CALL
        | mq::MQCBDO_DEREGISTER_CALL
        | mq::MQCBDO_FAIL_IF_QUIESCING
        | mq::MQCBDO_EVENT_CALL
        | mq::MQCBDO_MC_EVENT_CALL;
    if descriptor.Options & !known != 0 {
        return Err(Reason(mq::MQRC_CBD_OPTIONS_ERROR));
    }
    let has_name = bytes(&descriptor.CallbackName).iter().any(|byte| !matches!(byte, 0 | b' '));
    if descriptor.CallbackFunction.is_null() != has_name {
        return Err(Reason(mq::MQRC_CALLBACK_ROUTINE_ERROR));
    }
    if has_name {
        // This library loads no others.
        return Err(Reason(mq::MQRC_CALLBACK_LINK_ERROR));
    }
    let longest = match descriptor.MaxMsgLength {
        mq::MQCBD_FULL_MSG_LENGTH => LONGEST,
        length => usize::try_from(length).map_err(|_| Reason(mq::MQRC_CBD_ERROR))?.min(LONGEST),
    };
    let consumes = kind == mq::MQCBT_MESSAGE_CONSUMER;
    let mut matched = empty_descriptor();
    if consumes && !md.is_null() {
        // SAFETY: the caller says so.
        let md = unsafe { Borrowed::read(md) }?.value;
        matched = mq::MQMD { Version: matched.Version, ..md };
    }
    let mut getting = empty_options();
    if consumes && !gmo.is_null() {
        // SAFETY: the caller says so.
        let gmo = unsafe { Borrowed::read(gmo) }?;
        let by_version =
            if gmo.version >= mq::MQGMO_VERSION_2 { gmo.value.MatchOptions } else { getting.MatchOptions };
        getting = mq::MQGMO { Version: getting.Version, MatchOptions: by_version, ..gmo.value };
    }
    let callback = Callback {
        // SAFETY: the caller says that it is a function of this kind.
        function: unsafe { transmute::<*mut c_void, Function>(descriptor.CallbackFunction) },
        area: descriptor.CallbackArea,
        connection_area: null_mut(),
        options: descriptor.Options,
        longest,
        descriptor: matched,
        get: getting,
    };
    Ok((kind, callback))
}

/// Callbacks get structures of the newest version, whatever version was registered.
fn empty_descriptor() -> mq::MQMD {
    // SAFETY: numbers and characters may be zero.
    let zeros = unsafe { std::mem::zeroed() };
    mq::MQMD { StrucId: field(&"MD".into()), Version: mq::MQMD_CURRENT_VERSION, ..zeros }
}

/// As for [`empty_descriptor`]. Version 1 matches by both ids.
fn empty_options() -> mq::MQGMO {
    // SAFETY: numbers, characters and pointers may be zero.
    let zeros = unsafe { std::mem::zeroed() };
    mq::MQGMO {
        StrucId: field(&"GMO".into()),
        Version: mq::MQGMO_CURRENT_VERSION,
        MatchOptions: mq::MQMO_MATCH_MSG_ID | mq::MQMO_MATCH_CORREL_ID,
        ..zeros
    }
}

/// Deregisters the callback of an object that was closed.
pub(super) fn closed(number: mq::MQHCONN, connection: &Connection, object: mq::MQHOBJ) {
    if let Some(callback) = connection.consumption.closed(object) {
        callback.deregistered(number, object);
    }
}

/// # Safety
///
/// As the MQI says: `options` is null or an MQCTLO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQCTL(
    connection: mq::MQHCONN,
    operation: mq::MQLONG,
    options: *mut mq::MQCTLO,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let number = connection;
            let connection = connection::find_to_control(number)?;
            let area =
                if options.is_null() { null_mut() } else { Borrowed::read(options)?.value.ConnectionArea };
            control(number, &connection, operation, area)
        });
    }
}

fn control(
    number: mq::MQHCONN,
    connection: &Arc<Connection>,
    operation: mq::MQLONG,
    area: mq::MQPTR,
) -> super::Ended {
    let consumption = &connection.consumption;
    match operation {
        mq::MQOP_START => {
            if consumption.start()? {
                let calls = Calls { number, connection: connection.clone(), area };
                std::thread::spawn(move || calls.make(true));
            }
        }
        mq::MQOP_START_WAIT => {
            if consumption.is_started() || !consumption.start()? {
                return Err(Reason(mq::MQRC_OPERATION_NOT_ALLOWED));
            }
            let calls = Calls { number, connection: connection.clone(), area };
            return Ok(match calls.make(false) {
                Ended::Stopped => mq::MQRC_NONE,
                Ended::Suspended => mq::MQRC_CONNECTION_SUSPENDED,
                Ended::NoCallbacks => mq::MQRC_NO_CALLBACKS_ACTIVE,
            });
        }
        mq::MQOP_STOP => consumption.stop(),
        mq::MQOP_SUSPEND => consumption.suspend()?,
        mq::MQOP_RESUME => consumption.resume()?,
        _ => return Err(Reason(mq::MQRC_OPERATION_ERROR)),
    }
    Ok(mq::MQRC_NONE)
}

/// The calls of one connection's callbacks, from its start until it is stopped.
struct Calls {
    number: mq::MQHCONN,
    connection: Arc<Connection>,
    area: mq::MQPTR,
}

// SAFETY: the pointer is the caller's, who gave it to be passed to callbacks.
unsafe impl Send for Calls {}

impl Calls {
    /// Calls until the end. `stays` is false if the caller of MQCTL waits.
    fn make(&self, stays: bool) -> Ended {
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
    fn say(&self, number: mq::MQHCONN, object: mq::MQHOBJ, call: mq::MQLONG) {
        self.without_message(number, &mut self.context(object, call));
    }

    fn deregistered(&self, number: mq::MQHCONN, object: mq::MQHOBJ) {
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
