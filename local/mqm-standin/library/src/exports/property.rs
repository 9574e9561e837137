//! Message handles and their properties: MQCRTMH, MQDLTMH, MQSETMP, MQINQMP.

use libmqm_sys as mq;
use mqm_standin::protocol::{Property, Reason};

use super::{Ended, data, fill, get_or, length, set, verbs};
use crate::handle;
use crate::structures::{Borrowed, text};

const UTF_8: i32 = 1208;

verbs! {
    /// Creates a message handle.
    fn MQCRTMH(connection: mq::MQHCONN, options: *mut mq::MQCMHO, message: *mut mq::MQHMSG) {
        Borrowed::read(options)?;
        set(message, handle::create(connection)?);
        Ok(mq::MQRC_NONE)
    }

    /// Deletes a message handle.
    fn MQDLTMH(connection: mq::MQHCONN, message: *mut mq::MQHMSG, options: *mut mq::MQDMHO) {
        Borrowed::read(options)?;
        handle::delete(connection, get_or(message, mq::MQHM_UNUSABLE_HMSG))?;
        set(message, mq::MQHM_UNUSABLE_HMSG);
        Ok(mq::MQRC_NONE)
    }

    /// Sets a property of a message handle.
    fn MQSETMP(
        connection: mq::MQHCONN,
        message: mq::MQHMSG,
        options: *mut mq::MQSMPO,
        name: *mut mq::MQCHARV,
        descriptor: *mut mq::MQPD,
        kind: mq::MQLONG,
        length: mq::MQLONG,
        bytes: mq::PMQVOID,
    ) {
        let smpo = Borrowed::read(options)?;
        Borrowed::read(descriptor)?;
        if smpo.value.Options != mq::MQSMPO_SET_FIRST {
            return Err(Reason(mq::MQRC_OPTIONS_ERROR));
        }
        let name = handle::name(&given(name)?)?;
        let property = Property { name, kind, bytes: value_bytes(kind, length, bytes)? };
        property.value()?;
        handle::with(connection, message, |handle| {
            handle.set(property);
            Ok(mq::MQRC_NONE)
        })
    }

    /// Inquires a property of a message handle: the one with a given name, or the next one.
    fn MQINQMP(
        connection: mq::MQHCONN,
        message: mq::MQHMSG,
        options: *mut mq::MQIMPO,
        name: *mut mq::MQCHARV,
        descriptor: *mut mq::MQPD,
        kind: *mut mq::MQLONG,
        room: mq::MQLONG,
        bytes: mq::PMQVOID,
        data_length: *mut mq::MQLONG,
    ) {
        let mut impo = Borrowed::read(options)?;
        Borrowed::read(descriptor)?;
        let room = usize::try_from(room).map_err(|_| Reason(mq::MQRC_BUFFER_LENGTH_ERROR))?;
        let (wanted, options) = (given(name)?, impo.value.Options);
        if options & mq::MQIMPO_CONVERT_TYPE != 0 {
            return Err(Reason(mq::MQRC_PROP_CONV_NOT_SUPPORTED));
        }
        let property = handle::with(connection, message, |handle| handle.look(&wanted, options))?;
        let named = give_name(&mut impo, &property.name);
        impo.value.ReturnedEncoding = mq::MQENC_NATIVE;
        impo.value.ReturnedCCSID = UTF_8;
        impo.give_back();
        set(kind, property.kind);
        set(data_length, length(&property.bytes));
        fill(bytes, room, &property.bytes);
        if property.bytes.len() > room {
            return Err(Reason(mq::MQRC_PROPERTY_VALUE_TOO_BIG));
        }
        named
    }
}

/// Reads the name of a property, or the pattern `%` of an inquiry, without the folder `usr`.
///
/// # Safety
///
/// `name` is null, or points to an MQCHARV whose text can be read.
unsafe fn given(name: *const mq::MQCHARV) -> Result<String, Reason> {
    let no_name = Reason(mq::MQRC_PROPERTY_NAME_ERROR);
    if name.is_null() {
        return Err(no_name);
    }
    // SAFETY: the caller says so.
    let text = unsafe { text(&name.read_unaligned(), name.cast()) }?.filter(|text| !text.is_empty());
    text.map(|text| text.strip_prefix("usr.").unwrap_or(&text).to_owned()).ok_or(no_name)
}

/// Returns the bytes of a property's value.
///
/// # Safety
///
/// `bytes` is null or has `length` bytes, or ends with a NUL if the length says so.
unsafe fn value_bytes(kind: i32, length: mq::MQLONG, bytes: mq::PMQVOID) -> Result<Vec<u8>, Reason> {
    let wrong_length = Reason(mq::MQRC_BUFFER_LENGTH_ERROR);
    if length != mq::MQVL_NULL_TERMINATED {
        // SAFETY: the caller says so.
        return unsafe { data(bytes, length) }.map_err(|_| wrong_length);
    }
    if kind != mq::MQTYPE_STRING || bytes.is_null() {
        return Err(wrong_length);
    }
    // SAFETY: the caller says so.
    Ok(unsafe { std::ffi::CStr::from_ptr(bytes.cast_const().cast()) }.to_bytes().to_vec())
}

/// Writes the property's name to the caller's buffer, if the caller gave one. A name that does not
/// fit is cut, and the call fails.
///
/// # Safety
///
/// The buffer for the name in `impo` can be written up to the size that `impo` states.
unsafe fn give_name(impo: &mut Borrowed<mq::MQIMPO>, name: &str) -> Ended {
    let returned = impo.value.ReturnedName;
    impo.value.ReturnedName.VSLength = length(name.as_bytes());
    impo.value.ReturnedName.VSCCSID = UTF_8;
    let room = usize::try_from(returned.VSBufSize).unwrap_or_default();
    // SAFETY: the caller says so.
    let at = unsafe { impo.locate(returned.VSPtr, returned.VSOffset) };
    let Some(at) = at.filter(|_| room > 0) else { return Ok(mq::MQRC_NONE) };
    // Callers in C like to find the end by a NUL, if there is room for it.
    let mut text = name.as_bytes().to_vec();
    text.push(0);
    // SAFETY: the caller says so.
    unsafe { fill(at.cast_mut().cast(), room, &text) };
    if name.len() > room { Err(Reason(mq::MQRC_PROPERTY_NAME_TOO_BIG)) } else { Ok(mq::MQRC_NONE) }
}
