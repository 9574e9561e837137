//! MQBEGIN, MQCMIT, MQBACK, MQSTAT.

use libmqm_sys as mq;
use mqm_standin::protocol::{Reason, Request};

use super::answer;
use crate::connection;
use crate::structures::Borrowed;

/// # Safety
///
/// As the MQI says: the pointers may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQCMIT(
    connection: mq::MQHCONN,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            connection::find(connection)?.call(&Request::Commit).map(|reply| reply.reason)
        });
    }
}

/// # Safety
///
/// As for [`MQCMIT`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQBACK(
    connection: mq::MQHCONN,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            connection::find(connection)?.call(&Request::Back).map(|reply| reply.reason)
        });
    }
}

/// Refused, as for every client: a queue manager coordinates other stores for its local programs
/// only.
///
/// # Safety
///
/// As for [`MQCMIT`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQBEGIN(
    connection: mq::MQHCONN,
    _options: *mut mq::MQBO,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            connection::find(connection)?;
            Err(Reason(mq::MQRC_ENVIRONMENT_ERROR))
        });
    }
}

/// # Safety
///
/// As for [`MQCMIT`]; `status` is an MQSTS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQSTAT(
    connection: mq::MQHCONN,
    kind: mq::MQLONG,
    status: *mut mq::MQSTS,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let connection = connection::find(connection)?;
            let mut sts = Borrowed::read(status)?;
            let counts = match kind {
                mq::MQSTAT_TYPE_ASYNC_ERROR => connection.take_counts(),
                // No connection is ever made again behind its caller's back.
                mq::MQSTAT_TYPE_RECONNECTION | mq::MQSTAT_TYPE_RECONNECTION_ERROR => {
                    connection::Asynchronous::default()
                }
                _ => return Err(Reason(mq::MQRC_STAT_TYPE_ERROR)),
            };
            (sts.value.CompCode, sts.value.Reason) = counts.first.unwrap_or_default();
            sts.value.PutSuccessCount = counts.succeeded;
            sts.value.PutWarningCount = counts.warned;
            sts.value.PutFailureCount = counts.failed;
            sts.value.ObjectType = mq::MQOT_Q;
            sts.give_back();
            Ok(mq::MQRC_NONE)
        });
    }
}
