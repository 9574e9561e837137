//! Bytes that travel as base64 in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes whose JSON form is standard base64 with padding (RFC 4648, section 4). Deserializing
/// refuses more than `MAX` bytes, by default the largest body that a request of 4 MiB can carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Base64Bytes<const MAX: usize = 3_145_728>(pub Vec<u8>);

/// Message id or correlation id, at most 255 bytes (AMQP). IBM MQ's limit of 24 bytes is checked
/// where the broker is known.
pub type IdBytes = Base64Bytes<255>;

impl Base64Bytes {
    /// Encodes bytes of any length as standard base64 with padding.
    #[must_use]
    pub fn encode(bytes: &[u8]) -> String {
        STANDARD.encode(bytes)
    }

    /// Decodes standard base64 with padding.
    ///
    /// # Errors
    /// If `text` is not base64.
    pub(crate) fn decode(text: &str) -> Result<Vec<u8>, String> {
        let decoded = STANDARD.decode(text.as_bytes());
        decoded.map_err(|_| "is not base64 with padding (RFC 4648, section 4)".to_owned())
    }
}

/// Returns the length of `bytes` bytes in base64, padding included.
pub(crate) fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

impl<const MAX: usize> Serialize for Base64Bytes<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Base64Bytes::encode(&self.0))
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Base64Bytes<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() > encoded_len(MAX) {
            return Err(de::Error::custom(format!("must be the base64 of at most {MAX} bytes")));
        }
        Base64Bytes::decode(&text).map(Self).map_err(de::Error::custom)
    }
}
