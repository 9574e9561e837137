//! MQSETMP, MQINQMP, MQDLTMP.

use libmqm_sys as mq;
use mqm_standin::protocol::{Chars, Property, Reason};

use super::{Ended, answer, data, fill, get_or, set};
use crate::structures::{Borrowed, field, locate, text};
use crate::{handle, value};

const UTF_8: i32 = 1208;

/// The name of a property, or of several in an inquiry.
///
/// # Safety
///
/// `name` is null or an MQCHARV with its text.
unsafe fn given(name: *const mq::MQCHARV) -> Result<String, Reason> {
    let no_name = Reason(mq::MQRC_PROPERTY_NAME_ERROR);
    if name.is_null() {
        return Err(no_name);
    }
    // SAFETY: the caller says so.
    unsafe { text(&name.read_unaligned(), name.cast()) }?.filter(|text| !text.is_empty()).ok_or(no_name)
}

/// # Safety
///
/// As the MQI says: the structures are there, `bytes` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQSETMP(
    connection: mq::MQHCONN,
    message: mq::MQHMSG,
    options: *mut mq::MQSMPO,
    name: *mut mq::MQCHARV,
    descriptor: *mut mq::MQPD,
    kind: mq::MQLONG,
    length: mq::MQLONG,
    bytes: mq::PMQVOID,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let smpo = Borrowed::read(options)?;
            let pd = Borrowed::read(descriptor)?;
            let name = handle::name(&given(name)?)?;
            let bytes = set_bytes(kind, length, bytes)?;
            let property = Property {
                name,
                value: value::read(kind, &bytes)?,
                support: pd.value.Support,
                context: pd.value.Context,
                copy: pd.value.CopyOptions,
            };
            handle::with(connection, message, |handle| handle.set(property, smpo.value.Options))?;
            Ok(mq::MQRC_NONE)
        });
    }
}

/// # Safety
///
/// `bytes` is null or has `length` bytes, or ends with a NUL if the length says so.
unsafe fn set_bytes(kind: i32, length: mq::MQLONG, bytes: mq::PMQVOID) -> Result<Vec<u8>, Reason> {
    if length == mq::MQVL_NULL_TERMINATED {
        if kind != mq::MQTYPE_STRING || bytes.is_null() {
            return Err(Reason(mq::MQRC_BUFFER_LENGTH_ERROR));
        }
        // SAFETY: the caller says so.
        return Ok(unsafe { std::ffi::CStr::from_ptr(bytes.cast_const().cast()) }.to_bytes().to_vec());
    }
    // SAFETY: the caller says so.
    unsafe { data(bytes, length) }.map_err(|_| Reason(mq::MQRC_BUFFER_LENGTH_ERROR))
}

/// # Safety
///
/// As the MQI says: the structures are there, `bytes` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQINQMP(
    connection: mq::MQHCONN,
    message: mq::MQHMSG,
    options: *mut mq::MQIMPO,
    name: *mut mq::MQCHARV,
    descriptor: *mut mq::MQPD,
    kind: *mut mq::MQLONG,
    length: mq::MQLONG,
    bytes: mq::PMQVOID,
    data_length: *mut mq::MQLONG,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            inquire(connection, message, (options, name, descriptor), kind, (length, bytes), data_length)
        });
    }
}

type Structures = (*mut mq::MQIMPO, *mut mq::MQCHARV, *mut mq::MQPD);

/// # Safety
///
/// As for [`MQINQMP`].
unsafe fn inquire(
    connection: mq::MQHCONN,
    message: mq::MQHMSG,
    (options, name, descriptor): Structures,
    kind: *mut mq::MQLONG,
    (length, bytes): (mq::MQLONG, mq::PMQVOID),
    data_length: *mut mq::MQLONG,
) -> Ended {
    // SAFETY: the caller keeps to the MQI.
    let (mut impo, mut pd, wanted) =
        unsafe { (Borrowed::read(options)?, Borrowed::read(descriptor)?, given(name)?) };
    let wanted = wanted.strip_prefix("usr.").filter(|rest| *rest != "%").unwrap_or(&wanted).to_owned();
    let room = usize::try_from(length).map_err(|_| Reason(mq::MQRC_BUFFER_LENGTH_ERROR))?;
    let options = impo.value.Options;
    let property = handle::with(connection, message, |handle| handle.look(&wanted, options))?;
    // SAFETY: as above.
    let named = unsafe { give_name(&mut impo, &property.name) };
    // SAFETY: as above.
    let asked = unsafe { get_or(kind, mq::MQTYPE_AS_SET) };
    let converts = options & mq::MQIMPO_CONVERT_TYPE != 0 && asked != mq::MQTYPE_AS_SET;
    let value = if converts { value::convert(property.value, asked)? } else { property.value };
    let (found, content) = value::write(&value);
    impo.value.ReturnedEncoding = mq::MQENC_NATIVE;
    impo.value.ReturnedCCSID = UTF_8;
    impo.value.TypeString = field(&Chars::default());
    pd.value.Support = property.support;
    pd.value.Context = property.context;
    pd.value.CopyOptions = property.copy;
    // SAFETY: as above.
    unsafe {
        set(kind, found);
        set(data_length, i32::try_from(content.len()).unwrap_or(i32::MAX));
        impo.give_back();
        pd.give_back();
    }
    if options & mq::MQIMPO_QUERY_LENGTH != 0 {
        return Ok(mq::MQRC_NONE);
    }
    // SAFETY: as above.
    unsafe { fill(bytes, room, &content) };
    if content.len() > room {
        return Err(Reason(mq::MQRC_PROPERTY_VALUE_TOO_BIG));
    }
    named
}

/// Tells the caller the property's name, if it has room for it.
///
/// # Safety
///
/// The string of the options has as much room as it says.
unsafe fn give_name(impo: &mut Borrowed<mq::MQIMPO>, name: &str) -> Ended {
    let start = impo.start();
    let returned = &mut impo.value.ReturnedName;
    returned.VSLength = i32::try_from(name.len()).unwrap_or(i32::MAX);
    returned.VSCCSID = UTF_8;
    let room = usize::try_from(returned.VSBufSize).unwrap_or_default();
    // SAFETY: the caller says so.
    let at = unsafe { locate(returned.VSPtr.cast_const().cast(), returned.VSOffset, start) };
    let Some(at) = at.filter(|_| room > 0) else { return Ok(mq::MQRC_NONE) };
    // SAFETY: the caller says so.
    unsafe { fill(at.cast_mut().cast(), room, name.as_bytes()) };
    if name.len() > room {
        return Err(Reason(mq::MQRC_PROPERTY_NAME_TOO_BIG));
    }
    if name.len() < room {
        // SAFETY: there is room for one more. Callers in C like to find the end so.
        unsafe { at.cast_mut().add(name.len()).write(0) };
    }
    Ok(mq::MQRC_NONE)
}

/// # Safety
///
/// As the MQI says: the structures are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQDLTMP(
    connection: mq::MQHCONN,
    message: mq::MQHMSG,
    options: *mut mq::MQDMPO,
    name: *mut mq::MQCHARV,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let dmpo = Borrowed::read(options)?;
            let name = given(name)?;
            let name = name.strip_prefix("usr.").unwrap_or(&name);
            handle::with(connection, message, |handle| handle.delete(name, dmpo.value.Options))?;
            Ok(mq::MQRC_NONE)
        });
    }
}
