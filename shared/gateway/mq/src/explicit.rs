//! Messages that a caller wrote out, and their form on the way to the function that puts them.
//!
//! In this form they take no more bytes than in the request: text stays text, names have one
//! letter, and absent members are left out. So an order fits where its request did, however many
//! messages it has.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::base64_bytes::{Base64Bytes, IdBytes};
use crate::body_ref::BodyRef;
use crate::command::{ExpiryMs, Persistence, Priority};
use crate::exchange::RoutingKey;
use crate::headers::Headers;
use crate::properties::{OwnProps, Properties};

/// A message that the caller wrote out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplicitMessage {
    /// Bytes of the body, whether they came as text or as base64.
    pub body: Base64Bytes,
    /// True if the body came as text, which then decides its media type.
    pub is_text: bool,
    /// Reference to an uploaded body that is read in the place of `body`, which is empty then.
    pub body_ref: Option<Box<BodyRef>>,
    /// Headers of this message, which take precedence over those of the request.
    pub headers: Headers,
    /// Correlation id of this message, which takes precedence over the request's `correlIdMode`.
    pub correl_id: Option<IdBytes>,
    /// Properties of this message; `None` if it sets none, which takes no room then.
    pub own: Option<Box<OwnProps>>,
}

impl ExplicitMessage {
    /// Makes a message that has only a body.
    #[must_use]
    pub fn of_text(body: &str) -> Self {
        let body = Base64Bytes(body.as_bytes().to_vec());
        Self { body, is_text: true, body_ref: None, headers: Headers::default(), correl_id: None, own: None }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(rename = "t", skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(rename = "b", skip_serializing_if = "Option::is_none")]
    binary: Option<&'a Base64Bytes>,
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    body_ref: Option<&'a BodyRef>,
    #[serde(rename = "h", skip_serializing_if = "Headers::is_empty")]
    headers: &'a Headers,
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    correl_id: Option<&'a IdBytes>,
    #[serde(rename = "d", skip_serializing_if = "Option::is_none")]
    persistence: Option<Persistence>,
    #[serde(rename = "y", skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    expiry_ms: Option<ExpiryMs>,
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    properties: Option<&'a Properties>,
    #[serde(rename = "k", skip_serializing_if = "Option::is_none")]
    routing_key: Option<&'a RoutingKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "t")]
    text: Option<String>,
    #[serde(rename = "b")]
    binary: Option<Base64Bytes>,
    #[serde(rename = "r")]
    body_ref: Option<Box<BodyRef>>,
    #[serde(rename = "h", default)]
    headers: Headers,
    #[serde(rename = "c")]
    correl_id: Option<IdBytes>,
    #[serde(rename = "d")]
    persistence: Option<Persistence>,
    #[serde(rename = "y")]
    priority: Option<Priority>,
    #[serde(rename = "e")]
    expiry_ms: Option<ExpiryMs>,
    #[serde(rename = "p", default)]
    properties: Properties,
    #[serde(rename = "k")]
    routing_key: Option<RoutingKey>,
}

impl Serialize for ExplicitMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.is_text.then(|| std::str::from_utf8(&self.body.0)).transpose();
        let text = text.map_err(ser::Error::custom)?;
        let body_ref = self.body_ref.as_deref();
        let binary = if self.is_text || body_ref.is_some() { None } else { Some(&self.body) };
        let own = self.own.as_deref();
        let written = Written {
            text,
            binary,
            body_ref,
            headers: &self.headers,
            correl_id: self.correl_id.as_ref(),
            persistence: own.and_then(|own| own.persistence),
            priority: own.and_then(|own| own.priority),
            expiry_ms: own.and_then(|own| own.expiry_ms),
            properties: own.map(|own| &own.properties).filter(|properties| !properties.is_empty()),
            routing_key: own.and_then(|own| own.routing_key.as_ref()),
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExplicitMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Read::deserialize(deserializer)?;
        let (body, is_text) = match (read.text, read.binary, &read.body_ref) {
            (Some(text), None, None) => (Base64Bytes(text.into_bytes()), true),
            (None, Some(bytes), None) => (bytes, false),
            (None, None, Some(_)) => (Base64Bytes::default(), false),
            _ => return Err(de::Error::custom("a message has one of t, b and r")),
        };
        let own = OwnProps {
            persistence: read.persistence,
            priority: read.priority,
            expiry_ms: read.expiry_ms,
            properties: read.properties,
            routing_key: read.routing_key,
        };
        Ok(Self {
            body,
            is_text,
            body_ref: read.body_ref,
            headers: read.headers,
            correl_id: read.correl_id,
            own: own.boxed(),
        })
    }
}
