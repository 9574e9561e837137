//! Messages as a broker returns them. [`crate::shown`] has their form in responses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::base64_bytes::Base64Bytes;
use crate::command::Persistence;
use crate::header_value::HeaderValue;
use crate::properties::Properties;
use crate::time::Time;

/// Id of a message that the gateway puts: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub [u8; 24]);

impl MessageId {
    /// Returns the id as text for RabbitMQ: 48 lower-case hexadecimal characters.
    #[must_use]
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

/// Source of the text that a response shows as `bodyText`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BodyAsText {
    /// The response shows the body as `bodyText` if it is valid UTF-8.
    #[default]
    IfUtf8,
    /// Text of the body, converted from another character set than UTF-8.
    Is(String),
    /// The response has no `bodyText`, because the body's character set is unknown.
    Unknown,
}

/// Body of a message as it was received. Its JSON form always has `bodyBase64`; [`BodyAsText`]
/// decides about `bodyText`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageBody(pub Vec<u8>);

/// Location, size and digest of a body that is too large for a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredBody {
    /// Path from which the caller can download the stored body.
    pub url: String,
    /// Length of the stored body in bytes.
    pub size: u64,
    /// SHA-256 of the stored body, in lower-case hexadecimal digits.
    pub sha256: String,
}

/// Received or browsed message, with all members of the response. A property is `None` if the
/// broker or the message lacks it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReceivedMessage {
    /// Message id as the broker delivered it, in bytes.
    pub msg_id: Option<Vec<u8>>,
    /// Correlation id as the broker delivered it, in bytes.
    pub correl_id: Option<Vec<u8>>,
    /// Body of the message as it was on the queue.
    pub body: MessageBody,
    /// Source of the text that the response shows as `bodyText`.
    pub text: BodyAsText,
    /// Headers with their types, as far as the broker preserves them.
    pub headers: BTreeMap<String, HeaderValue>,
    /// Persistence that the publisher set, or the default of the broker.
    pub persistence: Persistence,
    /// Priority that the broker reports. AMQP allows values above 9.
    pub priority: u8,
    /// Lifetime in milliseconds with which the message was put. `None` if it never expires.
    pub expiry_ms: Option<u64>,
    /// Number of times that the message was delivered before and returned to the queue.
    pub backout_count: u64,
    /// Time at which the message was put, from the publisher or IBM MQ. RabbitMQ sets none by
    /// itself.
    pub put_at: Option<Timestamp>,
    /// Content type of the body, or IBM MQ's format name.
    pub format: Option<String>,
    /// Exchange to which the message was published; empty for the default exchange.
    pub exchange: Option<String>,
    /// Routing key with which the message was published.
    pub routing_key: Option<String>,
    /// True if the broker reports that the message may have been delivered before.
    pub redelivered: bool,
    /// Number of earlier deliveries that the queue has counted; `None` if it does not count.
    pub delivery_count: Option<u64>,
    /// User that put the message, as verified by the broker.
    pub user_id: Option<String>,
    /// Value of the AMQP property `cluster-id`, which has no meaning in AMQP 0-9-1 but may be set.
    pub cluster_id: Option<String>,
    /// Properties that the publisher set, such as `replyTo`.
    pub properties: Properties,
    /// Coded character set id (CCSID) of the body; IBM MQ only.
    pub ccsid: Option<i32>,
    /// Encoding of binary numbers in the body, as the number in the message's descriptor (MQMD,
    /// Encoding); IBM MQ only.
    pub encoding: Option<i32>,
    /// Dead-letter history of the message, latest death first.
    pub deaths: Vec<Death>,
    /// Properties of the message that could not be decoded, as raw bytes.
    pub unreadable: Unreadable,
}

/// Entry of a message's dead-letter history: why and how often the message left a queue for its
/// dead-letter exchange or queue.
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
    /// True if this was the first dead-lettering of the message.
    pub first: bool,
}

/// Properties of a received message that could not be decoded: their raw bytes, by their names in
/// responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable(pub BTreeMap<&'static str, Vec<u8>>);

impl Serialize for Unreadable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, bytes)| (name, Base64Bytes::encode(bytes))))
    }
}
