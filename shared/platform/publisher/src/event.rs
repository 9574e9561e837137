//! From a row of the outbox, or another fact, to the envelope.

use std::time::SystemTime;

use catalog::OutboxEvent;
use cloud_event::{Attributes, Event, EventError};
use idempotency_key::{IdempotencyKey, KeyForm};
use serde_json::Value;

/// An event as it is published.
pub type Published = Event<Value>;

/// Why an event cannot be published, ever.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum UnpublishableEvent {
    #[error("the event cannot be made")]
    Event(#[from] EventError),
    #[error("the event cannot be serialized")]
    Json(#[source] serde_json::Error),
    #[error("the event has {0} bytes, and a destination takes {MAX_BYTES}")]
    TooLarge(usize),
}

/// Bytes of an event, and of all events of a call: what SNS takes, less room for their attributes.
/// Events have some hundred bytes, and a few kilobytes at most.
pub(crate) const MAX_BYTES: usize = 240 * 1024;

/// An event, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    pub(crate) sequence: i64,
    pub(crate) id: String,
    pub(crate) event_type: String,
    pub(crate) tenant: String,
    pub(crate) group: String,
    pub(crate) time: SystemTime,
    /// The whole envelope.
    pub(crate) json: String,
}

/// An event of a fact that is durable elsewhere than in the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What is published.
    pub event: Published,
    /// The message group on a FIFO topic: 1 to 128 visible ASCII characters.
    pub group: String,
}

/// The event of a row: the same however often it is made.
///
/// # Errors
/// If the row has values that the envelope does not allow.
pub fn event_of(row: &OutboxEvent) -> Result<Published, EventError> {
    let key = |attribute, text: &str, form| {
        let fault = "is not a key";
        IdempotencyKey::parse_canonical(text, form).map_err(|_| EventError::Attribute { attribute, fault })
    };
    let id = row.event_id.to_string();
    let attributes = Attributes {
        idempotency_key: key("idempotencykey", &id, KeyForm::Uuid)?,
        id,
        source: format!("/batches/{}", row.batch_id),
        event_type: row.event_type.clone(),
        subject: None,
        time: row.occurred_at,
        source_idempotency_key: Some(key("source_idempotency_key", &row.idempotency_key, KeyForm::Text)?),
        tenant: row.tenant_id.to_string(),
        trace_id: row.trace_id.clone(),
        traceparent: None,
    };
    Event::new(attributes, row.data.clone())
}

impl Encoded {
    pub(crate) fn of(row: &OutboxEvent) -> Result<Self, UnpublishableEvent> {
        Self::of_event(row.sequence, &event_of(row)?, row.batch_id.to_string())
    }

    /// `sequence` tells it from the others of a call.
    pub(crate) fn of_event(
        sequence: i64,
        event: &Published,
        group: String,
    ) -> Result<Self, UnpublishableEvent> {
        let json = serde_json::to_string(event).map_err(UnpublishableEvent::Json)?;
        if json.len() > MAX_BYTES {
            return Err(UnpublishableEvent::TooLarge(json.len()));
        }
        let attributes = event.attributes();
        Ok(Self {
            sequence,
            id: attributes.id.clone(),
            event_type: attributes.event_type.clone(),
            tenant: attributes.tenant.clone(),
            group,
            time: SystemTime::from(attributes.time),
            json,
        })
    }
}
