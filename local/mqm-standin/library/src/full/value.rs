//! MQIMPO_CONVERT_TYPE: the value of a property as another type.

use libmqm_sys as mq;
use mqm_standin::protocol::{Property, Reason, Value};

/// Converts a property to the type that the caller asked for.
pub(crate) fn convert(property: &mut Property, kind: i32) -> Result<(), Reason> {
    if property.kind == kind {
        return Ok(());
    }
    let number_format = Reason(mq::MQRC_PROP_NUMBER_FORMAT_ERROR);
    let text = match property.value()? {
        Value::Null | Value::Bytes(_) => return Err(Reason(mq::MQRC_PROP_CONV_NOT_SUPPORTED)),
        Value::Boolean(value) => if value { "TRUE" } else { "FALSE" }.to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => text,
    };
    macro_rules! number {
        ($type:ty) => {
            text.trim().parse::<$type>().map_err(|_| number_format)?.to_ne_bytes().to_vec()
        };
    }
    property.bytes = match kind {
        mq::MQTYPE_STRING => text.into_bytes(),
        mq::MQTYPE_BOOLEAN => match text.to_ascii_uppercase().as_str() {
            "TRUE" | "1" => 1_i32.to_ne_bytes().to_vec(),
            "FALSE" | "0" => 0_i32.to_ne_bytes().to_vec(),
            _ => return Err(number_format),
        },
        mq::MQTYPE_INT8 => number!(i8),
        mq::MQTYPE_INT16 => number!(i16),
        mq::MQTYPE_INT32 => number!(i32),
        mq::MQTYPE_INT64 => number!(i64),
        mq::MQTYPE_FLOAT32 => number!(f32),
        mq::MQTYPE_FLOAT64 => number!(f64),
        _ => return Err(Reason(mq::MQRC_PROP_CONV_NOT_SUPPORTED)),
    };
    property.kind = kind;
    Ok(())
}

#[cfg(test)]
mod tests {
    use libmqm_sys as mq;
    use mqm_standin::protocol::{Property, Value};

    use super::convert;

    #[test]
    fn numbers_become_text_and_text_numbers() {
        let converted = |value, kind| {
            let mut property = Property::new("name", value);
            convert(&mut property, kind).and_then(|()| property.value())
        };
        assert_eq!(converted(Value::Integer(7), mq::MQTYPE_STRING), Ok(Value::Text("7".into())));
        assert_eq!(converted(Value::Text("7".into()), mq::MQTYPE_INT64), Ok(Value::Integer(7)));
        assert!(converted(Value::Text("x".into()), mq::MQTYPE_INT64).is_err());
        assert!(converted(Value::Integer(700), mq::MQTYPE_INT8).is_err());
    }
}
