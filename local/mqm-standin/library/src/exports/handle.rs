//! MQCRTMH, MQDLTMH, MQBUFMH, MQMHBUF.

use libmqm_sys as mq;
use mqm_standin::protocol::{Message, Reason};
use mqm_standin::rfh2;

use super::{answer, data, fill, get_or, set};
use crate::structures::{Borrowed, text};
use crate::{descriptor, handle};

/// # Safety
///
/// As the MQI says: `options` is an MQCMHO, the other pointers may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQCRTMH(
    connection: mq::MQHCONN,
    options: *mut mq::MQCMHO,
    message: *mut mq::MQHMSG,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            Borrowed::read(options)?;
            set(message, handle::create(connection)?);
            Ok(mq::MQRC_NONE)
        });
    }
}

/// # Safety
///
/// As the MQI says: `options` is an MQDMHO, the other pointers may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQDLTMH(
    connection: mq::MQHCONN,
    message: *mut mq::MQHMSG,
    options: *mut mq::MQDMHO,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            Borrowed::read(options)?;
            handle::delete(connection, get_or(message, mq::MQHM_UNUSABLE_HMSG))?;
            set(message, mq::MQHM_UNUSABLE_HMSG);
            Ok(mq::MQRC_NONE)
        });
    }
}

/// Moves the properties of a header in the data into a handle.
///
/// # Safety
///
/// As the MQI says: the structures are there, `buffer` has `length` bytes and may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQBUFMH(
    connection: mq::MQHCONN,
    message: mq::MQHMSG,
    options: *mut mq::MQBMHO,
    descriptor: mq::PMQVOID,
    length: mq::MQLONG,
    buffer: mq::PMQVOID,
    data_length: *mut mq::MQLONG,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let bmho = Borrowed::read(options)?;
            let mut md = Borrowed::read(descriptor.cast::<mq::MQMD>())?;
            let whole = Message {
                descriptor: descriptor::from_caller(&md.value, md.version),
                properties: Vec::new(),
                body: data(buffer, length)?,
            };
            let Some((properties, rest)) = rfh2::split(&whole) else {
                handle::with(connection, message, |_| Ok(()))?;
                set(data_length, length);
                return Ok(mq::MQRC_NONE);
            };
            handle::with(connection, message, |handle| {
                properties.into_iter().try_for_each(|property| handle.set(property, mq::MQSMPO_SET_FIRST))
            })?;
            if bmho.value.Options & mq::MQBMHO_DELETE_PROPERTIES == 0 {
                set(data_length, length);
                return Ok(mq::MQRC_NONE);
            }
            fill(buffer, usize::try_from(length).unwrap_or_default(), &rest.body);
            set(data_length, i32::try_from(rest.body.len()).unwrap_or(i32::MAX));
            descriptor::to_caller(&rest.descriptor, &mut md.value);
            md.give_back();
            Ok(mq::MQRC_NONE)
        });
    }
}

/// Writes the properties of a handle into a buffer, as a header.
///
/// # Safety
///
/// As the MQI says: the structures are there, `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQMHBUF(
    connection: mq::MQHCONN,
    message: mq::MQHMSG,
    options: *mut mq::MQMHBO,
    name: *mut mq::MQCHARV,
    descriptor: mq::PMQVOID,
    length: mq::MQLONG,
    buffer: mq::PMQVOID,
    data_length: *mut mq::MQLONG,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let mhbo = Borrowed::read(options)?;
            let mut md = Borrowed::read(descriptor.cast::<mq::MQMD>())?;
            if name.is_null() {
                return Err(Reason(mq::MQRC_PROPERTY_NAME_ERROR));
            }
            let wanted = text(&name.read_unaligned(), name.cast_const().cast())?;
            let wanted = wanted.ok_or(Reason(mq::MQRC_PROPERTY_NAME_ERROR))?;
            let room = usize::try_from(length).map_err(|_| Reason(mq::MQRC_BUFFER_LENGTH_ERROR))?;
            let deletes = mhbo.value.Options & mq::MQMHBO_DELETE_PROPERTIES != 0;
            let empty =
                Message { descriptor: descriptor::from_caller(&md.value, md.version), ..Message::default() };
            let header = handle::with(connection, message, |handle| {
                let fits = |name: &str| handle::fits(&wanted, name);
                let fitting = handle.properties.iter().filter(|property| fits(&property.name));
                let properties: Vec<_> = fitting.cloned().collect();
                if properties.is_empty() {
                    return Err(Reason(mq::MQRC_PROPERTY_NOT_AVAILABLE));
                }
                let header = rfh2::join(&properties, empty);
                if deletes && header.body.len() <= room {
                    handle.properties.retain(|property| !fits(&property.name));
                }
                Ok(header)
            })?;
            set(data_length, i32::try_from(header.body.len()).unwrap_or(i32::MAX));
            if header.body.len() > room {
                return Err(Reason(mq::MQRC_PROPERTY_VALUE_TOO_BIG));
            }
            fill(buffer, room, &header.body);
            descriptor::to_caller(&header.descriptor, &mut md.value);
            md.give_back();
            Ok(mq::MQRC_NONE)
        });
    }
}
