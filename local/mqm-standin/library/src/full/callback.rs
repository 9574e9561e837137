//! MQCB and MQCTL.

use std::ffi::c_void;
use std::mem::transmute;

use libmqm_sys as mq;
use mqm_standin::protocol::Reason;

use super::calls;
use super::consumption::Consumption;
use crate::connection;
use crate::exports::verbs;
use crate::structures::{Borrowed, chars, field};

/// The longest message: 100 MiB, the most that MAXMSGL can be. Pages of a buffer that no message
/// needs are never touched.
const LONGEST: usize = 104_857_600;

/// The callbacks of a connection.
pub(crate) type Callbacks = Consumption<Callback>;

/// MQCB_FUNCTION, without its demand that there are always options.
pub(super) type Function = extern "C" fn(mq::MQHCONN, mq::PMQVOID, mq::PMQVOID, mq::PMQVOID, *mut mq::MQCBC);

/// A function of the caller's, and how to get messages for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callback {
    pub(super) function: Function,
    pub(super) area: mq::MQPTR,
    pub(super) options: mq::MQLONG,
    pub(super) longest: usize,
    pub(super) descriptor: mq::MQMD,
    pub(super) get: mq::MQGMO,
}

// SAFETY: the pointers in it are the caller's, who gave them to be used on the thread that calls
// the function.
unsafe impl Send for Callback {}

verbs! {
    /// Registers a callback, or deregisters it.
    fn MQCB(
        connection: mq::MQHCONN,
        operation: mq::MQLONG,
        descriptor: *mut mq::MQCBD,
        object: mq::MQHOBJ,
        message_descriptor: mq::PMQVOID,
        options: *mut mq::MQGMO,
    ) {
        let callbacks = &connection::find(connection)?.callbacks;
        match operation {
            mq::MQOP_REGISTER => {
                let (kind, callback) = read(descriptor, message_descriptor.cast(), options)?;
                let is_consumer = kind == mq::MQCBT_MESSAGE_CONSUMER;
                callbacks.register(if is_consumer { object } else { mq::MQHO_NONE }, callback)?;
            }
            mq::MQOP_DEREGISTER => callbacks.deregister(object)?.deregistered(connection, object),
            _ => return Err(Reason(mq::MQRC_OPERATION_ERROR)),
        }
        Ok(mq::MQRC_NONE)
    }

    /// Starts, stops, suspends or resumes the callbacks of a connection.
    fn MQCTL(connection: mq::MQHCONN, operation: mq::MQLONG, _options: *mut mq::MQCTLO) {
        let number = connection;
        let connection = connection::find_to_control(number)?;
        match operation {
            mq::MQOP_START => {
                if connection.callbacks.start()? {
                    std::thread::spawn(move || calls::make(number, &connection));
                }
            }
            mq::MQOP_STOP => connection.callbacks.stop(),
            mq::MQOP_SUSPEND => connection.callbacks.suspend()?,
            mq::MQOP_RESUME => connection.callbacks.resume()?,
            _ => return Err(Reason(mq::MQRC_OPERATION_ERROR)),
        }
        Ok(mq::MQRC_NONE)
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
        | mq::MQCBDO_DEREGISTER_CALL
        | mq::MQCBDO_FAIL_IF_QUIESCING;
    if descriptor.Options & !known != 0 {
        return Err(Reason(mq::MQRC_CBD_OPTIONS_ERROR));
    }
    // This library loads no others, which have names.
    if !chars(&descriptor.CallbackName).is_blank() || descriptor.CallbackFunction.is_null() {
        return Err(Reason(mq::MQRC_CALLBACK_ROUTINE_ERROR));
    }
    let longest = match descriptor.MaxMsgLength {
        mq::MQCBD_FULL_MSG_LENGTH => LONGEST,
        length => usize::try_from(length).map_err(|_| Reason(mq::MQRC_CBD_ERROR))?.min(LONGEST),
    };
    // Callbacks get structures of the newest version, whatever version was registered.
    // SAFETY: numbers, characters and pointers may be zero.
    let (mut matched, mut get): (mq::MQMD, mq::MQGMO) = unsafe { std::mem::zeroed() };
    get.MatchOptions = mq::MQMO_MATCH_MSG_ID | mq::MQMO_MATCH_CORREL_ID;
    if kind == mq::MQCBT_MESSAGE_CONSUMER {
        // SAFETY: the caller says so.
        let (md, gmo) = unsafe { (Borrowed::read(md)?, Borrowed::read(gmo)?) };
        let by_version = if gmo.version >= mq::MQGMO_VERSION_2 { &gmo.value } else { &get };
        (matched, get) = (md.value, mq::MQGMO { MatchOptions: by_version.MatchOptions, ..gmo.value });
    }
    (matched.StrucId, matched.Version) = (field(&"MD".into()), mq::MQMD_CURRENT_VERSION);
    (get.StrucId, get.Version) = (field(&"GMO".into()), mq::MQGMO_CURRENT_VERSION);
    let callback = Callback {
        // SAFETY: the caller says that it is a function of this kind.
        function: unsafe { transmute::<*mut c_void, Function>(descriptor.CallbackFunction) },
        area: descriptor.CallbackArea,
        options: descriptor.Options,
        longest,
        descriptor: matched,
        get,
    };
    Ok((kind, callback))
}

impl Callbacks {
    /// Deregisters the callback of an object that was closed.
    pub(crate) fn closed(&self, connection: mq::MQHCONN, object: mq::MQHOBJ) {
        if let Some(callback) = self.forget(object) {
            callback.deregistered(connection, object);
        }
    }
}
