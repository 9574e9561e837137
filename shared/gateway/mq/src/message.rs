//! Messages as a broker returns them. [`crate::shown`] has their form in responses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::base64_bytes::Base64Bytes;
use crate::command::Persistence;
use crate::header_value::HeaderValue;
use crate::properties::Properties;
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

/// Source of the text that a response shows as `bodyText`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BodyAsText {
    /// The body is also shown as text, if it is UTF-8.
    #[default]
    IfUtf8,
    /// The body, converted from another character set.
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
    /// Length of the body in bytes.
    pub size: u64,
    /// SHA-256 of the body, in lower-case hexadecimal digits.
    pub sha256: String,
}

/// Received or browsed message, with all members of the response. A property that a broker or a
/// message does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReceivedMessage {
    /// Bytes of the message id on the wire.
    pub msg_id: Option<Vec<u8>>,
    /// Bytes of the correlation id on the wire.
    pub correl_id: Option<Vec<u8>>,
    /// Bytes of the body as they were on the queue.
    pub body: MessageBody,
    /// Text that the response shows of the body.
    pub text: BodyAsText,
    /// Headers with their types, if the broker preserves types.
    pub headers: BTreeMap<String, HeaderValue>,
    /// Persistence that the publisher set, or the broker's default.
    pub persistence: Persistence,
    /// Priority as the broker reports it. AMQP allows values above 9.
    pub priority: u8,
    /// Lifetime in milliseconds with which the message was put. `None` if it never expires.
    pub expiry_ms: Option<u64>,
    /// Number of times that the message was delivered before and returned to the queue.
    pub backout_count: u64,
    /// Time that the publisher or the broker stamped; RabbitMQ stamps none by itself.
    pub put_at: Option<Timestamp>,
    /// Content type of the body, or IBM MQ's format name.
    pub format: Option<String>,
    /// Exchange to which the message was published; empty for the default one.
    pub exchange: Option<String>,
    /// Routing key with which the message was published.
    pub routing_key: Option<String>,
    /// True if the broker reports that the message may have been delivered before.
    pub redelivered: bool,
    /// Number of earlier deliveries that the queue has counted, if queues count them.
    pub delivery_count: Option<u64>,
    /// User that put the message, as verified by the broker.
    pub user_id: Option<String>,
    /// AMQP's property `cluster-id`, which has no meaning there but may be set.
    pub cluster_id: Option<String>,
    /// Properties that the publisher set.
    pub properties: Properties,
    /// Coded character set id (CCSID) of the body; IBM MQ only.
    pub ccsid: Option<i32>,
    /// Encoding of binary numbers in the body; IBM MQ only.
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
    /// True if this was the first time that the message was dead-lettered.
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
