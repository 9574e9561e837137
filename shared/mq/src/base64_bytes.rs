//! Bytes that travel as base64 in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes whose JSON form is standard base64 with padding (RFC 4648, section 4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Base64Bytes(pub Vec<u8>);

impl Base64Bytes {
    pub fn encode(bytes: &[u8]) -> String {
        STANDARD.encode(bytes)
    }
}

/// How long the base64 of `bytes` bytes is.
pub(crate) fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

impl Serialize for Base64Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Self::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD
            .decode(text.as_bytes())
            .map(Self)
            .map_err(|error| de::Error::custom(format!("is not base64: {error}")))
    }
}
