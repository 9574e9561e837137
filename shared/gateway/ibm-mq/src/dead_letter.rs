//! Reads the dead-letter header (MQDLH), which a queue manager puts before the body of a message
//! that it could not deliver. It has the message's first destination, the reason and the time.

use std::mem::offset_of;

use libmqm_sys::{self as mqi, MQDLH, MQLONG};
use mq::{Death, Time};

use crate::mqi::text_in;
use crate::properties::put_at;
use crate::reason::Reason;

/// Format name (MQMD `Format`) of a body that begins with a dead-letter header:
/// MQFMT_DEAD_LETTER_HEADER.
const DEAD_LETTER: &str = "MQDEAD";

/// Encoding flag for little-endian integers. The integers of a dead-letter header are in the byte
/// order of the machine that wrote it.
const REVERSED: MQLONG = mqi::MQENC_INTEGER_REVERSED;

/// Returns the queue, reason and time of the dead-lettering of the message, from the dead-letter
/// header at the start of its body; empty if there is no header. The header stays in the body.
pub(crate) fn deaths(md: &mqi::MQMD, body: &[u8]) -> Vec<Death> {
    if text_in(&md.Format) != DEAD_LETTER {
        return Vec::new();
    }
    death(md.Encoding, body).into_iter().collect()
}

fn death(encoding: MQLONG, body: &[u8]) -> Option<Death> {
    let text = |offset, length| text_at(body, offset, length);
    if text(offset_of!(MQDLH, StrucId), 4)? != "DLH" {
        return None;
    }
    let reason = number_at(encoding, body, offset_of!(MQDLH, Reason))?;
    let queue = text(offset_of!(MQDLH, DestQName), mqi::MQ_Q_NAME_LENGTH)?;
    let date = text(offset_of!(MQDLH, PutDate), mqi::MQ_PUT_DATE_LENGTH)?;
    let time = text(offset_of!(MQDLH, PutTime), mqi::MQ_PUT_TIME_LENGTH)?;
    Some(Death {
        queue: Some(queue).filter(|queue| !queue.is_empty()),
        reason: Some(reason_name(reason)),
        at: put_at(&date, &time).and_then(|at| Time::try_from(at).ok()),
        first: true,
        ..Death::default()
    })
}

/// Destination queue of a message before it was dead-lettered, as its dead-letter header names it,
/// with the format of the body behind the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) queue: String,
    pub(crate) queue_manager: String,
    format: mqi::MQCHAR8,
    encoding: MQLONG,
    ccsid: MQLONG,
}

impl Origin {
    /// Removes the dead-letter header: restores the format fields of the descriptor, and returns
    /// the body after the header.
    pub(crate) fn take_off<'b>(&self, md: &mut mqi::MQMD, body: &'b [u8]) -> &'b [u8] {
        (md.Format, md.Encoding, md.CodedCharSetId) = (self.format, self.encoding, self.ccsid);
        body.get(size_of::<MQDLH>()..).unwrap_or_default()
    }
}

/// Reads the first destination from the dead-letter header at the start of `body`; `None` if there
/// is no header. `body` may be truncated after the header.
pub(crate) fn origin(md: &mqi::MQMD, body: &[u8]) -> Option<Origin> {
    if text_in(&md.Format) != DEAD_LETTER || body.get(..4)? != b"DLH " || body.len() < size_of::<MQDLH>() {
        return None;
    }
    let text = |offset, length| text_at(body, offset, length);
    let number = |offset| number_at(md.Encoding, body, offset);
    let mut format: mqi::MQCHAR8 = Default::default();
    crate::mqi::fill(&mut format, &text(offset_of!(MQDLH, Format), mqi::MQ_FORMAT_LENGTH)?);
    Some(Origin {
        queue: text(offset_of!(MQDLH, DestQName), mqi::MQ_Q_NAME_LENGTH)?,
        queue_manager: text(offset_of!(MQDLH, DestQMgrName), mqi::MQ_Q_MGR_NAME_LENGTH)?,
        format,
        encoding: number(offset_of!(MQDLH, Encoding))?,
        ccsid: number(offset_of!(MQDLH, CodedCharSetId))?,
    })
}

fn text_at(body: &[u8], offset: usize, length: usize) -> Option<String> {
    let bytes = body.get(offset..offset + length)?;
    let bytes: Vec<u8> = bytes.iter().copied().take_while(|byte| *byte != 0).collect();
    Some(String::from_utf8_lossy(&bytes).trim_end_matches(' ').to_owned())
}

fn number_at(encoding: MQLONG, body: &[u8], offset: usize) -> Option<MQLONG> {
    let bytes = body.get(offset..)?.first_chunk::<4>().copied()?;
    Some(if encoding & mqi::MQENC_INTEGER_MASK == REVERSED {
        MQLONG::from_le_bytes(bytes)
    } else {
        MQLONG::from_be_bytes(bytes)
    })
}

/// Returns the name of the reason in a dead-letter header: that of an MQRC reason code, or the
/// number of a feedback code as text.
fn reason_name(code: MQLONG) -> String {
    match Reason::of(code).name {
        "unknown" => code.to_string(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqi::{descriptor, fill};

    fn header(reason: [u8; 4]) -> Vec<u8> {
        let mut header = vec![b' '; size_of::<MQDLH>()];
        let mut write =
            |offset: usize, bytes: &[u8]| header[offset..offset + bytes.len()].copy_from_slice(bytes);
        write(offset_of!(MQDLH, StrucId), b"DLH ");
        write(offset_of!(MQDLH, Reason), &reason);
        write(offset_of!(MQDLH, DestQName), b"ORDERS");
        write(offset_of!(MQDLH, PutDate), b"2026112217450912");
        header.extend_from_slice(b"body");
        header
    }

    #[test]
    fn a_dead_letter_header_says_why_and_when_in_either_order_of_bytes() {
        let mut md = descriptor();
        fill(&mut md.Format, "MQDEAD");
        for (encoding, reason) in [(546, 2053_i32.to_le_bytes()), (273, 2053_i32.to_be_bytes())] {
            md.Encoding = encoding;
            let [death] = &deaths(&md, &header(reason))[..] else { panic!("no death") };
            assert_eq!(death.queue.as_deref(), Some("ORDERS"));
            assert_eq!(death.reason.as_deref(), Some("MQRC_Q_FULL"));
            assert_eq!(death.at.unwrap().to_string(), "2026-11-22T17:45:09.12Z");
        }
    }

    #[test]
    fn a_message_goes_back_as_what_it_was_before_it_died() {
        let mut md = descriptor();
        fill(&mut md.Format, "MQDEAD");
        let mut body = header(2053_i32.to_le_bytes());
        let mut write =
            |offset: usize, bytes: &[u8]| body[offset..offset + bytes.len()].copy_from_slice(bytes);
        write(offset_of!(MQDLH, DestQMgrName), b"QM1");
        write(offset_of!(MQDLH, Format), b"MQSTR   ");
        write(offset_of!(MQDLH, Encoding), &273_i32.to_le_bytes());
        write(offset_of!(MQDLH, CodedCharSetId), &819_i32.to_le_bytes());
        let origin = origin(&md, &body).unwrap();
        assert_eq!((origin.queue.as_str(), origin.queue_manager.as_str()), ("ORDERS", "QM1"));
        assert_eq!(origin.take_off(&mut md, &body), b"body");
        assert_eq!((&*text_in(&md.Format), md.Encoding, md.CodedCharSetId), ("MQSTR", 273, 819));
        assert_eq!(super::origin(&md, &body), None);
    }

    #[test]
    fn what_is_no_dead_letter_header_has_no_history() {
        let mut md = descriptor();
        assert_eq!(deaths(&md, &header(2053_i32.to_le_bytes())), []);
        fill(&mut md.Format, "MQDEAD");
        for body in [&b""[..], b"DLH ", &[b'x'; 200]] {
            assert_eq!(deaths(&md, body), []);
        }
    }
}
