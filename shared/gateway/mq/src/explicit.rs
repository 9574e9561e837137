//! Messages that the request itself contains, and their JSON form in the order that the HTTP
//! function sends to `mq-access`.
//!
//! In this form messages take no more bytes than in the request: text stays text, names have one
//! letter, and absent members are left out. So a request that fits into an invocation of the HTTP
//! function also fits, as an order, into one of `mq-access`, however many messages it has.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::base64_bytes::{Base64Bytes, IdBytes};
use crate::body_ref::BodyRef;
use crate::command::{ExpiryMs, Persistence, Priority};
use crate::exchange::RoutingKey;
use crate::headers::Headers;
use crate::properties::{OwnProps, Properties};

/// Message whose body and properties are written out in the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplicitMessage {
    /// Bytes of the body, from the message's `bodyText` or `bodyBase64`.
    pub body: Base64Bytes,
    /// True if the body was sent as `bodyText`; its media type is then `text/plain`.
    pub is_text: bool,
    /// Reference to an uploaded body, which is used in place of the then empty `body`; `None` if
    /// the request contains the body.
    pub body_ref: Option<Box<BodyRef>>,
    /// Headers of this message, which take precedence over the request's `headers`.
    pub headers: Headers,
    /// Correlation id of this message, which takes precedence over the request's `correlIdMode`;
    /// `None` if the message sets none.
    pub correl_id: Option<IdBytes>,
    /// Properties that this message sets for itself; `None`, which saves memory, if it sets none.
    pub own: Option<Box<OwnProps>>,
}

impl ExplicitMessage {
    /// Builds a message that has only a text body.
    #[must_use]
    pub fn of_text(body: &str) -> Self {
        let body = Base64Bytes(body.as_bytes().to_vec());
        Self { body, is_text: true, body_ref: None, headers: Headers::default(), correl_id: None, own: None }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form<'a> {
    #[serde(rename = "t", skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(rename = "b", skip_serializing_if = "Option::is_none")]
    binary: Option<Cow<'a, Base64Bytes>>,
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    body_ref: Option<Cow<'a, BodyRef>>,
    #[serde(rename = "h", default, skip_serializing_if = "Headers::is_empty")]
    headers: Cow<'a, Headers>,
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    correl_id: Option<Cow<'a, IdBytes>>,
    #[serde(rename = "d", skip_serializing_if = "Option::is_none")]
    persistence: Option<Persistence>,
    #[serde(rename = "y", skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    expiry_ms: Option<ExpiryMs>,
    #[serde(rename = "p", default, skip_serializing_if = "Properties::is_empty")]
    properties: Cow<'a, Properties>,
    #[serde(rename = "k", skip_serializing_if = "Option::is_none")]
    routing_key: Option<Cow<'a, RoutingKey>>,
}

impl Serialize for ExplicitMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.is_text.then(|| std::str::from_utf8(&self.body.0)).transpose();
        let text = text.map_err(ser::Error::custom)?;
        let own = self.own.as_deref();
        let form = Form {
            text: text.map(Cow::Borrowed),
            binary: (!self.is_text && self.body_ref.is_none()).then_some(Cow::Borrowed(&self.body)),
            body_ref: self.body_ref.as_deref().map(Cow::Borrowed),
            headers: Cow::Borrowed(&self.headers),
            correl_id: self.correl_id.as_ref().map(Cow::Borrowed),
            persistence: own.and_then(|own| own.persistence),
            priority: own.and_then(|own| own.priority),
            expiry_ms: own.and_then(|own| own.expiry_ms),
            properties: own.map(|own| Cow::Borrowed(&own.properties)).unwrap_or_default(),
            routing_key: own.and_then(|own| own.routing_key.as_ref()).map(Cow::Borrowed),
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExplicitMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = Form::deserialize(deserializer)?;
        let (body, is_text) = match (form.text, form.binary, &form.body_ref) {
            (Some(text), None, None) => (Base64Bytes(text.into_owned().into_bytes()), true),
            (None, Some(bytes), None) => (bytes.into_owned(), false),
            (None, None, Some(_)) => (Base64Bytes::default(), false),
            _ => return Err(de::Error::custom("a message has one of t, b and r")),
        };
        let own = OwnProps {
            persistence: form.persistence,
            priority: form.priority,
            expiry_ms: form.expiry_ms,
            properties: form.properties.into_owned(),
            routing_key: form.routing_key.map(Cow::into_owned),
        };
        Ok(Self {
            body,
            is_text,
            body_ref: form.body_ref.map(|digest| Box::new(digest.into_owned())),
            headers: form.headers.into_owned(),
            correl_id: form.correl_id.map(Cow::into_owned),
            own: own.boxed(),
        })
    }
}
