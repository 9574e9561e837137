//! Types of the values that message properties have, and the forms of these values in responses.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base64_bytes::{self, IdBytes};
use crate::bounded::{bounded, text};
use crate::names::is_of_an_ibm_name;
use crate::time::Time;

text! {
    /// Text of a message property, at most 255 bytes (AMQP 0-9-1, section 4.2.5.3). Lower limits of
    /// IBM MQ are checked where the broker is known.
    PropertyText, 0..=255, |_| true, "any text";
    /// Name of the queue manager to which a reply is sent (MQ_Q_MGR_NAME_LENGTH).
    ReplyQueueManager, 0..=48, is_of_an_ibm_name, "must consist of letters, digits and ./_%";
}
bounded! {
    /// Sequence number of a message in its group (MQMD, MsgSeqNumber).
    GroupSequence: u32, 1..=999_999_999, default 1;
    /// Signed 32-bit integer (MQLONG of IBM MQ).
    MqLong: i32, -2_147_483_648..=2_147_483_647, default 0;
}

/// Purpose of a message for its receiver (MQMD, MsgType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "IBM MQ's names")]
pub enum MessageType {
    Datagram = 8,
    Request = 1,
    Reply = 2,
    Report = 4,
}

impl MessageType {
    /// Returns the type's number in IBM MQ, such as `MQMT_REQUEST`, which is 1.
    #[must_use]
    pub const fn as_number(self) -> i32 {
        self as i32
    }

    /// Converts a number of IBM MQ, such as `MQMT_REQUEST`, to the type; `None` for other numbers.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let all = [Self::Datagram, Self::Request, Self::Reply, Self::Report];
        all.into_iter().find(|known| known.as_number() == number)
    }
}

/// Group that a message belongs to, with the message's position in it.
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

/// Id of a message group: text, or bytes as `{"base64": …}`.
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

/// Value of a message property, with its form in responses.
pub(crate) trait Value: Serialize {
    /// Returns the form that the value has in responses.
    fn shown(&self) -> impl Serialize {
        self
    }

    /// Returns the length in bytes of the value's text; 0 for values that are not text of variable
    /// length.
    fn text_len(&self) -> usize {
        0
    }
}

impl Value for MessageType {}
impl Value for MqLong {}
impl Value for Time {}

impl Value for PropertyText {
    fn text_len(&self) -> usize {
        self.as_str().len()
    }
}

impl Value for ReplyQueueManager {
    fn text_len(&self) -> usize {
        self.as_str().len()
    }
}

/// Group of a message in the form of a response, which has every member.
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

    fn text_len(&self) -> usize {
        match &self.id {
            GroupId::Text(text) => text.text_len(),
            GroupId::Bytes(bytes) => base64_bytes::encoded_len(bytes.0.len()),
        }
    }
}

/// Returns the value of type `T` that takes the most bytes in a response.
#[cfg(test)]
pub(crate) fn longest<T: serde::de::DeserializeOwned>() -> T {
    let id = serde_json::json!({"base64": crate::Base64Bytes::encode(&[0xff; 24])});
    let texts = (1..=255).flat_map(|length| ["\u{1}".repeat(length), "Q".repeat(length)]);
    let others: [serde_json::Value; 4] = [
        u64::MAX.to_string().into(),
        "datagram".into(),
        i32::MIN.into(),
        serde_json::json!({"id": id, "sequence": 999_999_999, "last": true}),
    ];
    let values = texts.map(serde_json::Value::from).chain(others);
    let taken = values.filter(|value| serde_json::from_value::<T>(value.clone()).is_ok());
    serde_json::from_value(taken.max_by_key(|value| value.to_string().len()).unwrap()).unwrap()
}
