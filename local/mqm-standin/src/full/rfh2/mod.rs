//! MQRFH2: the header in which message properties travel with the data.

mod folder;

use std::mem::{offset_of, size_of};

use libmqm_sys as mq;

use crate::protocol::{Chars, Descriptor, Message};

const FIXED: usize = size_of::<mq::MQRFH2>();
const UTF_8: i32 = 1208;

/// Takes a header off the front of the data, and adds its properties to the message. `None` if
/// there is no header that can be read.
pub(super) fn split(message: &Message) -> Option<Message> {
    let Message { descriptor, body, .. } = message;
    if descriptor.format != Chars::from(mq::MQFMT_RF_HEADER_2) {
        return None;
    }
    let reversed = descriptor.encoding & mq::MQENC_INTEGER_MASK == mq::MQENC_INTEGER_REVERSED;
    let number = |at: usize| {
        let bytes = body.get(at..)?.first_chunk::<4>()?;
        Some(if reversed { i32::from_le_bytes(*bytes) } else { i32::from_be_bytes(*bytes) })
    };
    let length = usize::try_from(number(offset_of!(mq::MQRFH2, StrucLength))?).ok()?;
    if !body.starts_with(b"RFH ") || length < FIXED || length > body.len() {
        return None;
    }
    let mut properties = Vec::new();
    let mut at = FIXED;
    while at < length {
        let size = usize::try_from(number(at)?).ok()?;
        let folder = body.get(at + 4..)?.get(..size)?;
        properties.extend(folder::read(std::str::from_utf8(folder).ok()?)?);
        at += 4 + size;
    }
    properties.extend(message.properties.iter().cloned());
    let format = offset_of!(mq::MQRFH2, Format);
    let descriptor = Descriptor {
        encoding: number(offset_of!(mq::MQRFH2, Encoding))?,
        ccsid: match number(offset_of!(mq::MQRFH2, CodedCharSetId))? {
            mq::MQCCSI_INHERIT => descriptor.ccsid,
            ccsid => ccsid,
        },
        format: Chars::from_field(body.get(format..format + mq::MQ_FORMAT_LENGTH)?),
        ..descriptor.clone()
    };
    Some(Message { descriptor, properties, body: body.get(length..)?.to_vec() })
}

/// Puts a header with the properties before the data, and says so in the descriptor.
pub(super) fn join(message: Message) -> Message {
    let Message { descriptor, properties, body } = message;
    let mut folders = Vec::new();
    for folder in folder::write(&properties) {
        let mut text = folder.into_bytes();
        text.resize(text.len().next_multiple_of(4), b' ');
        folders.extend(i32::try_from(text.len()).unwrap_or(i32::MAX).to_ne_bytes());
        folders.extend(text);
    }
    let length = i32::try_from(FIXED + folders.len()).unwrap_or(i32::MAX);
    let numbers = [mq::MQRFH_VERSION_2, length, descriptor.encoding, descriptor.ccsid];
    let mut joined = b"RFH ".to_vec();
    joined.extend(numbers.into_iter().flat_map(i32::to_ne_bytes));
    joined.extend(descriptor.format.padded(mq::MQ_FORMAT_LENGTH));
    joined.extend([mq::MQRFH_NONE, UTF_8].into_iter().flat_map(i32::to_ne_bytes));
    joined.extend(folders);
    joined.extend(body);
    let descriptor = Descriptor {
        format: Chars::from(mq::MQFMT_RF_HEADER_2),
        encoding: mq::MQENC_NATIVE,
        ccsid: UTF_8,
        ..descriptor
    };
    Message { descriptor, properties: Vec::new(), body: joined }
}

#[cfg(test)]
mod tests {
    use libmqm_sys as mq;

    use super::{join, split};
    use crate::protocol::{Chars, Descriptor, Message, Property, Value};

    fn of_width(name: &str, kind: i32, bytes: &[u8]) -> Property {
        Property { name: name.into(), kind, bytes: bytes.to_vec() }
    }

    #[test]
    fn properties_come_back_out_of_the_header_they_went_into() {
        let properties = vec![
            Property::new("text", Value::Text("<caf\u{e9} & \"tea\">".into())),
            Property::new("empty", Value::Text(String::new())),
            of_width("number", mq::MQTYPE_INT32, &(-7_i32).to_ne_bytes()),
            Property::new("long", Value::Integer(i64::MAX)),
            of_width("small", mq::MQTYPE_INT8, &(-1_i8).to_ne_bytes()),
            of_width("short", mq::MQTYPE_INT16, &300_i16.to_ne_bytes()),
            Property::new("half", Value::Float(0.5)),
            of_width("single", mq::MQTYPE_FLOAT32, &1.25_f32.to_ne_bytes()),
            Property::new("yes", Value::Boolean(true)),
            Property::new("raw", Value::Bytes(vec![0, 255])),
            Property::new("nothing", Value::Null),
            Property::new("shop.order.id", Value::Text("A1".into())),
            of_width("shop.order.line", mq::MQTYPE_INT32, &2_i32.to_ne_bytes()),
        ];
        let format = Chars::from(mq::MQFMT_STRING);
        let descriptor = Descriptor { format, ccsid: 819, ..Descriptor::default() };
        let message = Message { descriptor, properties, body: b"data".to_vec() };
        let joined = join(message.clone());
        assert_eq!(joined.descriptor.format, Chars::from(mq::MQFMT_RF_HEADER_2));
        assert_eq!(split(&joined), Some(message));
    }

    #[test]
    fn data_that_is_no_header_is_left_alone() {
        let format = Chars::from(mq::MQFMT_RF_HEADER_2);
        for body in [b"".as_slice(), b"RFH ", b"RFH \x02\0\0\0\xff\xff\xff\x7f----------------------------"] {
            let descriptor = Descriptor { format: format.clone(), ..Descriptor::default() };
            let message = Message { descriptor, properties: Vec::new(), body: body.to_vec() };
            assert_eq!(split(&message), None);
        }
    }
}
