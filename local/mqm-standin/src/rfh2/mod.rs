//! MQRFH2: the header in which message properties travel with the data.

mod folder;

use std::mem::{offset_of, size_of};

use libmqm_sys as mq;

use crate::protocol::{Chars, Descriptor, Message, Property};

const FIXED: usize = size_of::<mq::MQRFH2>();
const UTF_8: i32 = 1208;

/// Takes a header off the front of the data, if there is one: its properties, and the message that
/// the header was put before. `None` if there is no header that can be read.
pub fn split(message: &Message) -> Option<(Vec<Property>, Message)> {
    let descriptor = &message.descriptor;
    if descriptor.format != Chars::from(mq::MQFMT_RF_HEADER_2) {
        return None;
    }
    let body = &message.body;
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
    let format = offset_of!(mq::MQRFH2, Format);
    let rest = Descriptor {
        encoding: number(offset_of!(mq::MQRFH2, Encoding))?,
        ccsid: match number(offset_of!(mq::MQRFH2, CodedCharSetId))? {
            mq::MQCCSI_INHERIT => descriptor.ccsid,
            ccsid => ccsid,
        },
        format: Chars::from_field(body.get(format..format + mq::MQ_FORMAT_LENGTH)?),
        ..descriptor.clone()
    };
    let body = body.get(length..)?.to_vec();
    Some((properties, Message { descriptor: rest, properties: Vec::new(), body }))
}

/// Puts a header with these properties before the data, and says so in the descriptor.
#[must_use]
pub fn join(properties: &[Property], message: Message) -> Message {
    let mut folders = Vec::new();
    for folder in folder::write(properties) {
        let mut text = folder.into_bytes();
        text.resize(text.len().next_multiple_of(4), b' ');
        folders.extend(i32::try_from(text.len()).unwrap_or(i32::MAX).to_ne_bytes());
        folders.extend(text);
    }
    let Message { descriptor, body, .. } = message;
    let length = i32::try_from(FIXED + folders.len()).unwrap_or(i32::MAX);
    let mut joined = Vec::with_capacity(FIXED + folders.len() + body.len());
    joined.extend(b"RFH ");
    for number in [mq::MQRFH_VERSION_2, length, descriptor.encoding, descriptor.ccsid] {
        joined.extend(number.to_ne_bytes());
    }
    joined.extend(descriptor.format.padded(mq::MQ_FORMAT_LENGTH));
    for number in [mq::MQRFH_NONE, UTF_8] {
        joined.extend(number.to_ne_bytes());
    }
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

    #[test]
    fn properties_come_back_out_of_the_header_they_went_into() {
        let properties = vec![
            Property::new("text", Value::Text("<caf\u{e9} & \"tea\">".into())),
            Property::new("empty", Value::Text(String::new())),
            Property::new("number", Value::Int32(-7)),
            Property::new("long", Value::Int64(i64::MAX)),
            Property::new("small", Value::Int8(-1)),
            Property::new("short", Value::Int16(300)),
            Property::new("half", Value::Float64(0.5)),
            Property::new("single", Value::Float32(1.25)),
            Property::new("yes", Value::Boolean(true)),
            Property::new("raw", Value::Bytes(vec![0, 255])),
            Property::new("nothing", Value::Null),
            Property::new("shop.order.id", Value::Text("A1".into())),
            Property::new("shop.order.line", Value::Int32(2)),
        ];
        let format = Chars::from(mq::MQFMT_STRING);
        let descriptor = Descriptor { format, ccsid: 819, ..Descriptor::default() };
        let message = Message { descriptor, properties: Vec::new(), body: b"data".to_vec() };
        let joined = join(&properties, message.clone());
        assert_eq!(joined.descriptor.format, Chars::from(mq::MQFMT_RF_HEADER_2));
        assert_eq!(split(&joined), Some((properties, message)));
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
