//! Converts messages from IBM MQ's form to the gateway's. `docs/messages.md` has the mapping.

use std::collections::BTreeMap;

use libmqm_sys as mqi;
use mq::{HeaderValue, MessageBody, Persistence, ReceivedMessage};

use crate::body_text::as_text;
use crate::dead_letter::deaths;
use crate::mqi::text_in;
use crate::properties::{CARRIERS, Carried, filled, stamped};
use crate::property_names::from_property;

/// Converts a message of IBM MQ, put by any application, to a [`ReceivedMessage`].
pub(crate) fn received(
    md: &mqi::MQMD,
    properties: Vec<(String, HeaderValue)>,
    body: Vec<u8>,
) -> ReceivedMessage {
    let backout_count = u64::try_from(md.BackoutCount).unwrap_or_default();
    let format = text_in(&md.Format);
    let mut got = Carried { put_at: stamped(md), ..Carried::of(*md, properties) };
    let own = CARRIERS.read(&mut got);
    // One by one, because most messages have few.
    let mut headers = BTreeMap::new();
    headers.extend(got.properties.into_iter().map(|(name, value)| (from_property(name), value)));
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
        put_at: got.put_at,
        format: filled(&md.Format),
        redelivered: backout_count > 0,
        delivery_count: Some(backout_count),
        user_id: filled(&md.UserIdentifier),
        properties: own,
        ccsid: Some(md.CodedCharSetId),
        encoding: Some(md.Encoding),
        deaths: deaths(md, &body),
        text: as_text(&format, md.CodedCharSetId, &body),
        headers,
        body: MessageBody(body),
        ..ReceivedMessage::default()
    }
}

/// Returns the message id or correlation id; `None` if all bytes are zero, which means "no id" in
/// IBM MQ.
fn id(bytes: mqi::MQBYTE24) -> Option<Vec<u8>> {
    (bytes != [0; 24]).then(|| bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use mq::{MessageType, MqLong};

    use super::*;
    use crate::mqi::{descriptor, fill};

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
        let message = received(&md, vec![("k$2d1".to_owned(), HeaderValue::Int32(5))], b"hello".to_vec());
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
    fn a_property_of_the_gateway_s_own_is_no_header() {
        let properties = vec![
            ("$contentType".to_owned(), HeaderValue::from("application/json")),
            ("$type".to_owned(), HeaderValue::Int8(1)),
        ];
        let message = received(&descriptor(), properties, Vec::new());
        assert_eq!(message.properties.content_type.as_deref(), Some("application/json"));
        // A property of another type was written by another application.
        assert_eq!(message.headers, BTreeMap::from([("$type".to_owned(), HeaderValue::Int8(1))]));
    }
}
