//! Encoding of events as JSON for all destinations: EventBridge, SNS and Kafka.

use std::time::SystemTime;

use serde_json::Value;

use crate::Event;

/// Event with JSON data, as it is published.
pub type Published = Event<Value>;

/// Reason why every destination would refuse an event.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum UnpublishableEvent {
    #[error("the event cannot be serialized")]
    Json(#[source] serde_json::Error),
    #[error("the event has {0} bytes, and a destination takes {MAX_BYTES}")]
    TooLarge(usize),
}

/// Maximum bytes of an event, and of all events in one call: the limit of SNS (256 KiB), with room
/// for attributes. Events have some hundred bytes, and a few kilobytes at most.
pub(crate) const MAX_BYTES: usize = 240 * 1024;

/// Event that is encoded as JSON to be sent.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Number by which the caller identifies the event in the result of publishing it.
    pub sequence: i64,
    pub(crate) id: String,
    pub(crate) event_type: String,
    pub(crate) tenant: String,
    pub(crate) group: String,
    pub(crate) time: SystemTime,
    /// Envelope of the event, as JSON text.
    pub(crate) json: String,
}

/// Event that a function publishes directly, without the outbox of the catalogue's database, and
/// its message group.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectEvent {
    /// Event to publish.
    pub event: Published,
    /// Message group of the event on a FIFO topic: 1 to 128 visible ASCII characters.
    pub group: String,
}

impl Encoded {
    /// Encodes an event. `sequence` identifies it in the result of publishing it, and `group` is
    /// its message group on a FIFO topic.
    ///
    /// # Errors
    /// If every destination would refuse the event.
    pub fn new(sequence: i64, event: &Published, group: String) -> Result<Self, UnpublishableEvent> {
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
