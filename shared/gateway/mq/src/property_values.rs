//! Types of the values that properties have, and how answers show and count them.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base64_bytes::IdBytes;
use crate::bounded::{bounded, text};
use crate::names::is_of_an_ibm_name;
use crate::time::Time;

text!(
    /// The text of a property, within AMQP's limit for a short string (AMQP 0-9-1, section
    /// 4.2.5.3). What IBM MQ has less room for is checked where the broker is known.
    PropertyText, 0..=255, |_| true, "any text"
);
text!(
    /// The queue manager that a reply goes to (MQ_Q_MGR_NAME_LENGTH).
    ReplyQueueManager, 0..=48, is_of_an_ibm_name, "must consist of letters, digits and ./_%"
);
bounded!(
    /// A message's place in its group (MQMD, MsgSeqNumber).
    GroupSequence: u32, 1..=999_999_999, default 1
);
bounded!(
    /// A number of IBM MQ's own, of 32 bits.
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
    /// The number that stands for it at IBM MQ, from `MQMT_REQUEST` on.
    #[must_use]
    pub const fn as_number(self) -> i32 {
        match self {
            Self::Request => 1,
            Self::Reply => 2,
            Self::Report => 4,
            Self::Datagram => 8,
        }
    }

    /// The type that a number of IBM MQ stands for.
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

/// Messages that belong together, and a message's place among them.
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

/// Value of a property, as answers show it and count its bytes.
pub(crate) trait Value: Serialize {
    /// The form in which answers have the value.
    fn shown(&self) -> impl Serialize {
        self
    }

    /// Bytes of the value's text or id. The bound of a message's size has room for anything else.
    fn text_bytes(&self) -> usize {
        0
    }

    /// The value that takes most bytes in an answer.
    #[cfg(test)]
    fn longest() -> Self;
}

impl Value for MessageType {
    #[cfg(test)]
    fn longest() -> Self {
        Self::Datagram
    }
}

impl Value for MqLong {
    #[cfg(test)]
    fn longest() -> Self {
        Self(Self::MIN)
    }
}

impl Value for Time {
    #[cfg(test)]
    fn longest() -> Self {
        Self::from_seconds(u64::MAX)
    }
}

impl Value for PropertyText {
    fn text_bytes(&self) -> usize {
        self.len()
    }

    #[cfg(test)]
    fn longest() -> Self {
        Self("\u{1}".repeat(Self::MAX_BYTES))
    }
}

impl Value for ReplyQueueManager {
    fn text_bytes(&self) -> usize {
        self.len()
    }

    #[cfg(test)]
    fn longest() -> Self {
        Self("Q".repeat(Self::MAX_BYTES))
    }
}

/// A group as answers show it: with every member.
#[derive(Serialize)]
struct ShownGroup<'a> {
    id: &'a GroupId,
    sequence: Option<GroupSequence>,
    last: bool,
}

impl Value for Group {
    fn shown(&self) -> impl Serialize {
        let Self { id, sequence, last } = self;
        ShownGroup { id, sequence: *sequence, last: *last }
    }

    fn text_bytes(&self) -> usize {
        match &self.id {
            GroupId::Text(text) => text.len(),
            GroupId::Bytes(bytes) => bytes.0.len(),
        }
    }

    #[cfg(test)]
    fn longest() -> Self {
        let id = GroupId::Bytes(crate::Base64Bytes(vec![0xff; 24]));
        Self { id, sequence: Some(GroupSequence(GroupSequence::MAX)), last: true }
    }
}
