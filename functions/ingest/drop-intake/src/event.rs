//! Event that a dropped object was refused as a batch.

use events::{Attributes, DirectEvent, Event, EventError};
use ingestion::payload::Source;
use objects::Version;
use serde_json::json;

const EVENT_TYPE: &str = "integrahub.drop.refused";

/// Maximum number of characters of the object's key in the event's attribute `subject`. The event's
/// data have the whole key.
const LONGEST_SUBJECT: usize = 255;

/// Value of the event's attribute `tenant` if the object's key names no tenant.
const NO_TENANT: &str = "unknown";

/// Builds the event that a dropped object was refused. Repeated calls build the same event: its id
/// follows from the object, and its time is when the object was written.
pub(crate) fn of(
    source: &Source,
    version: &Version,
    reason: &str,
    detail: &str,
) -> Result<DirectEvent, EventError> {
    let id = ingestion::drops::refusal_id(source, version.modified_at, reason).to_string();
    let subject: String = source.key.chars().filter(|c| !c.is_control()).take(LONGEST_SUBJECT).collect();
    let attributes = Attributes {
        idempotency_key: Attributes::key(&id)?,
        // A new trace that only this event has: no request led to the object.
        trace_id: id.clone(),
        source: "/drops".to_owned(),
        event_type: EVENT_TYPE.to_owned(),
        subject: (!subject.is_empty()).then_some(subject),
        time: version.modified_at,
        source_idempotency_key: None,
        tenant: ingestion::drops::tenant_of(&source.key)
            .map_or_else(|| NO_TENANT.to_owned(), |id| id.to_string()),
        traceparent: None,
        id: id.clone(),
    };
    let data = json!({"object": source, "reason": reason, "detail": detail});
    Ok(DirectEvent { event: Event::new(attributes, data)?, group: id })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn refused(key: &str) -> DirectEvent {
        let (bucket, etag) = ("payloads".to_owned(), "\"ab\"".to_owned());
        let source = Source { bucket, key: key.to_owned(), etag: etag.clone(), version_id: None };
        let version = Version { id: None, etag, length: 2, modified_at: Timestamp::UNIX_EPOCH };
        of(&source, &version, "KEY_UNKNOWN", "the key is unknown").unwrap()
    }

    #[test]
    fn every_key_has_an_event_and_the_same_one_each_time() {
        let long = format!("drop/{}", "é".repeat(500));
        for key in ["drop/a", "drop/pharmacy/full/a.json", "drop/a\0\t.json", &long] {
            let (first, second) = (refused(key), refused(key));
            let (first, second) = (first.event.attributes().clone(), second.event.attributes().clone());
            assert_eq!(first, second);
            assert_eq!(first.tenant, "unknown");
        }
        let tenant = "11111111-1111-4111-8111-111111111111";
        assert_eq!(refused(&format!("drop/{tenant}/all/a")).event.attributes().tenant, tenant);
    }
}
