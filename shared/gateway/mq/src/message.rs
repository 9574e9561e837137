//! Messages as a broker returns them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::base64_bytes::{self, Base64Bytes};
use crate::command::Persistence;
use crate::header_value::{HeaderValue, Weight};
use crate::properties::{Group, GroupId, GroupSequence, Properties};
use crate::time::Time;

/// Id of a message that the gateway put: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub [u8; 24]);

impl MessageId {
    /// Writes the id for brokers with textual ids: 48 lower-case hexadecimal characters.
    #[must_use]
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

/// Text of a body that `bodyText` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BodyAsText {
    /// The text is the body, if it is UTF-8.
    #[default]
    IfUtf8,
    /// The text was converted from the body's other character set.
    Is(String),
    /// There is no text: the body is in a character set that is not known here, whatever its bytes
    /// look like.
    Unknown,
}

/// Body as it came. Its JSON form always has `bodyBase64`; [`BodyAsText`] decides about `bodyText`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageBody(pub Vec<u8>);

/// Location, size and digest of a body that no response can carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredBody {
    /// Path at which the caller gets the body.
    pub url: String,
    /// Length of the body in bytes.
    pub size: u64,
    /// SHA-256 of the body, in lower-case hexadecimal digits.
    pub sha256: String,
}

/// Form in which a response shows a body.
#[derive(Clone, Copy)]
enum ShownBody<'a> {
    Base64(&'a str),
    Stored(&'a StoredBody),
}

/// A message that was got or browsed, with all members of the response. A property that a broker or
/// a message does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReceivedMessage {
    /// Bytes of the id on the wire.
    pub msg_id: Option<Vec<u8>>,
    /// Bytes of the correlation id on the wire.
    pub correl_id: Option<Vec<u8>>,
    /// Bytes of the body, unconverted.
    pub body: MessageBody,
    /// Text that the response shows of the body.
    pub text: BodyAsText,
    /// Headers with their types, as far as the broker keeps them.
    pub headers: BTreeMap<String, HeaderValue>,
    /// Persistence that the publisher set, or the broker's default.
    pub persistence: Persistence,
    /// Priority as the broker has it. AMQP allows values above 9.
    pub priority: u8,
    /// Lifetime in milliseconds with which the message was put. `None` if it never expires.
    pub expiry_ms: Option<u64>,
    /// Number of times that the message was delivered before and came back.
    pub backout_count: u64,
    /// Time that the publisher or the broker stamped; RabbitMQ stamps none by itself.
    pub put_at: Option<Timestamp>,
    /// Content type, or IBM MQ's format.
    pub format: Option<String>,
    /// Exchange to which the message was published; empty for the default one.
    pub exchange: Option<String>,
    /// Routing key with which the message was published.
    pub routing_key: Option<String>,
    /// True if the broker reports that the message may have been delivered before.
    pub redelivered: bool,
    /// Number of earlier deliveries that the queue has counted, if queues count them.
    pub delivery_count: Option<u64>,
    /// User that put the message, as the broker has verified.
    pub user_id: Option<String>,
    /// AMQP's property `cluster-id`, which has no meaning there but may be set.
    pub cluster_id: Option<String>,
    /// Properties that the publisher set.
    pub properties: Properties,
    /// Coded character set of IBM MQ.
    pub ccsid: Option<i32>,
    /// Encoding of numbers of IBM MQ.
    pub encoding: Option<i32>,
    /// Queues from which the message was dead-lettered, the last time first.
    pub deaths: Vec<Death>,
    /// Parts of the message that could not be read.
    pub unreadable: Unreadable,
}

/// Reason why a message left a queue for its dead-letter exchange or queue, and how often it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "`Death` in openapi.yaml describes each member")]
pub struct Death {
    pub queue: Option<String>,
    pub exchange: Option<String>,
    pub routing_keys: Vec<String>,
    pub reason: Option<String>,
    pub count: Option<u64>,
    pub at: Option<Time>,
    /// True if it was the message's first death.
    pub first: bool,
}

/// Properties that could not be read, as their bytes, by their names in responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable(pub BTreeMap<&'static str, Vec<u8>>);

impl Serialize for Unreadable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, bytes)| (name, Base64Bytes::encode(bytes))))
    }
}

/// A group as responses show it.
#[derive(Serialize)]
struct ShownGroup<'a> {
    id: &'a GroupId,
    sequence: Option<GroupSequence>,
    last: bool,
}

impl<'a> ShownGroup<'a> {
    fn of(Group { id, sequence, last }: &'a Group) -> Self {
        Self { id, sequence: *sequence, last: *last }
    }
}

/// Most bytes that a byte of text takes: a control character becomes six, whose backslash is
/// escaped again. Base64 takes less.
const LONGEST_CHARACTER: usize = 7;

/// Most bytes that a header's value takes beside those that it weighs: the digits of the largest
/// decimal or number of 64 bits with a fraction, its type's name, and punctuation.
const LONGEST_VALUE: usize = 512;

/// Most bytes that all other members take, with the names of all.
const LONGEST_MEMBERS: usize = 2048;

impl ReceivedMessage {
    /// Counts the bytes that the message takes in a response: its JSON, escaped once more because
    /// Lambda carries a response's body as a JSON string.
    #[must_use]
    pub fn carried_size(&self) -> usize {
        carried(base64_bytes::encoded_len(self.body.0.len()), &WithoutBase64(self))
    }

    /// Returns an upper bound of [`carried_size`](Self::carried_size), without writing JSON.
    #[must_use]
    pub fn carried_at_most(&self) -> usize {
        if !self.deaths.is_empty() || !self.unreadable.0.is_empty() {
            // Such messages are rare, and have forms of their own.
            return self.carried_size();
        }
        let own = &self.properties;
        let text = match &self.text {
            BodyAsText::IfUtf8 => self.body.0.len(),
            BodyAsText::Is(text) => text.len(),
            BodyAsText::Unknown => 0,
        };
        let texts = [&self.format, &self.exchange, &self.routing_key, &self.user_id, &self.cluster_id]
            .map(|text| text.as_ref().map_or(0, String::len));
        let properties = [&own.reply_to, &own.content_type, &own.content_encoding, &own.kind, &own.app_id]
            .map(|text| text.as_ref().map_or(0, |text| text.len()));
        let named = own.reply_to_queue_manager.as_ref().map_or(0, |name| name.len());
        let ids = [&self.msg_id, &self.correl_id].map(|id| id.as_ref().map_or(0, Vec::len));
        let group = own.group.as_ref().map_or(0, |group| match &group.id {
            GroupId::Text(text) => text.len(),
            GroupId::Bytes(bytes) => bytes.0.len(),
        });
        let header = |(name, value): (&String, &HeaderValue)| {
            value.weigh().plus(Weight { values: 0, bytes: name.len() })
        };
        let headers = self.headers.iter().map(header).fold(Weight::default(), Weight::plus);
        let bytes =
            texts.iter().chain(&properties).chain(&ids).fold(text, |sum, more| sum.saturating_add(*more));
        let bytes = bytes.saturating_add(named).saturating_add(group).saturating_add(headers.bytes);
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

    /// Returns the largest [`carried_size`](Self::carried_size) of a message whose body has `body`
    /// bytes: in base64, and as text of control characters, each of which is escaped twice.
    /// Properties and headers have a megabyte.
    #[must_use]
    pub const fn most_carried(body: usize) -> usize {
        body.saturating_mul(9).saturating_add(1_000_000)
    }

    /// Returns the message as a response shows it that does not carry its body.
    #[must_use]
    pub const fn with_stored_body<'a>(&'a self, body: &'a StoredBody) -> WithStoredBody<'a> {
        WithStoredBody { message: self, body }
    }

    fn write<S: Serializer>(&self, serializer: S, body: ShownBody<'_>) -> Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("ReceivedMessage", 36)?;
        json.serialize_field("msgIdBase64", &self.msg_id.as_deref().map(Base64Bytes::encode))?;
        json.serialize_field("correlIdBase64", &self.correl_id.as_deref().map(Base64Bytes::encode))?;
        match body {
            ShownBody::Base64(base64) => {
                json.serialize_field("bodyBase64", base64)?;
                if let Some(text) = self.body_text() {
                    json.serialize_field("bodyText", text)?;
                }
            }
            ShownBody::Stored(StoredBody { url, size, sha256 }) => {
                json.serialize_field("bodyBase64", &None::<&str>)?;
                json.serialize_field("bodyUrl", url)?;
                json.serialize_field("bodySize", size)?;
                json.serialize_field("bodySha256", sha256)?;
            }
        }
        json.serialize_field("headers", &self.headers)?;
        json.serialize_field("persistence", &self.persistence)?;
        json.serialize_field("priority", &self.priority)?;
        json.serialize_field("expiryMs", &self.expiry_ms)?;
        json.serialize_field("backoutCount", &self.backout_count)?;
        json.serialize_field("putAt", &self.put_at.map(|at| format!("{at:.3}")))?;
        json.serialize_field("format", &self.format)?;
        self.write_properties::<S>(&mut json)?;
        json.serialize_field("exchange", &self.exchange)?;
        json.serialize_field("routingKey", &self.routing_key)?;
        json.serialize_field("userId", &self.user_id)?;
        json.serialize_field("redelivered", &self.redelivered)?;
        json.serialize_field("deliveryCount", &self.delivery_count)?;
        json.serialize_field("deaths", &self.deaths)?;
        json.serialize_field("ccsid", &self.ccsid)?;
        json.serialize_field("encoding", &self.encoding)?;
        if let Some(cluster) = &self.cluster_id {
            json.serialize_field("clusterId", cluster)?;
        }
        if !self.unreadable.0.is_empty() {
            json.serialize_field("unreadable", &self.unreadable)?;
        }
        json.end()
    }

    fn write_properties<S: Serializer>(&self, json: &mut S::SerializeStruct) -> Result<(), S::Error> {
        let properties = &self.properties;
        json.serialize_field("replyTo", &properties.reply_to)?;
        json.serialize_field("replyToQueueManager", &properties.reply_to_queue_manager)?;
        json.serialize_field("messageType", &properties.message_type)?;
        json.serialize_field("contentType", &properties.content_type)?;
        json.serialize_field("contentEncoding", &properties.content_encoding)?;
        json.serialize_field("type", &properties.kind)?;
        json.serialize_field("appId", &properties.app_id)?;
        json.serialize_field("group", &properties.group.as_ref().map(ShownGroup::of))?;
        json.serialize_field("timestamp", &properties.timestamp)?;
        json.serialize_field("report", &properties.report)?;
        json.serialize_field("feedback", &properties.feedback)
    }
}

impl Serialize for ReceivedMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(serializer, ShownBody::Base64(&Base64Bytes::encode(&self.body.0)))
    }
}

/// A message whose body a response names and does not carry.
#[derive(Clone, Copy, Debug)]
pub struct WithStoredBody<'a> {
    message: &'a ReceivedMessage,
    body: &'a StoredBody,
}

impl WithStoredBody<'_> {
    /// Counts the bytes that the message takes in a response: see
    /// [`ReceivedMessage::carried_size`].
    #[must_use]
    pub fn carried_size(&self) -> usize {
        carried(0, self)
    }
}

impl Serialize for WithStoredBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.message.write(serializer, ShownBody::Stored(self.body))
    }
}

/// A message without the longest part of its JSON, whose length is known without writing it:
/// nothing in base64 is escaped.
struct WithoutBase64<'a>(&'a ReceivedMessage);

impl Serialize for WithoutBase64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer, ShownBody::Base64(""))
    }
}

/// Counts the bytes that `shown` takes in a response, and adds `more`.
fn carried(more: usize, shown: &impl Serialize) -> usize {
    let mut carried = Carried(more);
    // Counting does not fail.
    let _ = serde_json::to_writer(&mut carried, shown);
    carried.0
}

/// Counts the bytes of a JSON text as a JSON string carries them.
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
    use proptest::prelude::*;

    use super::*;
    use crate::header_value::{Decimal, Float64};
    use crate::properties::{MessageType, MqLong, PropertyText};

    #[test]
    fn the_longest_forms_of_all_members_are_within_the_bound() {
        let long = |length| "\u{1}".repeat(length);
        let text = || PropertyText::try_from(long(255)).ok();
        let id = GroupId::Bytes(Base64Bytes(vec![0xff; 24]));
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
            properties: Properties {
                reply_to: text(),
                reply_to_queue_manager: None,
                message_type: Some(MessageType::Datagram),
                content_type: text(),
                content_encoding: text(),
                kind: text(),
                app_id: text(),
                group: Some(Group { id, sequence: GroupSequence::try_from(999_999_999).ok(), last: true }),
                timestamp: Some(Time::from_seconds(u64::MAX)),
                report: MqLong::try_from(i64::from(i32::MIN)).ok(),
                feedback: MqLong::try_from(i64::from(i32::MIN)).ok(),
            },
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
