//! Converts headers between the gateway's values and AMQP's, which have the same types.

use std::collections::BTreeMap;

use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable, ShortString};
use mq::{Decimal, HeaderValue, Time};

use crate::content_header;

/// Compile-time check that received and sent headers have the same maximum nesting depth, so that
/// every received header can be sent again.
const _: () = assert!(content_header::MAX_DEPTH == HeaderValue::MAX_DEPTH);

/// Converts the value of a header to AMQP.
///
/// # Errors
/// If a name in a table is longer than a short string (255 bytes), or a floating-point number is
/// not finite. RabbitMQ would close the connection, since Erlang has no such numbers.
pub(crate) fn to_amqp(value: &HeaderValue) -> Result<AMQPValue, String> {
    Ok(match value {
        HeaderValue::Null => AMQPValue::Void,
        HeaderValue::Boolean(value) => AMQPValue::Boolean(*value),
        HeaderValue::Int8(value) => AMQPValue::ShortShortInt(*value),
        HeaderValue::UInt8(value) => AMQPValue::ShortShortUInt(*value),
        HeaderValue::Int16(value) => AMQPValue::ShortInt(*value),
        HeaderValue::UInt16(value) => AMQPValue::ShortUInt(*value),
        HeaderValue::Int32(value) => AMQPValue::LongInt(*value),
        HeaderValue::UInt32(value) => AMQPValue::LongUInt(*value),
        HeaderValue::Int64(value) => AMQPValue::LongLongInt(*value),
        HeaderValue::Float32(value) if value.get().is_finite() => AMQPValue::Float(value.get()),
        HeaderValue::Float64(value) if value.get().is_finite() => AMQPValue::Double(value.get()),
        HeaderValue::Float32(_) | HeaderValue::Float64(_) => {
            return Err("RabbitMQ carries finite numbers only in headers".to_owned());
        }
        HeaderValue::Decimal(Decimal { scale, digits }) => {
            AMQPValue::DecimalValue(DecimalValue { scale: *scale, value: *digits })
        }
        HeaderValue::Text(text) => AMQPValue::LongString(text.as_str().into()),
        HeaderValue::TextBytes(bytes) => AMQPValue::LongString(bytes.clone().into()),
        HeaderValue::Bytes(bytes) => AMQPValue::ByteArray(bytes.as_slice().into()),
        HeaderValue::Time(time) => AMQPValue::Timestamp(time.as_seconds()),
        HeaderValue::Array(values) => {
            let values = values.iter().map(to_amqp).collect::<Result<Vec<_>, _>>()?;
            AMQPValue::FieldArray(FieldArray::from(values))
        }
        HeaderValue::Table(values) => {
            let entries = values.iter().map(|(name, value)| Ok((short(name)?, to_amqp(value)?)));
            AMQPValue::FieldTable(FieldTable::from(entries.collect::<Result<BTreeMap<_, _>, String>>()?))
        }
    })
}

/// Converts a name to an AMQP short string.
///
/// # Errors
/// If it is longer than 255 bytes.
pub(crate) fn short(name: &str) -> Result<ShortString, String> {
    ShortString::try_new(name).map_err(|error| error.to_string())
}

pub(crate) fn from_amqp(value: &AMQPValue) -> HeaderValue {
    match value {
        AMQPValue::Void => HeaderValue::Null,
        AMQPValue::Boolean(value) => HeaderValue::Boolean(*value),
        AMQPValue::ShortShortInt(value) => HeaderValue::Int8(*value),
        AMQPValue::ShortShortUInt(value) => HeaderValue::UInt8(*value),
        AMQPValue::ShortInt(value) => HeaderValue::Int16(*value),
        AMQPValue::ShortUInt(value) => HeaderValue::UInt16(*value),
        AMQPValue::LongInt(value) => HeaderValue::Int32(*value),
        AMQPValue::LongUInt(value) => HeaderValue::UInt32(*value),
        AMQPValue::LongLongInt(value) => HeaderValue::Int64(*value),
        AMQPValue::Float(value) => HeaderValue::Float32((*value).into()),
        AMQPValue::Double(value) => HeaderValue::Float64((*value).into()),
        AMQPValue::DecimalValue(DecimalValue { scale, value }) => {
            HeaderValue::Decimal(Decimal { scale: *scale, digits: *value })
        }
        AMQPValue::ShortString(text) => HeaderValue::Text(text.to_string()),
        AMQPValue::LongString(text) => match std::str::from_utf8(text.as_bytes()) {
            Ok(text) => HeaderValue::Text(text.to_owned()),
            Err(_) => HeaderValue::TextBytes(text.as_bytes().to_vec()),
        },
        AMQPValue::ByteArray(bytes) => HeaderValue::Bytes(bytes.as_slice().to_vec()),
        AMQPValue::Timestamp(seconds) => HeaderValue::Time(Time::from_seconds(*seconds)),
        AMQPValue::FieldArray(values) => {
            HeaderValue::Array(values.as_slice().iter().map(from_amqp).collect())
        }
        AMQPValue::FieldTable(values) => HeaderValue::Table(table(values)),
    }
}

fn table(values: &FieldTable) -> BTreeMap<String, HeaderValue> {
    values.inner().iter().map(|(name, value)| (name.to_string(), from_amqp(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_finite_is_refused_wherever_it_is() {
        let table = |value: HeaderValue| HeaderValue::Table(BTreeMap::from([("n".to_owned(), value)]));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let value = HeaderValue::Float64(value.into());
            for value in [value.clone(), HeaderValue::Array(vec![value.clone()]), table(value)] {
                assert!(to_amqp(&value).is_err(), "{value:?}");
            }
        }
        assert!(to_amqp(&HeaderValue::Float32(f32::NAN.into())).is_err());
        assert!(to_amqp(&table(HeaderValue::Float32(0.5.into()))).is_ok());
    }
}
