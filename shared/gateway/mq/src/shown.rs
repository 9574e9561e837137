//! Messages in the form of a response, and the number of bytes that they take there.

use std::io::{self, Write};

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::base64_bytes::{self, Base64Bytes};
use crate::header_value::{HeaderValue, Weight};
use crate::message::{BodyAsText, ReceivedMessage, StoredBody};

/// Form in which a response shows a message body: base64, or a reference to a stored object.
#[derive(Clone, Copy, Debug)]
enum ShownBody<'a> {
    Base64(&'a str),
    Stored(&'a StoredBody),
}

/// Maximum number of response bytes for one byte of text: a control character becomes `\u00XX` (six
/// bytes), whose backslash is escaped again. Base64 takes less.
const LONGEST_CHARACTER: usize = 7;

/// Maximum number of response bytes for one header value besides its text: the digits of the
/// largest number, the name of its type, and punctuation.
const LONGEST_VALUE: usize = 512;

/// Maximum number of response bytes for all members of a message that are not text of variable
/// length, with all member names.
const LONGEST_MEMBERS: usize = 2048;

impl ReceivedMessage {
    /// Counts the bytes that the message takes in a response: its JSON, escaped a second time
    /// because Lambda carries the response body as a JSON string.
    #[must_use]
    pub fn carried_size(&self) -> usize {
        // The longest part's length is known without writing it: nothing in base64 is escaped.
        carried(base64_bytes::encoded_len(self.body.0.len()), &self.shown(ShownBody::Base64("")))
    }

    /// Returns an upper bound of [`carried_size`](Self::carried_size), computed from lengths
    /// without writing JSON.
    #[must_use]
    pub fn carried_at_most(&self) -> usize {
        if !self.deaths.is_empty() || !self.unreadable.0.is_empty() {
            // Such messages are rare, and have forms of their own.
            return self.carried_size();
        }
        let text = match &self.text {
            BodyAsText::IfUtf8 => self.body.0.len(),
            BodyAsText::Is(text) => text.len(),
            BodyAsText::Unknown => 0,
        };
        let texts = [&self.format, &self.exchange, &self.routing_key, &self.user_id, &self.cluster_id]
            .map(|text| text.as_ref().map_or(0, String::len));
        let ids = [&self.msg_id, &self.correl_id].map(|id| id.as_ref().map_or(0, Vec::len));
        let header = |(name, value): (&String, &HeaderValue)| {
            value.weigh().plus(Weight { values: 0, bytes: name.len() })
        };
        let headers = self.headers.iter().map(header).fold(Weight::default(), Weight::plus);
        let bytes = texts.into_iter().chain(ids).chain([text, headers.bytes, self.properties.text_len()]);
        let bytes = bytes.fold(0, usize::saturating_add);
        base64_bytes::encoded_len(self.body.0.len())
            .saturating_add(bytes.saturating_mul(LONGEST_CHARACTER))
            .saturating_add(headers.values.saturating_mul(LONGEST_VALUE))
            .saturating_add(LONGEST_MEMBERS)
    }

    fn body_text(&self) -> Option<&str> {
        match &self.text {
            BodyAsText::IfUtf8 => std::str::from_utf8(&self.body.0).ok(),
            BodyAsText::Is(text) => Some(text),
            BodyAsText::Unknown => None,
        }
    }

    /// Returns the largest possible [`carried_size`](Self::carried_size) of a message with a body
    /// of `body` bytes: its base64, its text in which each character is escaped twice, and 1 MB for
    /// properties and headers.
    #[must_use]
    pub const fn most_carried(body: usize) -> usize {
        body.saturating_mul(9).saturating_add(1_000_000)
    }

    /// Returns the response form of the message with a reference to its stored body.
    #[must_use]
    pub const fn with_stored_body<'a>(&'a self, body: &'a StoredBody) -> ShownMessage<'a> {
        self.shown(ShownBody::Stored(body))
    }

    const fn shown<'a>(&'a self, body: ShownBody<'a>) -> ShownMessage<'a> {
        ShownMessage { message: self, body }
    }
}

impl Serialize for ReceivedMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown(ShownBody::Base64(&Base64Bytes::encode(&self.body.0))).serialize(serializer)
    }
}

/// Response form of a message, with its body or with a reference to the stored body.
#[derive(Clone, Copy, Debug)]
pub struct ShownMessage<'a> {
    message: &'a ReceivedMessage,
    body: ShownBody<'a>,
}

impl ShownMessage<'_> {
    /// Counts the bytes that the message takes in a response, as [`ReceivedMessage::carried_size`]
    /// does.
    #[must_use]
    pub fn carried_size(&self) -> usize {
        carried(0, self)
    }
}

impl Serialize for ShownMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { message, body } = self;
        let mut json = serializer.serialize_map(None)?;
        json.serialize_entry("msgIdBase64", &message.msg_id.as_deref().map(Base64Bytes::encode))?;
        json.serialize_entry("correlIdBase64", &message.correl_id.as_deref().map(Base64Bytes::encode))?;
        match body {
            ShownBody::Base64(base64) => {
                json.serialize_entry("bodyBase64", base64)?;
                if let Some(text) = message.body_text() {
                    json.serialize_entry("bodyText", text)?;
                }
            }
            ShownBody::Stored(StoredBody { url, size, sha256 }) => {
                json.serialize_entry("bodyBase64", &None::<&str>)?;
                json.serialize_entry("bodyUrl", url)?;
                json.serialize_entry("bodySize", size)?;
                json.serialize_entry("bodySha256", sha256)?;
            }
        }
        json.serialize_entry("headers", &message.headers)?;
        json.serialize_entry("persistence", &message.persistence)?;
        json.serialize_entry("priority", &message.priority)?;
        json.serialize_entry("expiryMs", &message.expiry_ms)?;
        json.serialize_entry("backoutCount", &message.backout_count)?;
        json.serialize_entry("putAt", &message.put_at.map(|at| format!("{at:.3}")))?;
        json.serialize_entry("format", &message.format)?;
        message.properties.show(&mut json)?;
        json.serialize_entry("exchange", &message.exchange)?;
        json.serialize_entry("routingKey", &message.routing_key)?;
        json.serialize_entry("userId", &message.user_id)?;
        json.serialize_entry("redelivered", &message.redelivered)?;
        json.serialize_entry("deliveryCount", &message.delivery_count)?;
        json.serialize_entry("deaths", &message.deaths)?;
        json.serialize_entry("ccsid", &message.ccsid)?;
        json.serialize_entry("encoding", &message.encoding)?;
        if let Some(cluster) = &message.cluster_id {
            json.serialize_entry("clusterId", cluster)?;
        }
        if !message.unreadable.0.is_empty() {
            json.serialize_entry("unreadable", &message.unreadable)?;
        }
        json.end()
    }
}

/// Returns `more` plus the number of bytes that `shown` takes in a response.
fn carried(more: usize, shown: &impl Serialize) -> usize {
    let mut carried = Carried(more);
    // Counting does not fail.
    let _ = serde_json::to_writer(&mut carried, shown);
    carried.0
}

/// Counter of the bytes that JSON text takes when it is escaped into a JSON string.
struct Carried(usize);

impl Write for Carried {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let escapes = text.iter().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        self.0 += text.len() + escapes;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::header_value::{Decimal, Float64};
    use crate::message::{Death, MessageBody};
    use crate::properties::Properties;
    use crate::property_values::{Group, GroupId, PropertyText};
    use crate::time::Time;

    #[test]
    fn the_longest_forms_of_all_members_are_within_the_bound() {
        let long = |length| "\u{1}".repeat(length);
        let headers = [
            HeaderValue::Float64(Float64::from(f64::MIN)),
            HeaderValue::Float64(Float64::from(-f64::MIN_POSITIVE)),
            HeaderValue::Decimal(Decimal { scale: 255, digits: u32::MAX }),
            HeaderValue::Int64(i64::MIN),
            HeaderValue::Time(Time::from_seconds(u64::MAX)),
            HeaderValue::Null,
            HeaderValue::TextBytes(vec![0xff; 40]),
            HeaderValue::Text(long(40)),
            HeaderValue::Array(vec![HeaderValue::UInt8(1); 9]),
            HeaderValue::Table(BTreeMap::from([(long(9), HeaderValue::Bytes(vec![0; 9]))])),
            HeaderValue::Table(BTreeMap::from([("time".to_owned(), HeaderValue::Text("noon".to_owned()))])),
        ];
        let message = ReceivedMessage {
            msg_id: Some(vec![0xff; 24]),
            correl_id: Some(vec![0xff; 255]),
            body: MessageBody(long(80).into_bytes()),
            headers: headers
                .into_iter()
                .enumerate()
                .map(|(at, value)| (format!("{at}\u{1}"), value))
                .collect(),
            priority: u8::MAX,
            expiry_ms: Some(u64::MAX),
            backout_count: u64::MAX,
            put_at: Some(Timestamp::MAX),
            format: Some(long(30)),
            exchange: Some(long(255)),
            routing_key: Some(long(255)),
            delivery_count: Some(u64::MAX),
            user_id: Some(long(255)),
            cluster_id: Some(long(255)),
            properties: Properties::longest(),
            ccsid: Some(i32::MIN),
            encoding: Some(i32::MIN),
            ..ReceivedMessage::default()
        };
        assert!(message.carried_size() <= message.carried_at_most());
        // The same message without its heavy parts, so that only the constant is left.
        let bare = ReceivedMessage {
            headers: BTreeMap::new(),
            body: MessageBody::default(),
            text: BodyAsText::Unknown,
            ..message
        };
        assert!(bare.carried_size() <= bare.carried_at_most());
    }

    proptest! {
        #[test]
        fn the_carried_size_is_that_of_the_json_escaped_once_more(
            body in prop_oneof![prop::collection::vec(any::<u8>(), 0..80), "\\PC{0,40}".prop_map(String::into_bytes)],
            text in "\\PC{0,20}",
            msg_id in prop::option::of(prop::collection::vec(any::<u8>(), 0..30)),
            is_full in any::<bool>(),
        ) {
            let mut message = ReceivedMessage {
                msg_id,
                body: MessageBody(body),
                headers: BTreeMap::from([(text.clone(), HeaderValue::Text(text.clone()))]),
                expiry_ms: Some(7),
                put_at: Some(Timestamp::UNIX_EPOCH),
                ..ReceivedMessage::default()
            };
            if is_full {
                let name = PropertyText::try_from(text.clone()).ok();
                let id = GroupId::Bytes(Base64Bytes(text.clone().into_bytes()));
                message.properties = Properties {
                    reply_to: name.clone(),
                    kind: name,
                    group: Some(Group { id, sequence: None, last: true }),
                    timestamp: Some(Time::from_seconds(u64::MAX)),
                    ..Properties::default()
                };
                message.deaths = vec![Death { queue: Some(text.clone()), routing_keys: vec![text.clone()], ..Death::default() }];
                message.cluster_id = Some(text.clone());
                message.unreadable.0.insert("headers", text.clone().into_bytes());
                message.text = BodyAsText::Is(text);
            }
            let json = serde_json::to_string(&message).unwrap();
            let escapes = json.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
            prop_assert_eq!(message.carried_size(), json.len() + escapes);
            prop_assert!(message.carried_size() <= ReceivedMessage::most_carried(message.body.0.len()));
            prop_assert!(message.carried_size() <= message.carried_at_most());
            let stored = StoredBody { url: "/messages/bodies/1".to_owned(), size: 80, sha256: "ab".repeat(32) };
            let stored = message.with_stored_body(&stored);
            let json = serde_json::to_string(&stored).unwrap();
            let escapes = json.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
            prop_assert_eq!(stored.carried_size(), json.len() + escapes);
        }
    }
}
