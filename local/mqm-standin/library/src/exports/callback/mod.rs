//! MQCB and MQCTL: callbacks, and the thread that gets messages for them.

mod calls;

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::Arc;

use libmqm_sys as mq;
use mqm_standin::protocol::Reason;

use self::calls::Calls;
use super::answer;
use crate::connection::{self, Connection};
use crate::consumption::Ended;
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
