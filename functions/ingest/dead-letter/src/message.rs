//! Parsing of messages in the dead-letter queues: the chunk or the payloads that a message names.

use ingestion::payload::PayloadNotice;
use serde_json::Value;
use transport::{ChunkEvent, read_chunk_event, read_payload_notices};

use crate::DeadLetterError;

/// Work that failed repeatedly, so that its message came to a dead-letter queue.
#[derive(Debug)]
pub enum Work {
    /// Chunk that was not written to the database.
    Chunk(Box<ChunkEvent>),
    /// Payload that was not cut into chunks.
    Payload(PayloadNotice),
}

/// Reads the failed work from a message's body; none for a test event of S3. A body with
/// `specversion` is the event of a chunk, any other an event of S3.
pub(crate) fn read(body: &[u8]) -> Result<Vec<Work>, DeadLetterError> {
    let json: Value = attempt::malformed::from_slice(body)?;
    if json.get("specversion").is_some() {
        return Ok(vec![Work::Chunk(Box::new(read_chunk_event(body)?))]);
    }
    payloads(json)
}

/// Reads the failed work from a message in the dead-letter queue of payloads. Every body is read as
/// an event of S3, even one that looks like a chunk's event: `dispatch` sends every message that it
/// cannot read to the queue of payloads, whose failed messages come here.
pub(crate) fn read_notice(body: &[u8]) -> Result<Vec<Work>, DeadLetterError> {
    payloads(attempt::malformed::from_slice(body)?)
}

fn payloads(json: Value) -> Result<Vec<Work>, DeadLetterError> {
    Ok(read_payload_notices(json)?.into_iter().map(Work::Payload).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(name: &str) -> Vec<u8> {
        let path = format!("{}/../../../events/ingest/dead-letter/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let event = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let lanes = worker::lanes(event).unwrap();
        let [record] = &lanes.concat()[..] else { panic!("{name} has one message") };
        record.body.as_deref().unwrap().to_vec()
    }

    fn sample(name: &str) -> Result<Vec<Work>, DeadLetterError> {
        read(&body(name))
    }

    #[test]
    fn sample_events_are_read_as_their_names_say() {
        let [Work::Chunk(event)] = &sample("chunk").unwrap()[..] else { panic!() };
        assert_eq!(event.data().chunk_index, 1);
        let [Work::Payload(notice)] = &sample("payload").unwrap()[..] else { panic!() };
        assert_eq!(notice.key, "incoming/2026/11/21/23/019aa8ec-98d3-7e83-98f2-17f2d7e0e6d7");
        assert!(sample("test-event").unwrap().is_empty());
        assert!(matches!(sample("malformed"), Err(DeadLetterError::Json(_))));
        assert!(matches!(sample("another-event"), Err(DeadLetterError::Event(_))));
        assert!(matches!(read(br#"{"Records":[1]}"#), Err(DeadLetterError::Notice(_))));
    }

    #[test]
    fn the_event_of_a_chunk_among_notifications_gives_up_no_chunk() {
        assert!(matches!(read_notice(&body("chunk")), Err(DeadLetterError::Notice(_))));
        assert!(matches!(&read_notice(&body("payload")).unwrap()[..], [Work::Payload(_)]));
    }
}
