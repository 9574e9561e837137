//! MQGMO_CONVERT: the conversion of a message's text, to UTF-8 only.

use libmqm_sys as mq;

use crate::protocol::{Chars, Message, Reason};
use crate::text::{UTF_8, decode};

/// Returns the message with its text converted to this CCSID; `None` if it needs no conversion or
/// has no body.
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

    #[test]
    fn a_body_is_converted_to_utf_8_alone() {
        let format = Chars::from(mq::MQFMT_STRING);
        let descriptor = Descriptor { ccsid: UTF_8, format, ..Descriptor::default() };
        let text = Message { descriptor, body: b"x".to_vec(), ..Message::default() };
        assert_eq!(convert(&text, 37).unwrap_err(), Reason(mq::MQRC_TARGET_CCSID_ERROR));
        assert_eq!(convert(&Message { body: Vec::new(), ..text }, 37), Ok(None));
    }
}
