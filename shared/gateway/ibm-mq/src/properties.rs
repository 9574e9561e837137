//! Writes the gateway's message properties into messages for IBM MQ, and reads them from received
//! messages. `docs/messages.md` has the mapping.

use std::ffi::c_char;

use jiff::Timestamp;
use jiff::civil::{self, Date};
use jiff::tz::TimeZone;
use libmqm_sys::{self as mqi, MQLONG};
use mq::{
    Base64Bytes, Carrier, Carriers, Group, GroupId, GroupSequence, HeaderValue, MessageType, MqLong,
    PropertyText, Time,
};

use crate::mqi::{fill, text_in};
use crate::outgoing::padded;
use crate::property_names::is_own;

/// Message descriptor and message properties of one IBM MQ message, which carry the properties that
/// the gateway knows.
pub(crate) struct Carried {
    pub(crate) descriptor: mqi::MQMD,
    pub(crate) properties: Vec<(String, HeaderValue)>,
    /// Time at which a received message was put; `None` for a message to put, or if the time is
    /// invalid.
    pub(crate) put_at: Option<Timestamp>,
}

impl Carried {
    /// Combines the descriptor and the properties of a message to put.
    pub(crate) fn of(descriptor: mqi::MQMD, properties: Vec<(String, HeaderValue)>) -> Self {
        Self { descriptor, properties, put_at: None }
    }
}

/// Group id of zeros, which means "none" in IBM MQ (MQGI_NONE).
const NO_GROUP: mqi::MQBYTE24 = [0; 24];

/// Builds the `Carrier` (functions that write and read) of a property of type text. IBM MQ carries
/// it as a message property with a reserved `$` name.
macro_rules! own {
    ($name:literal) => {{
        const { assert!(is_own($name)) };
        Carrier {
            write: |text, put| {
                put.properties.push(($name.to_owned(), HeaderValue::from(text.as_str())));
                Ok(())
            },
            read: |got| take(&mut got.properties, $name),
        }
    }};
}

/// Builds the `Carrier` (functions that write and read) of a property of type number. IBM MQ
/// carries it in a descriptor field, in which 0 means "not set".
macro_rules! number {
    ($field:ident) => {
        Carrier {
            write: |number, put| {
                put.descriptor.$field = number.get();
                Ok(())
            },
            read: |got| MqLong::try_from(i64::from(got.descriptor.$field)).ok().filter(|set| set.get() != 0),
        }
    };
}

/// Functions that write and read each property of the gateway in IBM MQ's descriptor and message
/// properties.
pub(crate) static CARRIERS: Carriers<Carried, Carried> = Carriers {
    reply_to: Carrier {
        write: |queue, put| {
            fill_fixed(&mut put.descriptor.ReplyToQ, queue)?;
            match queue.chars().all(mq::is_of_an_ibm_name) {
                true => Ok(()),
                false => Err("must be a queue's name for IBM MQ, of letters, digits and ./_%".to_owned()),
            }
        },
        read: |got| text(&got.descriptor.ReplyToQ),
    },
    reply_to_queue_manager: Carrier {
        write: |name, put| {
            fill(&mut put.descriptor.ReplyToQMgr, name);
            Ok(())
        },
        read: |got| filled(&got.descriptor.ReplyToQMgr)?.try_into().ok(),
    },
    message_type: Carrier {
        write: |message_type, put| {
            put.descriptor.MsgType = message_type.as_number();
            Ok(())
        },
        read: |got| MessageType::from_number(got.descriptor.MsgType),
    },
    content_type: own!("$contentType"),
    content_encoding: own!("$contentEncoding"),
    kind: own!("$type"),
    app_id: Carrier {
        write: |name, put| fill_fixed(&mut put.descriptor.PutApplName, name),
        read: |got| text(&got.descriptor.PutApplName),
    },
    group: Carrier {
        write: |group, put| write_group(group, &mut put.descriptor),
        read: |got| read_group(&got.descriptor),
    },
    timestamp: Carrier {
        write: |at, put| {
            let beyond = || format!("must not be after {} for IBM MQ", Time::LATEST_TEXT);
            stamp(&mut put.descriptor, at.as_timestamp().ok_or_else(beyond)?);
            Ok(())
        },
        read: |got| Time::try_from(got.put_at?).ok(),
    },
    report: number!(Report),
    feedback: number!(Feedback),
};

/// Writes a text into a descriptor field of fixed length. Fails for a text that would be read back
/// differently: too long, empty, with NUL, or with trailing blanks.
fn fill_fixed<const N: usize>(field: &mut [c_char; N], text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("must not be empty for IBM MQ, which has no such text but none".to_owned());
    }
    if text.len() > N {
        return Err(format!("must not have more than {N} bytes for IBM MQ"));
    }
    if text.contains('\0') {
        return Err("must not contain NUL, at which IBM MQ ends it".to_owned());
    }
    if text.ends_with(' ') {
        return Err("must not end with a blank, which IBM MQ takes away".to_owned());
    }
    fill(field, text);
    Ok(())
}

/// Returns the text of a descriptor field without padding; `None` if the field is empty.
pub(crate) fn filled(field: &[c_char]) -> Option<String> {
    Some(text_in(field).into_owned()).filter(|text| !text.is_empty())
}

fn text(field: &[c_char]) -> Option<PropertyText> {
    filled(field)?.try_into().ok()
}

/// Removes the message property of this reserved name from the list, and returns its text; `None`
/// if it is absent. A property of another type than text stays in the list and becomes a header.
fn take(properties: &mut Vec<(String, HeaderValue)>, name: &str) -> Option<PropertyText> {
    let index = properties.iter().position(|(known, _)| known == name)?;
    let (_, HeaderValue::Text(text)) = properties.get(index)? else { return None };
    let text = PropertyText::try_from(text.clone()).ok()?;
    properties.remove(index);
    Some(text)
}

fn write_group(group: &Group, md: &mut mqi::MQMD) -> Result<(), String> {
    md.GroupId = group_id(&group.id)?;
    md.MsgFlags |= mqi::MQMF_MSG_IN_GROUP;
    if group.last {
        md.MsgFlags |= mqi::MQMF_LAST_MSG_IN_GROUP;
    }
    if let Some(sequence) = group.sequence {
        md.MsgSeqNumber = MQLONG::try_from(sequence.get()).unwrap_or(MQLONG::MAX);
    }
    Ok(())
}

fn group_id(id: &GroupId) -> Result<mqi::MQBYTE24, String> {
    let bytes = match id {
        GroupId::Text(text) => text.as_bytes(),
        GroupId::Bytes(bytes) => bytes.0.as_slice(),
    };
    match padded(bytes) {
        None => Err("IBM MQ carries ids of groups of at most 24 bytes".to_owned()),
        Some(NO_GROUP) => {
            Err("to IBM MQ an id of no bytes, or of zeros alone, is none, and it would make one up"
                .to_owned())
        }
        Some(_) if bytes.len() < NO_GROUP.len() && bytes.ends_with(&[0]) => {
            Err("must not end with NUL, with which IBM MQ fills an id".to_owned())
        }
        Some(id) => Ok(id),
    }
}

/// Reads the group of a message; `None` if the message is in no group. The group's id is text if it
/// is valid UTF-8 without control characters, otherwise bytes.
fn read_group(md: &mqi::MQMD) -> Option<Group> {
    let last = md.MsgFlags & mqi::MQMF_LAST_MSG_IN_GROUP != 0;
    if !last && md.MsgFlags & mqi::MQMF_MSG_IN_GROUP == 0 {
        return None;
    }
    let length = md.GroupId.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let bytes = md.GroupId.get(..length).unwrap_or_default();
    let id = match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => {
            GroupId::Text(PropertyText::try_from(text.to_owned()).ok()?)
        }
        _ => GroupId::Bytes(Base64Bytes(bytes.to_vec())),
    };
    let sequence = GroupSequence::try_from(i64::from(md.MsgSeqNumber)).ok();
    Some(Group { id, sequence, last })
}

/// Writes `at` into a message descriptor: the put date as `YYYYMMDD` and the put time as
/// `HHMMSSTH`, in UTC.
pub(crate) fn stamp(md: &mut mqi::MQMD, at: Timestamp) {
    let at = at.to_zoned(TimeZone::UTC);
    let hundredths = at.subsec_nanosecond() / 10_000_000;
    let time = format!("{:02}{:02}{:02}{hundredths:02}", at.hour(), at.minute(), at.second());
    fill(&mut md.PutDate, &format!("{:04}{:02}{:02}", at.year(), at.month(), at.day()));
    fill(&mut md.PutTime, &time);
}

/// Returns the time at which a message was put, from its descriptor; `None` if the fields are
/// invalid.
pub(crate) fn stamped(md: &mqi::MQMD) -> Option<Timestamp> {
    put_at(&text_in(&md.PutDate), &text_in(&md.PutTime))
}

/// Converts a date `YYYYMMDD` and a time `HHMMSSTH` in UTC to a timestamp (precision: 1/100 s);
/// `None` if one of them is invalid.
pub(crate) fn put_at(date: &str, time: &str) -> Option<Timestamp> {
    let part = |text: &str, range: std::ops::Range<usize>| text.get(range)?.parse::<i16>().ok();
    let small = |text: &str, range| i8::try_from(part(text, range)?).ok();
    let date = Date::new(part(date, 0..4)?, small(date, 4..6)?, small(date, 6..8)?).ok()?;
    let nanoseconds = i32::from(part(time, 6..8)?) * 10_000_000;
    let (hour, minute, second) = (small(time, 0..2)?, small(time, 2..4)?, small(time, 4..6)?);
    let time = civil::Time::new(hour, minute, second, nanoseconds).ok()?;
    TimeZone::UTC.to_timestamp(date.to_datetime(time)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqi::descriptor;

    #[test]
    fn times_are_written_to_a_hundredth_of_a_second_in_utc() {
        let at: Timestamp = "2026-11-22T18:05:09.129+01:00".parse().unwrap();
        let mut md = descriptor();
        stamp(&mut md, at);
        assert_eq!((&*text_in(&md.PutDate), &*text_in(&md.PutTime)), ("20261122", "17050912"));
    }

    #[test]
    fn put_times_have_hundredths_of_a_second_in_utc() {
        let at = put_at("20261122", "17450912").unwrap();
        assert_eq!(at.to_string(), "2026-11-22T17:45:09.12Z");
        for (date, time) in
            [("", ""), ("20261322", "17450912"), ("20261122", "1745"), ("2026112é", "17450912")]
        {
            assert_eq!(put_at(date, time), None);
        }
    }

    #[test]
    fn a_group_s_id_is_text_if_it_can_be() {
        let mut md = descriptor();
        assert_eq!(read_group(&md), None);
        md.MsgFlags = mqi::MQMF_LAST_MSG_IN_GROUP;
        md.MsgSeqNumber = 3;
        md.GroupId[..2].copy_from_slice(b"17");
        let id = GroupId::Text("17".to_owned().try_into().unwrap());
        let sequence = GroupSequence::try_from(3).ok();
        assert_eq!(read_group(&md), Some(Group { id, sequence, last: true }));
        md.GroupId = [0xff; 24];
        let id = GroupId::Bytes(Base64Bytes(vec![0xff; 24]));
        assert_eq!(read_group(&md), Some(Group { id, sequence, last: true }));
    }
}
