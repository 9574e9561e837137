//! Properties of a message, held by a message handle.
#![allow(unsafe_code)]

use ::mq::HeaderValue;
use libmqm_sys::{self as mq, MQLONG};

use super::structures;
use super::{Codes, Connection, Refusal, Verb, length_of};

/// Message handle with the properties of one message at a time. Dropping it deletes the handle.
pub(crate) struct Properties<'c> {
    connection: &'c Connection,
    handle: mq::MQHMSG,
    /// Buffer for the name of a property; empty until the first property is read. Values have
    /// another buffer.
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Maximum length in bytes of a property name that IBM MQ returns, including a terminator.
const LONGEST_NAME: usize = mq::MQ_MAX_PROPERTY_NAME_LENGTH + 1;

/// Maximum length in bytes of a property value that is read with a single call. A longer value
/// needs a second call.
const USUAL_VALUE: usize = 1024;

impl<'c> Properties<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Result<Self, Refusal> {
        let options = structures::create_message_handle();
        let mut handle = mq::MQHM_UNUSABLE_HMSG;
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the connection is open, and this is its thread.
        unsafe {
            connection.library().functions().MQCRTMH(
                connection.handle(),
                &options,
                &mut handle,
                &mut completion,
                &mut reason,
            );
        }
        Codes { completion, reason }.check(Verb::CreateHandle)?;
        Ok(Self { connection, handle, name: Vec::new(), value: Vec::new() })
    }

    pub(super) fn handle(&self) -> mq::MQHMSG {
        self.handle
    }

    /// Sets a property, replacing one of the same name. The value must have passed [`check_type`].
    pub(crate) fn set(&self, name: &str, value: &HeaderValue) -> Result<(), Refusal> {
        let options = structures::set_property();
        let name = structures::name(name);
        let mut descriptor = structures::property_descriptor();
        let wrong_type = |_| Refusal::failed(Verb::SetProperty, mq::MQRC_PROPERTY_TYPE_ERROR);
        let (kind, value) = to_wire(value).map_err(wrong_type)?;
        let value = value.as_ref();
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handles are of this thread's connection. The library only reads the name and
        // the value, which outlive the call and are passed with their own lengths.
        unsafe {
            self.connection.library().functions().MQSETMP(
                self.connection.handle(),
                self.handle,
                &options,
                &name,
                &mut descriptor,
                kind,
                length_of(value),
                value.as_ptr().cast_mut().cast(),
                &mut completion,
                &mut reason,
            );
        }
        Codes { completion, reason }.check(Verb::SetProperty).map(drop)
    }

    /// Reads all properties in order; `None` if names and values together exceed `limit` bytes.
    pub(crate) fn read(&mut self, limit: usize) -> Result<Option<Vec<(String, HeaderValue)>>, Refusal> {
        self.name.resize(LONGEST_NAME, 0);
        // A long value of the last message was an exception.
        self.value.truncate(USUAL_VALUE);
        self.value.shrink_to(USUAL_VALUE);
        self.value.resize(USUAL_VALUE, 0);
        let mut found = Vec::new();
        let mut left = limit;
        let mut which = mq::MQIMPO_INQ_FIRST;
        loop {
            let Some(read) = self.inquire(which, left)? else {
                return Ok(Some(found));
            };
            let Read::Property { name, kind, length } = read else { return Ok(None) };
            let bytes = self.value.get(..length).unwrap_or_default();
            match left.checked_sub(name.len() + length) {
                Some(rest) => left = rest,
                None => return Ok(None),
            }
            found.push((name, from_wire(kind, bytes)));
            which = mq::MQIMPO_INQ_NEXT;
        }
    }

    /// Reads the first or next property, as `which` says; `None` if there is no further one. A
    /// second call with a larger buffer follows if the value does not fit and has at most `limit`
    /// bytes.
    fn inquire(&mut self, which: MQLONG, limit: usize) -> Result<Option<Read>, Refusal> {
        match self.inquire_once(which) {
            Err(Refusal { reason: mq::MQRC_PROPERTY_NOT_AVAILABLE, .. }) => Ok(None),
            Ok(Read::TooLong { length }) if length <= limit => {
                self.value.resize(length, 0);
                self.inquire_once(mq::MQIMPO_INQ_PROP_UNDER_CURSOR).map(Some)
            }
            other => other.map(Some),
        }
    }

    fn inquire_once(&mut self, which: MQLONG) -> Result<Read, Refusal> {
        let Self { connection, handle, name, value } = self;
        let mut options = structures::inquire_property();
        options.Options = which | mq::MQIMPO_CONVERT_VALUE;
        options.ReturnedName.VSPtr = name.as_mut_ptr().cast();
        options.ReturnedName.VSBufSize = length_of(name);
        let any = structures::name("%");
        let mut descriptor = structures::property_descriptor();
        let (mut kind, mut length) = (mq::MQTYPE_AS_SET, 0);
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handles are of this thread's connection. The buffers for name and value are
        // ours to write and are passed with their own lengths.
        unsafe {
            connection.library().functions().MQINQMP(
                connection.handle(),
                *handle,
                &mut options,
                &any,
                &mut descriptor,
                &mut kind,
                length_of(value),
                value.as_mut_ptr().cast(),
                &mut length,
                &mut completion,
                &mut reason,
            );
        }
        let length = usize::try_from(length).unwrap_or_default();
        if reason == mq::MQRC_PROPERTY_VALUE_TOO_BIG {
            return Ok(Read::TooLong { length });
        }
        // A value that cannot be converted is returned unconverted.
        Codes { completion, reason }.check(Verb::InquireProperty)?;
        let named = usize::try_from(options.ReturnedName.VSLength).unwrap_or_default();
        let name = structures::lossy(name.get(..named).unwrap_or_default()).into_owned();
        Ok(Read::Property { name, kind, length: length.min(value.len()) })
    }
}

enum Read {
    Property { name: String, kind: MQLONG, length: usize },
    TooLong { length: usize },
}

impl Drop for Properties<'_> {
    fn drop(&mut self) {
        let options = structures::delete_message_handle();
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handles are of this thread's connection, and this one is not used afterwards.
        unsafe {
            self.connection.library().functions().MQDLTMH(
                self.connection.handle(),
                &mut self.handle,
                &options,
                &mut completion,
                &mut reason,
            );
        }
        // Whatever the result, the handle is not used again; the end of the connection deletes it.
        if let Err(refusal) = (Codes { completion, reason }).check(Verb::DeleteHandle) {
            tracing::debug!(
                event_type = "properties.not_deleted",
                reason = refusal.reason,
                "MQDLTMH failed with reason {}",
                refusal.reason
            );
        }
    }
}

/// Bytes of a property value for MQSETMP: borrowed bytes, or a number in the first bytes of an
/// array, with its length.
enum Wire<'v> {
    Bytes(&'v [u8]),
    Number([u8; 8], usize),
}

impl Wire<'_> {
    /// Builds the bytes of a number for MQSETMP. The number has at most eight bytes.
    fn of<const N: usize>(number: [u8; N]) -> Self {
        const { assert!(N <= 8) }
        let mut bytes = [0; 8];
        for (place, byte) in bytes.iter_mut().zip(number) {
            *place = byte;
        }
        Self::Number(bytes, N)
    }
}

impl AsRef<[u8]> for Wire<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(bytes, length) => bytes.get(..*length).unwrap_or_default(),
        }
    }
}

/// Checks that IBM MQ has a property type for a value.
///
/// # Errors
/// Returns the name of the value's kind, if IBM MQ has no type for it.
pub(crate) fn check_type(value: &HeaderValue) -> Result<(), &'static str> {
    to_wire(value).map(drop)
}

/// Returns the MQTYPE and the bytes of a property value, with numbers in the machine's byte order.
/// Fails with the name of the value's kind if IBM MQ has no type for it.
fn to_wire(value: &HeaderValue) -> Result<(MQLONG, Wire<'_>), &'static str> {
    Ok(match value {
        HeaderValue::Null => (mq::MQTYPE_NULL, Wire::Bytes(&[])),
        HeaderValue::Boolean(value) => (mq::MQTYPE_BOOLEAN, Wire::of(MQLONG::from(*value).to_ne_bytes())),
        HeaderValue::Bytes(bytes) => (mq::MQTYPE_BYTE_STRING, Wire::Bytes(bytes)),
        HeaderValue::Int8(value) => (mq::MQTYPE_INT8, Wire::of(value.to_ne_bytes())),
        HeaderValue::Int16(value) => (mq::MQTYPE_INT16, Wire::of(value.to_ne_bytes())),
        HeaderValue::Int32(value) => (mq::MQTYPE_INT32, Wire::of(value.to_ne_bytes())),
        HeaderValue::Int64(value) => (mq::MQTYPE_INT64, Wire::of(value.to_ne_bytes())),
        HeaderValue::Float32(value) => (mq::MQTYPE_FLOAT32, Wire::of(value.get().to_ne_bytes())),
        HeaderValue::Float64(value) => (mq::MQTYPE_FLOAT64, Wire::of(value.get().to_ne_bytes())),
        HeaderValue::Text(text) => (mq::MQTYPE_STRING, Wire::Bytes(text.as_bytes())),
        HeaderValue::UInt8(_) | HeaderValue::UInt16(_) | HeaderValue::UInt32(_) => {
            return Err("unsigned integers");
        }
        HeaderValue::Decimal(_) => return Err("decimals"),
        HeaderValue::Time(_) => return Err("times"),
        HeaderValue::Array(_) => return Err("arrays"),
        HeaderValue::Table(_) => return Err("tables"),
        HeaderValue::TextBytes(_) => return Err("text that is not UTF-8"),
    })
}

/// Converts the bytes of a property value of the MQTYPE `kind` to a header value. If their number
/// does not match the type, the header value has the type bytes.
fn from_wire(kind: MQLONG, bytes: &[u8]) -> HeaderValue {
    let raw = || HeaderValue::Bytes(bytes.to_vec());
    macro_rules! number {
        ($variant:ident, $type:ty) => {
            match bytes.try_into() {
                Ok(bytes) => HeaderValue::$variant(<$type>::from_ne_bytes(bytes).into()),
                Err(_) => raw(),
            }
        };
    }
    match kind {
        mq::MQTYPE_NULL => HeaderValue::Null,
        mq::MQTYPE_BOOLEAN => HeaderValue::Boolean(bytes.iter().any(|byte| *byte != 0)),
        mq::MQTYPE_INT8 => number!(Int8, i8),
        mq::MQTYPE_INT16 => number!(Int16, i16),
        mq::MQTYPE_INT32 => number!(Int32, i32),
        mq::MQTYPE_INT64 => number!(Int64, i64),
        mq::MQTYPE_FLOAT32 => number!(Float32, f32),
        mq::MQTYPE_FLOAT64 => number!(Float64, f64),
        mq::MQTYPE_STRING => match std::str::from_utf8(bytes) {
            Ok(text) => HeaderValue::from(text),
            Err(_) => HeaderValue::TextBytes(bytes.to_vec()),
        },
        _ => raw(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_their_wire_form() {
        let values = [
            HeaderValue::Null,
            HeaderValue::Boolean(true),
            HeaderValue::Boolean(false),
            HeaderValue::Bytes(vec![0, 255]),
            HeaderValue::Int8(-1),
            HeaderValue::Int16(-2),
            HeaderValue::Int32(-3),
            HeaderValue::Int64(i64::MIN),
            HeaderValue::Float32(1.5_f32.into()),
            HeaderValue::Float64((-2.25_f64).into()),
            HeaderValue::from("é"),
        ];
        for value in values {
            let (kind, bytes) = to_wire(&value).unwrap_or_else(|kind| panic!("{kind}"));
            assert_eq!(from_wire(kind, bytes.as_ref()), value);
        }
    }

    #[test]
    fn what_is_not_of_its_type_s_form_is_given_as_bytes() {
        for kind in [mq::MQTYPE_INT32, 12_345] {
            let bytes = vec![0xff, 0xfe, 0xfd];
            assert_eq!(from_wire(kind, &bytes), HeaderValue::Bytes(bytes));
        }
        assert_eq!(from_wire(mq::MQTYPE_STRING, &[0xff]), HeaderValue::TextBytes(vec![0xff]));
    }
}
