//! Functions of the MQI that clients call, with C linkage. Each trusts its caller as IBM's library
//! does: a pointer is null or points to the structure that the MQI requires.
#![allow(unsafe_code)]
// C finds them by their names, not by their paths.
#![allow(unreachable_pub)]

mod connect;
mod get;
mod object;
mod property;
mod put;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libmqm_sys as mq;
use mqm_standin::protocol::Reason;

/// Result of a call of the MQI: the reason code of a success or a warning, or that of a failure.
pub(crate) type Ended = Result<i32, Reason>;

/// Defines functions of the MQI with their C signatures. Each ends with pointers to a completion
/// code and a reason code. A body returns [`Ended`].
macro_rules! verbs {
    ($($(#[$doc:meta])* fn $verb:ident($($name:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// Pointers are null, or point to the structures and buffers that the MQI requires.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $verb(
            $($name: $type,)*
            completion: *mut libmqm_sys::MQLONG,
            reason: *mut libmqm_sys::MQLONG,
        ) {
            // SAFETY: the caller keeps to the MQI.
            unsafe { $crate::exports::answer(completion, reason, || $body) }
        }
    )*};
}

pub(crate) use verbs;

/// Defines functions of the MQI that clients look up when they load the library, but that the
/// gateway does not call. A call ends the process: without the function's signature, the stand-in
/// cannot report an error code.
macro_rules! absent {
    ($($verb:ident)*) => {$(
        /// Ends the process, because the stand-in does not implement this function of the MQI.
        #[unsafe(no_mangle)]
        pub extern "C" fn $verb() {
            end(stringify!($verb));
        }
    )*};
}

/// Ends the process, because the program called a function of the MQI that the stand-in does not
/// implement.
fn end(verb: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "the stand-in for IBM MQ has no {verb}");
    std::process::abort()
}

absent! {
    MQBEGIN MQBUFMH MQCB MQCONN MQCTL MQDLTMP MQMHBUF MQPUT1 MQSET MQSTAT MQSUB MQSUBRQ MQXCNVC
}

/// Runs the body of an MQI function, and writes its completion code and reason code. A panic in the
/// body is caught, since it must not unwind into C.
///
/// # Safety
///
/// `completion` and `reason` are null or may be written.
pub(crate) unsafe fn answer(
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
    call: impl FnOnce() -> Ended,
) {
    let ended = catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(Reason(mq::MQRC_UNEXPECTED_ERROR)));
    let (code, why) = match ended {
        Ok(mq::MQRC_NONE) => (mq::MQCC_OK, mq::MQRC_NONE),
        Ok(warning) => (mq::MQCC_WARNING, warning),
        Err(Reason(reason)) => (mq::MQCC_FAILED, reason),
    };
    // SAFETY: the caller says so.
    unsafe {
        set(completion, code);
        set(reason, why);
    }
}

/// Writes a value to a location in the caller's memory, unless the pointer is null.
///
/// # Safety
///
/// `place` is null or may be written.
pub(crate) unsafe fn set<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller says so.
        unsafe { place.write_unaligned(value) };
    }
}

/// Reads a value from the caller's memory. Returns `default` if the pointer is null.
///
/// # Safety
///
/// `place` is null or may be read.
pub(crate) unsafe fn get_or<T: Copy>(place: *const T, default: T) -> T {
    if place.is_null() {
        return default;
    }
    // SAFETY: the caller says so.
    unsafe { place.read_unaligned() }
}

/// Returns a copy of the bytes in the caller's buffer.
///
/// # Safety
///
/// `buffer` is null or has `length` bytes.
pub(crate) unsafe fn data(buffer: mq::PMQVOID, length: mq::MQLONG) -> Result<Vec<u8>, Reason> {
    let length = usize::try_from(length).map_err(|_| Reason(mq::MQRC_BUFFER_LENGTH_ERROR))?;
    if length == 0 {
        return Ok(Vec::new());
    }
    if buffer.is_null() {
        return Err(Reason(mq::MQRC_BUFFER_ERROR));
    }
    // SAFETY: the caller says so.
    Ok(unsafe { std::slice::from_raw_parts(buffer.cast_const().cast(), length) }.to_vec())
}

/// Writes as many of the bytes as fit into the caller's buffer.
///
/// # Safety
///
/// `buffer` is null or has `length` bytes that may be written.
pub(crate) unsafe fn fill(buffer: mq::PMQVOID, length: usize, bytes: &[u8]) {
    if !buffer.is_null() {
        // SAFETY: the caller says so, and no more than its length is written.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len().min(length)) };
    }
}

/// Returns the length of a byte slice as the MQI's type MQLONG.
pub(crate) fn length(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX)
}
