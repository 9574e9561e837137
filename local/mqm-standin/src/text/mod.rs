//! Text in a few character sets.

mod single_byte;

use libmqm_sys as mq;

use crate::protocol::Reason;

pub(crate) const UTF_8: i32 = 1208;
pub(crate) const LATIN_1: i32 = 819;
const ASCII: i32 = 367;

/// Reads text.
pub(crate) fn decode(bytes: &[u8], ccsid: i32) -> Result<String, Reason> {
    match ccsid {
        ASCII if !bytes.is_ascii() => Err(Reason(mq::MQRC_NOT_CONVERTED)),
        ASCII | UTF_8 => String::from_utf8(bytes.to_vec()).map_err(|_| Reason(mq::MQRC_NOT_CONVERTED)),
        _ => single_byte::decode(bytes, ccsid).ok_or(Reason(mq::MQRC_SOURCE_CCSID_ERROR)),
    }
}

/// Writes text. A character that the set lacks is not replaced, but an error.
pub(crate) fn encode(text: &str, ccsid: i32) -> Result<Vec<u8>, Reason> {
    match ccsid {
        ASCII if !text.is_ascii() => Err(Reason(mq::MQRC_NOT_CONVERTED)),
        ASCII | UTF_8 => Ok(text.as_bytes().to_vec()),
        _ => {
            let bytes = single_byte::bytes(ccsid).ok_or(Reason(mq::MQRC_TARGET_CCSID_ERROR))?;
            let encoded = text.chars().map(|character| bytes.get(&character).copied());
            encoded.collect::<Option<_>>().ok_or(Reason(mq::MQRC_NOT_CONVERTED))
        }
    }
}
