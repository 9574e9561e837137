//! Converts messages from IBM MQ's form to the gateway's. `docs/messages.md` has the mapping.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::{self, Date};
use jiff::tz::TimeZone;
use libmqm_sys as mqi;
use mq::{
    Base64Bytes, Float32, Float64, Group, GroupId, GroupSequence, HeaderValue, MessageBody, MessageType,
    MqLong, Persistence, Properties, PropertyText, ReceivedMessage, ReplyQueueManager, Time,
};

use crate::body_text::as_text;
use crate::dead_letter::deaths;
use crate::mqi::{PropertyValue, text_in};
use crate::property_names::{CONTENT_ENCODING, CONTENT_TYPE, TYPE, from_property};

/// Converts a message from any application to the gateway's form.
pub(crate) fn received(
    md: &mqi::MQMD,
    mut properties: Vec<(String, PropertyValue)>,
    body: Vec<u8>,
) -> ReceivedMessage {
    let backout_count = u64::try_from(md.BackoutCount).unwrap_or_default();
    let put_at = put_at(&text_in(&md.PutDate), &text_in(&md.PutTime));
    let format = text_in(&md.Format);
    ReceivedMessage {
        msg_id: id(md.MsgId),
        correl_id: id(md.CorrelId),
        persistence: match md.Persistence {
            mqi::MQPER_PERSISTENT => Persistence::Persistent,
            _ => Persistence::Nonpersistent,
        },
        priority: u8::try_from(md.Priority).unwrap_or_default(),
        expiry_ms: u64::try_from(md.Expiry).ok().map(|tenths| tenths.saturating_mul(100)),
        backout_count,
        put_at,
        format: filled(&format),
        redelivered: backout_count > 0,
        delivery_count: Some(backout_count),
        user_id: filled(&text_in(&md.UserIdentifier)),
        properties: Properties {
            reply_to: text(&text_in(&md.ReplyToQ)),
            reply_to_queue_manager: queue_manager(md),
            message_type: MessageType::from_number(md.MsgType),
            content_type: take(&mut properties, CONTENT_TYPE),
            content_encoding: take(&mut properties, CONTENT_ENCODING),
            kind: take(&mut properties, TYPE),
            app_id: text(&text_in(&md.PutApplName)),
            group: group(md),
            timestamp: put_at.and_then(|at| Time::try_from(at).ok()),
            report: number(md.Report),
            feedback: number(md.Feedback),
        },
        ccsid: Some(md.CodedCharSetId),
        encoding: Some(md.Encoding),
        deaths: deaths(md, &body),
        text: as_text(&format, md.CodedCharSetId, &body),
        headers: properties
            .into_iter()
            .map(|(name, value)| (from_property(&name), value.into()))
            .collect::<BTreeMap<_, _>>(),
        body: MessageBody(body),
        ..ReceivedMessage::default()
    }
}

/// The id, or `None` if all bytes are zero, which is IBM MQ's form of no id.
fn id(bytes: mqi::MQBYTE24) -> Option<Vec<u8>> {
    (bytes != [0; 24]).then(|| bytes.to_vec())
}

/// The text, or `None` if it is empty.
fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn queue_manager(md: &mqi::MQMD) -> Option<ReplyQueueManager> {
    filled(&text_in(&md.ReplyToQMgr)).and_then(|name| ReplyQueueManager::try_from(name).ok())
}

fn text(text: &str) -> Option<PropertyText> {
    filled(text).and_then(|text| PropertyText::try_from(text).ok())
}

/// The number, or `None` if it is 0, the value of every message that does not set it.
fn number(number: mqi::MQLONG) -> Option<MqLong> {
    MqLong::try_from(i64::from(number)).ok().filter(|number| number.get() != 0)
}

/// Takes a property that the gateway writes itself. A property of this name with another type is
/// left as a header.
fn take(properties: &mut Vec<(String, PropertyValue)>, name: &str) -> Option<PropertyText> {
    let index = properties.iter().position(|(known, _)| known == name)?;
    let (_, PropertyValue::Text(text)) = properties.get(index)? else { return None };
    let text = PropertyText::try_from(text.clone()).ok()?;
    properties.remove(index);
    Some(text)
}

/// Group of the message. Its id is text if it is valid UTF-8 without control characters.
fn group(md: &mqi::MQMD) -> Option<Group> {
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

/// Time from `YYYYMMDD` and `HHMMSSTH`, in UTC with a precision of 1/100 s.
pub(crate) fn put_at(date: &str, time: &str) -> Option<Timestamp> {
    let part = |text: &str, range: std::ops::Range<usize>| text.get(range)?.parse::<i16>().ok();
    let small = |text: &str, range| i8::try_from(part(text, range)?).ok();
    let date = Date::new(part(date, 0..4)?, small(date, 4..6)?, small(date, 6..8)?).ok()?;
    let nanoseconds = i32::from(part(time, 6..8)?) * 10_000_000;
    let (hour, minute, second) = (small(time, 0..2)?, small(time, 2..4)?, small(time, 4..6)?);
    let time = civil::Time::new(hour, minute, second, nanoseconds).ok()?;
    date.to_datetime(time).to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

impl From<PropertyValue> for HeaderValue {
    fn from(value: PropertyValue) -> Self {
        match value {
            PropertyValue::Null => Self::Null,
            PropertyValue::Boolean(value) => Self::Boolean(value),
            PropertyValue::Bytes(bytes) => Self::Bytes(bytes),
            PropertyValue::Int8(value) => Self::Int8(value),
            PropertyValue::Int16(value) => Self::Int16(value),
            PropertyValue::Int32(value) => Self::Int32(value),
            PropertyValue::Int64(value) => Self::Int64(value),
            PropertyValue::Float32(value) => Self::Float32(Float32::from(value)),
            PropertyValue::Float64(value) => Self::Float64(Float64::from(value)),
            PropertyValue::Text(text) => Self::Text(text),
            PropertyValue::TextBytes(bytes) => Self::TextBytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqi::{descriptor, fill};

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
    fn what_the_descriptor_says_is_in_the_message() {
        let mut md = descriptor();
        md.MsgId = [9; 24];
        md.Expiry = 123;
        md.BackoutCount = 2;
        md.Priority = 7;
        md.Persistence = mqi::MQPER_PERSISTENT;
        md.MsgType = mqi::MQMT_REPLY;
        md.Feedback = 258;
        fill(&mut md.Format, "MQSTR");
        fill(&mut md.ReplyToQ, "REPLIES");
        let message = received(&md, vec![("k$2d1".to_owned(), PropertyValue::Int32(5))], b"hello".to_vec());
        assert_eq!((message.msg_id, message.correl_id), (Some(vec![9; 24]), None));
        assert_eq!((message.expiry_ms, message.backout_count, message.priority), (Some(12_300), 2, 7));
        assert_eq!((message.redelivered, message.delivery_count), (true, Some(2)));
        assert_eq!((message.format.as_deref(), message.put_at), (Some("MQSTR"), None));
        assert_eq!(message.headers, BTreeMap::from([("k-1".to_owned(), HeaderValue::Int32(5))]));
        let own = &message.properties;
        assert_eq!((own.message_type, own.reply_to.as_deref()), (Some(MessageType::Reply), Some("REPLIES")));
        assert_eq!((own.feedback.map(MqLong::get), own.report), (Some(258), None));
        assert_eq!(received(&descriptor(), Vec::new(), Vec::new()).expiry_ms, None);
    }

    #[test]
    fn a_group_s_id_is_text_if_it_can_be() {
        let mut md = descriptor();
        assert_eq!(group(&md), None);
        md.MsgFlags = mqi::MQMF_LAST_MSG_IN_GROUP;
        md.MsgSeqNumber = 3;
        md.GroupId[..2].copy_from_slice(b"17");
        let id = GroupId::Text("17".to_owned().try_into().unwrap());
        let sequence = GroupSequence::try_from(3).ok();
        assert_eq!(group(&md), Some(Group { id, sequence, last: true }));
        md.GroupId = [0xff; 24];
        let id = GroupId::Bytes(Base64Bytes(vec![0xff; 24]));
        assert_eq!(group(&md), Some(Group { id, sequence, last: true }));
    }

    #[test]
    fn a_property_of_the_gateway_s_own_is_no_header() {
        let text = |text: &str| PropertyValue::Text(text.to_owned());
        let properties = vec![
            (CONTENT_TYPE.to_owned(), text("application/json")),
            (TYPE.to_owned(), PropertyValue::Int8(1)),
        ];
        let message = received(&descriptor(), properties, Vec::new());
        assert_eq!(message.properties.content_type.as_deref(), Some("application/json"));
        // A property of another type was written by another application.
        assert_eq!(message.headers, BTreeMap::from([(TYPE.to_owned(), HeaderValue::Int8(1))]));
    }
}
