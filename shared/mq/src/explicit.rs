//! Messages that a caller wrote out, and how they travel to the function that puts them.
//!
//! There they take no more bytes than they took in the request: text stays text, names have one
//! letter, and what is not there is left away. So an order fits where its request did, however many
//! messages it has.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::base64_bytes::{Base64Bytes, IdBytes};
use crate::names::Headers;

/// A message that the caller wrote out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplicitMessage {
    /// The body's bytes, whether they came as text or as base64.
    pub body: Base64Bytes,
    /// Whether the body came as text, which then names its media type.
    pub is_text: bool,
    /// They take precedence over those of the request.
    pub headers: Headers,
    /// Takes precedence over the request's `correlIdMode`.
    pub correl_id: Option<IdBytes>,
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(rename = "t", skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(rename = "b", skip_serializing_if = "Option::is_none")]
    binary: Option<&'a Base64Bytes>,
    #[serde(rename = "h", skip_serializing_if = "Headers::is_empty")]
    headers: &'a Headers,
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    correl_id: Option<&'a IdBytes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "t")]
    text: Option<String>,
    #[serde(rename = "b")]
    binary: Option<Base64Bytes>,
    #[serde(rename = "h", default)]
    headers: Headers,
    #[serde(rename = "c")]
    correl_id: Option<IdBytes>,
}

impl Serialize for ExplicitMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.is_text.then(|| std::str::from_utf8(&self.body.0)).transpose();
        let text = text.map_err(ser::Error::custom)?;
        let binary = if self.is_text { None } else { Some(&self.body) };
        let written = Written { text, binary, headers: &self.headers, correl_id: self.correl_id.as_ref() };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExplicitMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { text, binary, headers, correl_id } = Read::deserialize(deserializer)?;
        let (body, is_text) = match (text, binary) {
            (Some(text), None) => (Base64Bytes(text.into_bytes()), true),
            (None, Some(bytes)) => (bytes, false),
            _ => return Err(de::Error::custom("a message has either t or b")),
        };
        Ok(Self { body, is_text, headers, correl_id })
    }
}
