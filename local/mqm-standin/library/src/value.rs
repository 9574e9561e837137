//! Property values as callers have them: bytes of a type.

use libmqm_sys as mq;
use mqm_standin::protocol::{Reason, Value};

/// The value that a caller sets.
pub(crate) fn read(kind: i32, bytes: &[u8]) -> Result<Value, Reason> {
    let wrong_length = Reason(mq::MQRC_BUFFER_LENGTH_ERROR);
    macro_rules! number {
        ($variant:ident, $type:ty) => {
            bytes.try_into().map(<$type>::from_ne_bytes).map(Value::$variant).map_err(|_| wrong_length)
        };
    }
    match kind {
        mq::MQTYPE_NULL => Ok(Value::Null),
        mq::MQTYPE_BOOLEAN => match bytes.try_into().map(i32::from_ne_bytes) {
            Ok(number @ 0..=1) => Ok(Value::Boolean(number == 1)),
            _ => Err(wrong_length),
        },
        mq::MQTYPE_BYTE_STRING => Ok(Value::Bytes(bytes.to_vec())),
        mq::MQTYPE_INT8 => number!(Int8, i8),
        mq::MQTYPE_INT16 => number!(Int16, i16),
        mq::MQTYPE_INT32 => number!(Int32, i32),
        mq::MQTYPE_INT64 => number!(Int64, i64),
        mq::MQTYPE_FLOAT32 => number!(Float32, f32),
        mq::MQTYPE_FLOAT64 => number!(Float64, f64),
        mq::MQTYPE_STRING => String::from_utf8(bytes.to_vec())
            .map(Value::Text)
            .map_err(|_| Reason(mq::MQRC_PROP_VALUE_NOT_CONVERTED)),
        _ => Err(Reason(mq::MQRC_PROPERTY_TYPE_ERROR)),
    }
}

/// A value's type and bytes.
pub(crate) fn write(value: &Value) -> (i32, Vec<u8>) {
    match value {
        Value::Null => (mq::MQTYPE_NULL, Vec::new()),
        Value::Boolean(value) => (mq::MQTYPE_BOOLEAN, i32::from(*value).to_ne_bytes().to_vec()),
        Value::Bytes(bytes) => (mq::MQTYPE_BYTE_STRING, bytes.clone()),
        Value::Int8(number) => (mq::MQTYPE_INT8, number.to_ne_bytes().to_vec()),
        Value::Int16(number) => (mq::MQTYPE_INT16, number.to_ne_bytes().to_vec()),
        Value::Int32(number) => (mq::MQTYPE_INT32, number.to_ne_bytes().to_vec()),
        Value::Int64(number) => (mq::MQTYPE_INT64, number.to_ne_bytes().to_vec()),
        Value::Float32(number) => (mq::MQTYPE_FLOAT32, number.to_ne_bytes().to_vec()),
        Value::Float64(number) => (mq::MQTYPE_FLOAT64, number.to_ne_bytes().to_vec()),
        Value::Text(text) => (mq::MQTYPE_STRING, text.clone().into_bytes()),
    }
}

/// The value as the type that the caller asked for.
pub(crate) fn convert(value: Value, kind: i32) -> Result<Value, Reason> {
    if write(&value).0 == kind {
        return Ok(value);
    }
    let number_format = Reason(mq::MQRC_PROP_NUMBER_FORMAT_ERROR);
    let text = match &value {
        Value::Null | Value::Bytes(_) => return Err(Reason(mq::MQRC_PROP_CONV_NOT_SUPPORTED)),
        Value::Boolean(value) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
        Value::Int8(number) => number.to_string(),
        Value::Int16(number) => number.to_string(),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => number.to_string(),
        Value::Float32(number) => number.to_string(),
        Value::Float64(number) => number.to_string(),
        Value::Text(text) => text.clone(),
    };
    macro_rules! number {
        ($variant:ident) => {
            text.trim().parse().map(Value::$variant).map_err(|_| number_format)
        };
    }
    match kind {
        mq::MQTYPE_STRING => Ok(Value::Text(text)),
        mq::MQTYPE_BOOLEAN => match text.to_ascii_uppercase().as_str() {
            "TRUE" | "1" => Ok(Value::Boolean(true)),
            "FALSE" | "0" => Ok(Value::Boolean(false)),
            _ => Err(number_format),
        },
        mq::MQTYPE_INT8 => number!(Int8),
        mq::MQTYPE_INT16 => number!(Int16),
        mq::MQTYPE_INT32 => number!(Int32),
        mq::MQTYPE_INT64 => number!(Int64),
        mq::MQTYPE_FLOAT32 => number!(Float32),
        mq::MQTYPE_FLOAT64 => number!(Float64),
        _ => Err(Reason(mq::MQRC_PROP_CONV_NOT_SUPPORTED)),
    }
}

#[cfg(test)]
mod tests {
    use libmqm_sys as mq;
    use mqm_standin::protocol::Value;

    use super::{convert, read, write};

    #[test]
    fn a_value_comes_back_as_it_was_set() {
        for value in [Value::Boolean(true), Value::Int16(-3), Value::Float64(2.5), Value::Text("é".into())] {
            let (kind, bytes) = write(&value);
            assert_eq!(read(kind, &bytes).unwrap(), value);
        }
        assert!(read(mq::MQTYPE_INT32, b"abc").is_err());
    }

    #[test]
    fn numbers_become_text_and_text_numbers() {
        assert_eq!(convert(Value::Int32(7), mq::MQTYPE_STRING).unwrap(), Value::Text("7".into()));
        assert_eq!(convert(Value::Text("7".into()), mq::MQTYPE_INT64).unwrap(), Value::Int64(7));
        assert!(convert(Value::Text("x".into()), mq::MQTYPE_INT64).is_err());
        assert!(convert(Value::Int32(700), mq::MQTYPE_INT8).is_err());
    }
}
