use events::{Attributes, Event, EventError};
use ingestion::chunk::ChunkReady;
use jiff::Timestamp;
use uuid::Uuid;

/// Event that a chunk is ready to be written, with its envelope.
pub type ChunkEvent = Event<ChunkReady>;

/// Attributes of a batch that the envelope of its chunks' events contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Id of the tenant that the batch belongs to.
    pub tenant_id: Uuid,
    /// Idempotency key under which the batch was accepted.
    pub idempotency_key: String,
    /// Trace id of the request that created the batch.
    pub trace_id: String,
}

/// Builds the event that a chunk is ready to be written, published at `now`. An event for the same
/// chunk that is built again has the same `idempotencykey` and another id.
///
/// # Errors
/// If `origin` has values that the event's envelope does not allow.
pub fn chunk_event(origin: &Origin, chunk: ChunkReady, now: Timestamp) -> Result<ChunkEvent, EventError> {
    let attributes = Attributes {
        id: Uuid::new_v4().to_string(),
        source: format!("/batches/{}", chunk.batch_id),
        event_type: ChunkReady::EVENT_TYPE.to_owned(),
        subject: Some(chunk.chunk_index.to_string()),
        time: now,
        idempotency_key: Attributes::key(&chunk.chunk_id().to_string())?,
        source_idempotency_key: Some(Attributes::source_key(&origin.idempotency_key)?),
        tenant: origin.tenant_id.to_string(),
        trace_id: origin.trace_id.clone(),
        traceparent: None,
    };
    Event::new(attributes, chunk)
}

/// Parses the event that a chunk is ready to be written.
///
/// # Errors
/// If the JSON is not such an event, or its `idempotencykey` is not the chunk's id.
pub fn read_chunk_event(json: &[u8]) -> Result<ChunkEvent, EventError> {
    let event: ChunkEvent = Event::read(json)?;
    let attributes = event.attributes();
    if attributes.event_type != ChunkReady::EVENT_TYPE {
        return Err(EventError::Attribute { attribute: "type", fault: "must be integrahub.chunk.ready" });
    }
    if attributes.idempotency_key.as_str() != event.data().chunk_id().to_string() {
        return Err(EventError::Attribute { attribute: "idempotencykey", fault: "must be the chunk's id" });
    }
    Ok(event)
}

/// Records the ids of a chunk's event and the chunk's first CNPJ in the current span.
pub fn record_chunk(event: &ChunkEvent) {
    let (attributes, chunk) = (event.attributes(), event.data());
    let span = tracing::Span::current();
    span.record("correlation_id", &attributes.trace_id);
    span.record("tenant", &attributes.tenant);
    span.record("idempotency_key", attributes.source_idempotency_key.as_ref().map(tracing::field::display));
    span.record("batch_id", tracing::field::display(chunk.batch_id));
    span.record("chunk_id", tracing::field::display(chunk.chunk_id()));
    span.record("cnpj", chunk.cnpj.as_str());
}

#[cfg(test)]
mod tests {
    use ingestion::chunk::Generation;
    use serde_json::Value;

    use super::*;

    fn event() -> ChunkEvent {
        let origin = Origin {
            tenant_id: Uuid::from_u128(0x1111_1111_1111_4111_8111_1111_1111_1111),
            idempotency_key: "5c1e0a56-4a58-4aaf-9359-83ec8f663f10".to_owned(),
            trace_id: "trace-1".to_owned(),
        };
        let chunk = ChunkReady {
            batch_id: Uuid::from_u128(0x0192_7f3e_0000_7000_8000_0000_0000_0001),
            generation: Generation::FIRST,
            chunk_index: 17,
            chunk_uri: "s3://payloads/chunks/1".to_owned(),
            cnpj: "05927228000145".parse().unwrap(),
            items: 1000,
        };
        chunk_event(&origin, chunk, "2026-11-21T10:00:00.123Z".parse().unwrap()).unwrap()
    }

    #[test]
    fn the_event_is_as_the_schema_says() {
        let json = serde_json::to_value(event()).unwrap();
        let schema: Value = serde_json::from_str(Event::SCHEMA).unwrap();
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        validator.validate(&json).unwrap();
        assert_eq!(json["type"], "integrahub.chunk.ready");
        assert_eq!(json["source"], "/batches/01927f3e-0000-7000-8000-000000000001");
        assert_eq!(json["data"]["source_idempotency_key"], "5c1e0a56-4a58-4aaf-9359-83ec8f663f10");
        assert_eq!(json["data"]["chunk_index"], 17);
    }

    #[test]
    fn announced_again_it_is_the_same_event_in_another_publication() {
        let (first, second) = (event(), event());
        assert_ne!(first.attributes().id, second.attributes().id);
        assert_eq!(first.attributes().idempotency_key, second.attributes().idempotency_key);
        assert_eq!(first.fingerprint(), second.fingerprint());
        let json = serde_json::to_vec(&first).unwrap();
        assert_eq!(read_chunk_event(&json).unwrap(), first);
    }

    #[test]
    fn another_event_is_not_taken_for_a_chunk_s() {
        let whole = serde_json::to_value(event()).unwrap();
        for (pointer, value) in [
            ("/type", "integrahub.batch.received"),
            ("/idempotencykey", "5c1e0a56-4a58-4aaf-9359-83ec8f663f10"),
            ("/data/batch_id", "01927f3e-0000-7000-8000-000000000002"),
            ("/data/cnpj", "05927228000146"),
            ("/data/generation", "first"),
        ] {
            let mut json = whole.clone();
            *json.pointer_mut(pointer).unwrap() = value.into();
            assert!(read_chunk_event(json.to_string().as_bytes()).is_err(), "{pointer}");
        }
    }
}
