//! Properties of a message apart from its body, its ids and its headers, under names that both
//! brokers share. `docs/messages.md` maps each to AMQP 0-9-1 and to IBM MQ.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base64_bytes::IdBytes;
use crate::bounded::{bounded, text};
use crate::command::{ExpiryMs, Persistence, Priority};
use crate::exchange::RoutingKey;
use crate::names::is_of_an_ibm_name;
use crate::time::Time;

text!(
    /// Text of a property, within AMQP's limit for a short string (AMQP 0-9-1, section 4.2.5.3).
    /// Narrower limits of IBM MQ are checked where the broker is known.
    PropertyText, 0..=255, |_| true, "any text"
);
text!(
    /// Name of the queue manager that a reply goes to (MQ_Q_MGR_NAME_LENGTH).
    ReplyQueueManager, 0..=48, is_of_an_ibm_name, "must consist of letters, digits and ./_%"
);
bounded!(
    /// Place of a message in its group (MQMD, MsgSeqNumber).
    GroupSequence: u32, 1..=999_999_999, default 1
);
bounded!(
    /// Number of IBM MQ's own, of 32 bits.
    MqLong: i32, -2_147_483_648..=2_147_483_647, default 0
);

/// Purpose of a message for its receiver (MQMD, MsgType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "IBM MQ's names")]
pub enum MessageType {
    Datagram,
    Request,
    Reply,
    Report,
}

impl MessageType {
    /// Returns the type's number at IBM MQ, from `MQMT_REQUEST` on.
    #[must_use]
    pub const fn as_number(self) -> i32 {
        match self {
            Self::Request => 1,
            Self::Reply => 2,
            Self::Report => 4,
            Self::Datagram => 8,
        }
    }

    /// Returns the type of a number of IBM MQ.
    #[must_use]
    pub const fn from_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Request),
            2 => Some(Self::Reply),
            4 => Some(Self::Report),
            8 => Some(Self::Datagram),
            _ => None,
        }
    }
}

/// Group of messages that belong together, and a message's place in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/messages.md describes each property")]
pub struct Group {
    pub id: GroupId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<GroupSequence>,
    #[serde(default, deserialize_with = "crate::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
}

/// The name of a group: text, or bytes as `{"base64": …}`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text says which")]
pub enum GroupId {
    Text(PropertyText),
    Bytes(IdBytes),
}

/// Properties that describe a message. A property that is not set is `None`.
///
/// Serialized, they take no more bytes than they took in a request: see [`crate::ExplicitMessage`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/messages.md describes each property")]
pub struct Properties {
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<PropertyText>,
    #[serde(rename = "rm", skip_serializing_if = "Option::is_none")]
    pub reply_to_queue_manager: Option<ReplyQueueManager>,
    #[serde(rename = "m", skip_serializing_if = "Option::is_none")]
    pub message_type: Option<MessageType>,
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    pub content_type: Option<PropertyText>,
    #[serde(rename = "ce", skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<PropertyText>,
    /// Kind of the message: `type` in requests and responses.
    #[serde(rename = "k", skip_serializing_if = "Option::is_none")]
    pub kind: Option<PropertyText>,
    #[serde(rename = "a", skip_serializing_if = "Option::is_none")]
    pub app_id: Option<PropertyText>,
    #[serde(rename = "g", skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    #[serde(rename = "t", skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
    #[serde(rename = "o", skip_serializing_if = "Option::is_none")]
    pub report: Option<MqLong>,
    #[serde(rename = "f", skip_serializing_if = "Option::is_none")]
    pub feedback: Option<MqLong>,
}

/// Properties that an explicit message sets for itself. They take precedence over those that the
/// request sets for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "docs/messages.md describes each property")]
pub struct OwnProps {
    pub persistence: Option<Persistence>,
    pub priority: Option<Priority>,
    pub expiry_ms: Option<ExpiryMs>,
    pub properties: Properties,
    pub routing_key: Option<RoutingKey>,
}

impl OwnProps {
    /// Returns the properties in a box; `None` if nothing is set.
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl Properties {
    /// True if no property is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the bytes of all properties together, as requests write them.
    pub(crate) fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |text| text.len().saturating_sub("{}".len()))
    }

    /// Returns these properties, with those that `more` sets in their place.
    #[must_use]
    pub fn overlaid_with(&self, more: &Self) -> Self {
        let (below, over) = (self.clone(), more.clone());
        Self {
            reply_to: over.reply_to.or(below.reply_to),
            reply_to_queue_manager: over.reply_to_queue_manager.or(below.reply_to_queue_manager),
            message_type: over.message_type.or(below.message_type),
            content_type: over.content_type.or(below.content_type),
            content_encoding: over.content_encoding.or(below.content_encoding),
            kind: over.kind.or(below.kind),
            app_id: over.app_id.or(below.app_id),
            group: over.group.or(below.group),
            timestamp: over.timestamp.or(below.timestamp),
            report: over.report.or(below.report),
            feedback: over.feedback.or(below.feedback),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaggedBytes {
    base64: IdBytes,
}

impl Serialize for GroupId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Bytes(bytes) => TaggedBytes { base64: bytes.clone() }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for GroupId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GroupIds)
    }
}

struct GroupIds;

impl<'de> Visitor<'de> for GroupIds {
    type Value = GroupId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or an object")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<GroupId, E> {
        PropertyText::try_from(text.to_owned()).map(GroupId::Text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<GroupId, A::Error> {
        let bytes = TaggedBytes::deserialize(MapAccessDeserializer::new(members))?;
        Ok(GroupId::Bytes(bytes.base64))
    }
}
