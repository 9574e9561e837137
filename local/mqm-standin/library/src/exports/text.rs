//! MQXCNVC.

use libmqm_sys as mq;
use mqm_standin::protocol::Reason;
use mqm_standin::text::{decode, encode};

use super::{answer, data, fill, set};

/// # Safety
///
/// As the MQI says: the buffers have as many bytes as their lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQXCNVC(
    _connection: mq::MQHCONN,
    options: mq::MQLONG,
    source_ccsid: mq::MQLONG,
    source_length: mq::MQLONG,
    source: mq::PMQCHAR,
    target_ccsid: mq::MQLONG,
    target_length: mq::MQLONG,
    target: mq::PMQCHAR,
    data_length: *mut mq::MQLONG,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            set(data_length, 0);
            let room = usize::try_from(target_length).map_err(|_| Reason(mq::MQRC_TARGET_LENGTH_ERROR))?;
            let bytes =
                data(source.cast(), source_length).map_err(|_| Reason(mq::MQRC_SOURCE_LENGTH_ERROR))?;
            let text = decode(&bytes, source_ccsid, encoding(options, mq::MQDCC_SOURCE_ENC_MASK))?;
            let converted = encode(&text, target_ccsid, encoding(options / 16, mq::MQDCC_SOURCE_ENC_MASK))?;
            set(data_length, i32::try_from(converted.len().min(room)).unwrap_or(i32::MAX));
            fill(target.cast(), room, &converted);
            if converted.len() > room {
                return Ok(mq::MQRC_CONVERTED_MSG_TOO_BIG);
            }
            Ok(mq::MQRC_NONE)
        });
    }
}

/// The encoding of integers that the options name for one of the strings; natively else.
fn encoding(options: mq::MQLONG, mask: mq::MQLONG) -> i32 {
    match options & mask {
        mq::MQDCC_SOURCE_ENC_NORMAL => mq::MQENC_INTEGER_NORMAL,
        mq::MQDCC_SOURCE_ENC_REVERSED => mq::MQENC_INTEGER_REVERSED,
        _ => mq::MQENC_NATIVE,
    }
}
