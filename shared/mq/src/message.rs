//! Messages as a broker gives them.

use std::io::{self, Write};

use jiff::Timestamp;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::base64_bytes::{self, Base64Bytes};
use crate::command::Persistence;

/// The 24 bytes that identify a message that the gateway put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub [u8; 24]);

impl MessageId {
    /// The form that brokers with textual ids carry: 48 lower-case hexadecimal characters.
    #[must_use]
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

/// A body as it came. Its JSON form always has `bodyBase64`, and `bodyText` if it is UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageBody(pub Vec<u8>);

/// A message that was got or browsed, with everything that the answer says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedMessage {
    /// The id's bytes on the wire.
    pub msg_id: Option<Vec<u8>>,
    /// The correlation id's bytes on the wire.
    pub correl_id: Option<Vec<u8>>,
    /// The body's bytes, unconverted.
    pub body: MessageBody,
    /// Strings as they are, other values as JSON, binary ones as `{"base64": "…"}`.
    pub headers: Map<String, Value>,
    /// As the publisher set it, or the broker's default.
    pub persistence: Persistence,
    /// As the broker has it. AMQP allows values above 9.
    pub priority: u8,
    /// The lifetime that the message was put with. Absent if it never expires.
    pub expiry_ms: Option<u64>,
    /// How often the message was delivered before and came back.
    pub backout_count: u64,
    /// As the publisher or the broker stamped it; RabbitMQ stamps none by itself.
    pub put_at: Option<Timestamp>,
    /// The content type, or IBM MQ's format.
    pub format: Option<String>,
}

impl ReceivedMessage {
    /// How many bytes the message takes in a response: its JSON, escaped once more because Lambda
    /// carries a response's body as a JSON string.
    #[must_use]
    pub fn carried_size(&self) -> usize {
        let mut carried = Carried(base64_bytes::encoded_len(self.body.0.len()));
        // Counting does not fail.
        let _ = serde_json::to_writer(&mut carried, &WithoutBase64(self));
        carried.0
    }

    /// Writes the message with `base64` as its body's base64.
    fn write<S: Serializer>(&self, serializer: S, base64: &str) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(&self.body.0).ok();
        let mut json = serializer.serialize_struct("ReceivedMessage", 10 + usize::from(text.is_some()))?;
        json.serialize_field("msgIdBase64", &self.msg_id.as_deref().map(Base64Bytes::encode))?;
        json.serialize_field("correlIdBase64", &self.correl_id.as_deref().map(Base64Bytes::encode))?;
        json.serialize_field("bodyBase64", base64)?;
        if let Some(text) = text {
            json.serialize_field("bodyText", text)?;
        }
        json.serialize_field("headers", &self.headers)?;
        json.serialize_field("persistence", &self.persistence)?;
        json.serialize_field("priority", &self.priority)?;
        json.serialize_field("expiryMs", &self.expiry_ms)?;
        json.serialize_field("backoutCount", &self.backout_count)?;
        json.serialize_field("putAt", &self.put_at.map(|at| format!("{at:.3}")))?;
        json.serialize_field("format", &self.format)?;
        json.end()
    }
}

impl Serialize for ReceivedMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(serializer, &Base64Bytes::encode(&self.body.0))
    }
}

/// A message without the longest part of its JSON, whose length is known without writing it:
/// nothing in base64 is escaped.
struct WithoutBase64<'a>(&'a ReceivedMessage);

impl Serialize for WithoutBase64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer, "")
    }
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

    proptest! {
        #[test]
        fn the_carried_size_is_that_of_the_json_escaped_once_more(
            body in prop_oneof![prop::collection::vec(any::<u8>(), 0..80), "\\PC{0,40}".prop_map(String::into_bytes)],
            header in "\\PC{0,20}",
            msg_id in prop::option::of(prop::collection::vec(any::<u8>(), 0..30)),
        ) {
            let mut headers = Map::new();
            headers.insert(header.clone(), Value::String(header));
            let message = ReceivedMessage {
                msg_id,
                correl_id: None,
                body: MessageBody(body),
                headers,
                persistence: Persistence::Persistent,
                priority: 4,
                expiry_ms: Some(7),
                backout_count: 0,
                put_at: Some(Timestamp::UNIX_EPOCH),
                format: None,
            };
            let json = serde_json::to_string(&message).unwrap();
            let escapes = json.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
            prop_assert_eq!(message.carried_size(), json.len() + escapes);
        }
    }
}
