//! Properties of messages.

use libmqm_sys as mq;
use serde::{Deserialize, Serialize};

use super::Reason;

/// Message property in the format of the MQI. Its name lacks the folder `usr`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    pub name: String,
    /// Type of the value, as MQTYPE_*.
    pub kind: i32,
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// Value of a message property. Integers of every width are one variant, and floating-point numbers
/// another.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Boolean(bool),
    Bytes(Vec<u8>),
    Integer(i64),
    Float(f64),
    Text(String),
}

impl Property {
    /// Creates a property. Integers and floating-point numbers are stored with 64 bits.
    pub fn new(name: impl Into<String>, value: Value) -> Self {
        let (kind, bytes) = match value {
            Value::Null => (mq::MQTYPE_NULL, Vec::new()),
            Value::Boolean(value) => (mq::MQTYPE_BOOLEAN, i32::from(value).to_ne_bytes().to_vec()),
            Value::Bytes(bytes) => (mq::MQTYPE_BYTE_STRING, bytes),
            Value::Integer(number) => (mq::MQTYPE_INT64, number.to_ne_bytes().to_vec()),
            Value::Float(number) => (mq::MQTYPE_FLOAT64, number.to_ne_bytes().to_vec()),
            Value::Text(text) => (mq::MQTYPE_STRING, text.into_bytes()),
        };
        Self { name: name.into(), kind, bytes }
    }

    /// Decodes the value of the property.
    ///
    /// # Errors
    /// If the type is unknown, or the bytes are no value of it.
    pub fn value(&self) -> Result<Value, Reason> {
        let bytes = self.bytes.as_slice();
        macro_rules! number {
            ($variant:ident, $type:ty) => {
                match bytes.try_into().map(<$type>::from_ne_bytes) {
                    Ok(number) => Value::$variant(number.into()),
                    Err(_) => return Err(Reason(mq::MQRC_BUFFER_LENGTH_ERROR)),
                }
            };
        }
        Ok(match self.kind {
            mq::MQTYPE_NULL => Value::Null,
            mq::MQTYPE_BOOLEAN => match number!(Integer, i32) {
                Value::Integer(number @ 0..=1) => Value::Boolean(number == 1),
                _ => return Err(Reason(mq::MQRC_BUFFER_LENGTH_ERROR)),
            },
            mq::MQTYPE_BYTE_STRING => Value::Bytes(bytes.to_vec()),
            mq::MQTYPE_INT8 => number!(Integer, i8),
            mq::MQTYPE_INT16 => number!(Integer, i16),
            mq::MQTYPE_INT32 => number!(Integer, i32),
            mq::MQTYPE_INT64 => number!(Integer, i64),
            mq::MQTYPE_FLOAT32 => number!(Float, f32),
            mq::MQTYPE_FLOAT64 => number!(Float, f64),
            mq::MQTYPE_STRING => match String::from_utf8(bytes.to_vec()) {
                Ok(text) => Value::Text(text),
                Err(_) => return Err(Reason(mq::MQRC_PROP_VALUE_NOT_CONVERTED)),
            },
            _ => return Err(Reason(mq::MQRC_PROPERTY_TYPE_ERROR)),
        })
    }
}

#[cfg(test)]
mod tests {
    use libmqm_sys as mq;

    use super::{Property, Value};

    #[test]
    fn a_value_comes_back_as_it_was_set() {
        for value in [Value::Boolean(true), Value::Integer(-3), Value::Float(2.5), Value::Text("é".into())] {
            assert_eq!(Property::new("name", value.clone()).value(), Ok(value));
        }
        for (kind, bytes) in [(mq::MQTYPE_INT32, b"abc".as_slice()), (mq::MQTYPE_STRING, b"\xff"), (99, b"")]
        {
            assert!(Property { name: "name".into(), kind, bytes: bytes.to_vec() }.value().is_err());
        }
        let short = Property { name: "short".into(), kind: mq::MQTYPE_INT16, bytes: vec![0xff; 2] };
        assert_eq!(short.value(), Ok(Value::Integer(-1)));
    }
}
