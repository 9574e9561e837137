//! Verbs that this library has, since clients look for them when they load it, and refuses.

use libmqm_sys as mq;
use mqm_standin::protocol::Reason;

use super::answer;
use crate::connection;

/// # Safety
///
/// `completion` and `reason` are null or may be written.
unsafe fn refuse(connection: mq::MQHCONN, why: i32, completion: *mut mq::MQLONG, reason: *mut mq::MQLONG) {
    // SAFETY: the caller says so.
    unsafe {
        answer(completion, reason, || {
            connection::find(connection)?;
            Err(Reason(why))
        });
    }
}

/// Refused as by a queue manager with publish/subscribe turned off.
///
/// # Safety
///
/// As the MQI says: `completion` and `reason` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQSUB(
    connection: mq::MQHCONN,
    _descriptor: *mut mq::MQSD,
    _object: *mut mq::MQHOBJ,
    _subscription: *mut mq::MQHOBJ,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe { refuse(connection, mq::MQRC_PUBSUB_INHIBITED, completion, reason) };
}

/// There is no subscription, so its handle is wrong.
///
/// # Safety
///
/// As for [`MQSUB`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQSUBRQ(
    connection: mq::MQHCONN,
    _subscription: mq::MQHOBJ,
    _action: mq::MQLONG,
    _options: *mut mq::MQSRO,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe { refuse(connection, mq::MQRC_HOBJ_ERROR, completion, reason) };
}
