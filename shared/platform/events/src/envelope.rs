//! Envelope of all published events: CloudEvents 1.0 in its JSON form, with a key by which
//! repetitions of an event are recognized.
//!
//! The `cloudevents-sdk` crate has no bounds on attributes, keeps data as a dynamic value and
//! brings code for transports that are not used here; the form itself is fixed by
//! [`Event::SCHEMA`].

use api::Traceparent;
use api::idempotency_key::{Fingerprint, FingerprintError, IdempotencyKey, KeyForm};
use attempt::{Malformed, Retry, Retryable};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// Name of the member of an event's data that contains the client's idempotency key. It is not an
/// attribute, because names of CloudEvents attributes have no underscores.
const SOURCE_KEY: &str = "source_idempotency_key";
const MAX_TEXT: usize = 255;

/// Attributes of an event's envelope, without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Id of the event, unique for its source. If a chunk (part of a batch) is announced again, the
    /// event has a new id. An event of the outbox keeps its id when it is published again.
    pub id: String,
    /// Source of the event: a URI reference that is an absolute path, such as `/batches/17`.
    pub source: String,
    /// Type of the event, in reverse DNS order.
    pub event_type: String,
    /// Entity that the event is about, within its source, such as the index of a chunk; `None` if
    /// the event has no attribute `subject`.
    pub subject: Option<String>,
    /// Time at which the event happened.
    pub time: Timestamp,
    /// Idempotency key of the event itself, by which a handler recognizes repetitions of the event.
    pub idempotency_key: IdempotencyKey,
    /// Idempotency key of the client's request that caused the event; `None` if no such request
    /// caused it.
    pub source_idempotency_key: Option<IdempotencyKey>,
    /// Id of the tenant that the event belongs to.
    pub tenant: String,
    /// Trace id of the request that caused the event.
    pub trace_id: String,
    /// Trace context (W3C) of the publisher. If it is `None` and the `trace_id` is a trace context,
    /// the event's JSON has the `trace_id` as its trace context.
    pub traceparent: Option<String>,
}

/// CloudEvents 1.0 event in its JSON form, with an idempotency key, by which a handler executes its
/// work only once.
///
/// [`SCHEMA`](Event::SCHEMA) describes the JSON. An event is immutable, because its
/// [fingerprint](Event::fingerprint) is computed when it is created or parsed: over the data as
/// sent, including members that the type `T` does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct Event<T = Value> {
    attributes: Attributes,
    data: T,
    sent: Map<String, Value>,
    fingerprint: Fingerprint,
}

/// Reason why a text is not a valid event, or an event cannot be created.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum EventError {
    /// The text is not JSON, or its JSON does not have the members of an event.
    #[error("not an event")]
    Form(#[from] Malformed),
    /// An attribute of the event is missing or wrong.
    #[error("the event's {attribute} {fault}")]
    Attribute { attribute: &'static str, fault: &'static str },
    /// The data do not match the type `T`, or cannot be written as an object.
    #[error("the event's data at {path}: {fault}")]
    Data { path: String, fault: String },
    /// The data have no fingerprint, for example because of an integer that is too large.
    #[error("the event's data have {0}")]
    Fingerprint(&'static str),
}

impl Retryable for EventError {
    fn retry(&self) -> Retry {
        match self {
            Self::Form(_) | Self::Attribute { .. } | Self::Data { .. } | Self::Fingerprint(_) => Retry::Never,
        }
    }
}

impl Event {
    /// JSON Schema (2020-12) of all events.
    pub const SCHEMA: &str = include_str!("../schemas/event.schema.json");

    /// JSON Schemas (2020-12) of the data of published events, by event type.
    pub const DATA_SCHEMAS: [(&str, &str); 9] = [
        ("integrahub.batch.received", include_str!("../schemas/batch.received.schema.json")),
        ("integrahub.batch.final", include_str!("../schemas/batch.final.schema.json")),
        ("integrahub.batch.held", include_str!("../schemas/batch.held.schema.json")),
        ("integrahub.chunk.given_up", include_str!("../schemas/chunk.given_up.schema.json")),
        ("integrahub.drop.refused", include_str!("../schemas/drop.refused.schema.json")),
        ("integrahub.message.in_doubt", include_str!("../schemas/message.in_doubt.schema.json")),
        ("integrahub.usage.budget", include_str!("../schemas/usage.budget.schema.json")),
        ("integrahub.usage.correction", include_str!("../schemas/usage.correction.schema.json")),
        ("integrahub.usage.hour", include_str!("../schemas/usage.hour.schema.json")),
    ];
}

impl<T: Serialize> Event<T> {
    /// Creates an event. `data` must serialize as an object.
    ///
    /// # Errors
    /// If an attribute does not match the schema, or if the data are not an object or have a member
    /// `source_idempotency_key`.
    pub fn new(attributes: Attributes, data: T) -> Result<Self, EventError> {
        attributes.check()?;
        let Value::Object(mut sent) =
            serde_json::to_value(&data).map_err(|_| of_data("", "cannot be written as JSON"))?
        else {
            return Err(of_data("", "must be an object"));
        };
        if sent.contains_key(SOURCE_KEY) {
            return Err(of_data(SOURCE_KEY, "is set by the attributes"));
        }
        if let Some(key) = &attributes.source_idempotency_key {
            sent.insert(SOURCE_KEY.to_owned(), key.as_str().into());
        }
        let fingerprint = fingerprint(&attributes.event_type, &sent)?;
        Ok(Self { attributes, data, sent, fingerprint })
    }
}

impl<T: DeserializeOwned> Event<T> {
    /// Parses an event. Unknown attributes are ignored, and the client's idempotency key is removed
    /// from the data.
    ///
    /// # Errors
    /// If the text is not a valid event, so that another delivery fails too. The error repeats no
    /// value.
    pub fn read(json: &[u8]) -> Result<Self, EventError> {
        let mut members: Map<String, Value> = attempt::malformed::from_slice(json)?;
        constant(&mut members, "specversion", "1.0", "must be \"1.0\"")?;
        constant(&mut members, "datacontenttype", "application/json", "must be \"application/json\"")?;
        let Some(Value::Object(sent)) = members.remove("data") else {
            return Err(wrong("data", "must be an object"));
        };
        let source_key = sent.get(SOURCE_KEY).map(|key| match key {
            Value::String(key) => Attributes::source_key(key),
            _ => Err(wrong(SOURCE_KEY, TEXT_KEY)),
        });
        let attributes = Attributes {
            id: text(&mut members, "id")?,
            source: text(&mut members, "source")?,
            event_type: text(&mut members, "type")?,
            subject: members.contains_key("subject").then(|| text(&mut members, "subject")).transpose()?,
            time: parse_time(&text(&mut members, "time")?)?,
            idempotency_key: Attributes::key(&text(&mut members, "idempotencykey")?)?,
            source_idempotency_key: source_key.transpose()?,
            tenant: text(&mut members, "tenant")?,
            trace_id: text(&mut members, "traceid")?,
            traceparent: members
                .contains_key("traceparent")
                .then(|| text(&mut members, "traceparent"))
                .transpose()?,
        };
        attributes.check()?;
        let mut own = sent.clone();
        own.remove(SOURCE_KEY);
        let data = attempt::malformed::from_value(Value::Object(own))
            .map_err(|error| of_data(error.path(), error.fault()))?;
        let fingerprint = fingerprint(&attributes.event_type, &sent)?;
        Ok(Self { attributes, data, sent, fingerprint })
    }
}

impl<T> Event<T> {
    /// Returns the attributes of the CloudEvents envelope.
    pub const fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Returns the data of the event.
    pub const fn data(&self) -> &T {
        &self.data
    }

    /// Consumes the event and returns its data.
    pub fn into_data(self) -> T {
        self.data
    }

    /// Returns the digest of the event's type and data as sent, including the client's key. Two
    /// events with the same idempotency key are the same if their fingerprints are equal; id, time
    /// and trace may differ, because they change when an event is announced again.
    pub const fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }
}

impl<T> Serialize for Event<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let attributes = &self.attributes;
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry("specversion", "1.0")?;
        members.serialize_entry("id", &attributes.id)?;
        members.serialize_entry("source", &attributes.source)?;
        members.serialize_entry("type", &attributes.event_type)?;
        if let Some(subject) = &attributes.subject {
            members.serialize_entry("subject", subject)?;
        }
        members.serialize_entry("time", &attributes.time)?;
        members.serialize_entry("datacontenttype", "application/json")?;
        members.serialize_entry("idempotencykey", attributes.idempotency_key.as_str())?;
        members.serialize_entry("tenant", &attributes.tenant)?;
        members.serialize_entry("traceid", &attributes.trace_id)?;
        let of_trace = || Traceparent::parse(&attributes.trace_id).map(|context| context.text);
        if let Some(traceparent) = attributes.traceparent.as_deref().or_else(of_trace) {
            members.serialize_entry(Traceparent::HEADER, traceparent)?;
        }
        members.serialize_entry("data", &self.sent)?;
        members.end()
    }
}

const TEXT: &str = "must be a string of 1 to 255 characters without control characters";
const KEY: &str = "must be a UUID in lower case (RFC 9562, versions 1 to 8)";
const TEXT_KEY: &str = "must be 1 to 255 visible ASCII characters, and a UUID in lower case";
const SOURCE: &str = "must be an absolute path of at most 255 characters: letters, digits and /._~@:-";
const TIME: &str = "must be a time in UTC (RFC 3339, with T and Z)";
const TRACE_ID: &str = "must be 1 to 128 visible ASCII characters";
const TRACEPARENT: &str = "must be a traceparent of version 00 (W3C Trace Context)";

impl Attributes {
    /// Parses an event's own idempotency key, which is a UUID in its canonical spelling.
    ///
    /// # Errors
    /// If the text is not such a UUID.
    pub fn key(value: &str) -> Result<IdempotencyKey, EventError> {
        IdempotencyKey::parse_canonical(value, KeyForm::Uuid).map_err(|_| wrong("idempotencykey", KEY))
    }

    /// Parses the idempotency key of the client's request in its canonical spelling. The client's
    /// header may have been spelled differently.
    ///
    /// # Errors
    /// If the text is not such a key.
    pub fn source_key(value: &str) -> Result<IdempotencyKey, EventError> {
        IdempotencyKey::parse_canonical(value, KeyForm::Text).map_err(|_| wrong(SOURCE_KEY, TEXT_KEY))
    }

    fn check(&self) -> Result<(), EventError> {
        for (attribute, value) in [("id", &self.id), ("type", &self.event_type), ("tenant", &self.tenant)] {
            demand(attribute, is_text(value), TEXT)?;
        }
        demand("subject", self.subject.as_deref().is_none_or(is_text), TEXT)?;
        demand("source", is_text(&self.source) && is_path(&self.source), SOURCE)?;
        let is_visible = self.trace_id.bytes().all(|byte| byte.is_ascii_graphic());
        demand("traceid", (1..=128).contains(&self.trace_id.len()) && is_visible, TRACE_ID)?;
        let is_context = |text: &str| Traceparent::parse(text).is_some();
        demand("traceparent", self.traceparent.as_deref().is_none_or(is_context), TRACEPARENT)
    }
}

fn demand(attribute: &'static str, holds: bool, fault: &'static str) -> Result<(), EventError> {
    if holds { Ok(()) } else { Err(wrong(attribute, fault)) }
}

const fn wrong(attribute: &'static str, fault: &'static str) -> EventError {
    EventError::Attribute { attribute, fault }
}

fn of_data(path: &str, fault: impl std::fmt::Display) -> EventError {
    EventError::Data { path: format!("/{}", path.trim_start_matches('/')), fault: fault.to_string() }
}

fn is_text(value: &str) -> bool {
    (1..=MAX_TEXT).contains(&value.chars().count()) && !value.chars().any(char::is_control)
}

/// Returns whether a text is an absolute path of characters that need no escapes in a URI
/// reference.
fn is_path(value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._~@:-".contains(&byte);
    value.starts_with('/') && !value.starts_with("//") && value.bytes().all(is_plain)
}

fn text(members: &mut Map<String, Value>, attribute: &'static str) -> Result<String, EventError> {
    match members.remove(attribute) {
        Some(Value::String(value)) => Ok(value),
        Some(_) => Err(wrong(attribute, "must be a string")),
        None => Err(wrong(attribute, "is missing")),
    }
}

fn constant(
    members: &mut Map<String, Value>,
    attribute: &'static str,
    value: &str,
    fault: &'static str,
) -> Result<(), EventError> {
    demand(attribute, text(members, attribute)? == value, fault)
}

fn parse_time(value: &str) -> Result<Timestamp, EventError> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_digit() || b"-:.TZ".contains(&byte));
    let parts = (value.get(4..5), value.get(10..11), value.get(13..14), value.get(19..20));
    let is_extended = matches!(parts, (Some("-"), Some("T"), Some(":"), Some("." | "Z")));
    let time = value.parse().ok().filter(|_| is_plain && is_extended && value.ends_with('Z'));
    time.ok_or(wrong("time", TIME))
}

fn fingerprint(event_type: &str, data: &Map<String, Value>) -> Result<Fingerprint, EventError> {
    // The integer's value is left out: it belongs to the event.
    Fingerprint::of(&json!({ "type": event_type, "data": data })).map_err(|error| {
        EventError::Fingerprint(match error {
            FingerprintError::IntegerTooLarge(_) => "an integer beyond ±9007199254740991 (2^53-1)",
            FingerprintError::NotCanonical(_) => "no canonical form",
        })
    })
}
