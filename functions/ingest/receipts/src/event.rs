//! Event of S3 that a payload was stored, and the event that is published for it: its batch was
//! received.

use attempt::Malformed;
use catalog::{Links, OutboxEvent};
use events::{DirectEvent, EventError};
use ingestion::payload::{PayloadMetadata, PayloadNotice};
use serde::Deserialize;
use serde_json::json;

const EVENT_TYPE: &str = "integrahub.batch.received";

/// Event `Object Created` of S3, as EventBridge delivers it.
#[derive(Deserialize)]
struct Created {
    detail: Detail,
}

#[derive(Deserialize)]
struct Detail {
    bucket: Bucket,
    object: Object,
}

#[derive(Deserialize)]
struct Bucket {
    name: String,
}

/// S3 object that an event of EventBridge names. Unlike in S3's notifications, the key is not
/// URL-encoded.
#[derive(Deserialize)]
struct Object {
    key: String,
}

/// Parses an event of S3 and returns the object that it names.
pub(crate) fn read(body: &[u8]) -> Result<PayloadNotice, Malformed> {
    let Created { detail } = attempt::malformed::from_slice(body)?;
    Ok(PayloadNotice { bucket: detail.bucket.name, key: detail.object.key, version_id: None })
}

/// Builds the event that a batch was received. Every call builds the same event: its id is the
/// batch's, and its time is that of the batch's receipt.
pub(crate) fn of(batch: &PayloadMetadata) -> Result<DirectEvent, EventError> {
    let receipt = OutboxEvent {
        sequence: 0,
        event_id: batch.batch_id,
        event_type: EVENT_TYPE.to_owned(),
        batch_id: batch.batch_id,
        tenant_id: batch.tenant_id,
        idempotency_key: batch.idempotency_key.clone(),
        trace_id: batch.trace_id.clone(),
        occurred_at: batch.received_at,
        data: json!({
            "batch_id": batch.batch_id,
            "load_type": batch.load_type,
            "received_at": batch.received_at,
            "source": batch.source,
            "links": Links::of(batch.batch_id),
        }),
    };
    Ok(DirectEvent { event: receipt.to_event()?, group: batch.batch_id.to_string() })
}

#[cfg(test)]
mod tests {
    use events::Event;
    use ingestion::payload::{LoadType, MediaType, Source};
    use ingestion::product::PartialPolicy;
    use serde_json::Value;
    use uuid::Uuid;

    use super::*;

    fn batch() -> PayloadMetadata {
        PayloadMetadata {
            batch_id: Uuid::from_u128(0x019a_a8ec_98d3_7e83_98f2_17f2_d7e0_e6d7),
            tenant_id: Uuid::from_u128(0x1111_1111_1111_4111_8111_1111_1111_1111),
            load_type: LoadType::Delta,
            media_type: MediaType::Json,
            idempotency_key: "loja-12-2026-11-22".to_owned(),
            received_at: "2026-11-21T10:00:00.195Z".parse().unwrap(),
            checksum: None,
            trace_id: "trace-1".to_owned(),
            partial: PartialPolicy::Warn,
            source: None,
        }
    }

    #[test]
    fn a_receipt_follows_from_its_batch_alone() {
        let dropped = Source {
            bucket: "payloads".to_owned(),
            key: "drop/a.json".to_owned(),
            etag: "\"ab\"".to_owned(),
            version_id: None,
        };
        for batch in [batch(), PayloadMetadata { source: Some(dropped), ..batch() }] {
            let receipt = of(&batch).unwrap();
            assert_eq!(receipt, of(&batch).unwrap());
            assert_eq!(receipt.group, batch.batch_id.to_string());
            let event = serde_json::to_value(&receipt.event).unwrap();
            let id = batch.batch_id.to_string();
            assert_eq!((&event["id"], &event["idempotencykey"]), (&json!(id), &json!(id)));
            assert_eq!(event["tenant"], batch.tenant_id.to_string());
            let mut schemas = Event::DATA_SCHEMAS.into_iter();
            let (_, data) = schemas.find(|(of_type, _)| event["type"] == *of_type).unwrap();
            for (schema, value) in [(Event::SCHEMA, &event), (data, &event["data"])] {
                let schema: Value = serde_json::from_str(schema).unwrap();
                let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
                validator.validate(value).unwrap();
            }
        }
    }
}
