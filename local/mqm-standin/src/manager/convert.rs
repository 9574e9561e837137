//! MQGMO_CONVERT, for text, which is converted to UTF-8 alone.

use libmqm_sys as mq;

use crate::protocol::{Chars, Message, Reason};
use crate::text::{UTF_8, decode};

/// The converted message, or `None` if it already is as wanted or has no data.
pub(super) fn convert(message: &Message, ccsid: i32) -> Result<Option<Message>, Reason> {
    let descriptor = &message.descriptor;
    if descriptor.ccsid == ccsid || message.body.is_empty() {
        return Ok(None);
    }
    if descriptor.format != Chars::from(mq::MQFMT_STRING) {
        return Err(Reason(mq::MQRC_FORMAT_ERROR));
    }
    if ccsid != UTF_8 {
        return Err(Reason(mq::MQRC_TARGET_CCSID_ERROR));
    }
    let body = decode(&message.body, descriptor.ccsid)?.into_bytes();
    let mut converted = Message { body, ..message.clone() };
    converted.descriptor.ccsid = ccsid;
    Ok(Some(converted))
}

#[cfg(test)]
mod tests {
    use libmqm_sys as mq;

    use super::convert;
    use crate::protocol::{Chars, Descriptor, Message, Reason};
    use crate::text::UTF_8;

    fn message(ccsid: i32, body: &[u8]) -> Message {
        let descriptor = Descriptor { ccsid, format: Chars::from(mq::MQFMT_STRING), ..Descriptor::default() };
        Message { descriptor, properties: Vec::new(), body: body.to_vec() }
    }

    #[test]
    fn text_is_converted_to_utf_8() {
        for (ccsid, body) in [(819, b"caf\xe9"), (37, b"\x83\x81\x86\x51")] {
            let converted = convert(&message(ccsid, body), UTF_8).unwrap().unwrap();
            assert_eq!((converted.body.as_slice(), converted.descriptor.ccsid), ("café".as_bytes(), UTF_8));
        }
    }

    #[test]
    fn a_message_without_data_stays_as_it_is() {
        assert_eq!(convert(&message(850, b""), UTF_8), Ok(None));
    }

    #[test]
    fn what_cannot_be_converted_says_why() {
        let reason = |ccsid, body: &[u8], target| convert(&message(ccsid, body), target).unwrap_err();
        assert_eq!(reason(367, b"\xe9", UTF_8), Reason(mq::MQRC_NOT_CONVERTED));
        assert_eq!(reason(850, b"x", UTF_8), Reason(mq::MQRC_SOURCE_CCSID_ERROR));
        assert_eq!(reason(UTF_8, b"x", 37), Reason(mq::MQRC_TARGET_CCSID_ERROR));
    }
}
