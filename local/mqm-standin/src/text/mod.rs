//! Text in a few character sets.

mod single_byte;

use libmqm_sys as mq;

use crate::protocol::Reason;

pub const UTF_8: i32 = 1208;
pub const LATIN_1: i32 = 819;
const ASCII: i32 = 367;
const UTF_16: [i32; 3] = [1200, 13488, 17584];

fn is_reversed(encoding: i32) -> bool {
    encoding & mq::MQENC_INTEGER_MASK == mq::MQENC_INTEGER_REVERSED
}

/// Reads text; `encoding` is that of its integers, and matters for UTF-16.
pub fn decode(bytes: &[u8], ccsid: i32, encoding: i32) -> Result<String, Reason> {
    let not_converted = Reason(mq::MQRC_NOT_CONVERTED);
    match ccsid {
        UTF_8 => String::from_utf8(bytes.to_vec()).map_err(|_| not_converted),
        ASCII if bytes.is_ascii() => Ok(String::from_utf8_lossy(bytes).into_owned()),
        ASCII => Err(not_converted),
        _ if UTF_16.contains(&ccsid) => {
            let (pairs, rest) = bytes.as_chunks::<2>();
            let read = if is_reversed(encoding) { u16::from_le_bytes } else { u16::from_be_bytes };
            let units: Vec<u16> = pairs.iter().map(|pair| read(*pair)).collect();
            let text = String::from_utf16(&units).map_err(|_| not_converted)?;
            if rest.is_empty() { Ok(text) } else { Err(not_converted) }
        }
        _ => single_byte::decode(bytes, ccsid).ok_or(Reason(mq::MQRC_SOURCE_CCSID_ERROR)),
    }
}

/// Writes text. What the character set lacks is not replaced, but an error.
pub fn encode(text: &str, ccsid: i32, encoding: i32) -> Result<Vec<u8>, Reason> {
    let not_converted = Reason(mq::MQRC_NOT_CONVERTED);
    match ccsid {
        UTF_8 => Ok(text.as_bytes().to_vec()),
        ASCII if text.is_ascii() => Ok(text.as_bytes().to_vec()),
        ASCII => Err(not_converted),
        _ if UTF_16.contains(&ccsid) => {
            let write = if is_reversed(encoding) { u16::to_le_bytes } else { u16::to_be_bytes };
            Ok(text.encode_utf16().flat_map(write).collect())
        }
        _ => {
            let bytes = single_byte::bytes(ccsid).ok_or(Reason(mq::MQRC_TARGET_CCSID_ERROR))?;
            text.chars()
                .map(|character| bytes.get(&character).copied())
                .collect::<Option<_>>()
                .ok_or(not_converted)
        }
    }
}
