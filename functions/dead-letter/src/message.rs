//! What a message was about, when it could not be worked on.

use serde_json::Value;
use transport::{ChunkEvent, PayloadNotice, read_chunk_event, read_payload_notices};

use crate::failure::NotEnded;

/// The work that failed.
#[derive(Debug)]
pub(crate) enum Work {
    /// A chunk was not written.
    Chunk(Box<ChunkEvent>),
    /// Payloads were not cut; none where the message tells of nothing, as S3's tests do.
    Payloads(Vec<PayloadNotice>),
}

/// Reads a message's body. Chunks' events are told by what every event of ours has, and anything else is taken for one of S3.
pub(crate) fn read(body: &str) -> Result<Work, NotEnded> {
    let json: Value = serde_json::from_str(body)?;
    if json.get("specversion").is_some() {
        return Ok(Work::Chunk(Box::new(read_chunk_event(body.as_bytes())?)));
    }
    Ok(Work::Payloads(read_payload_notices(json)?))
}

#[cfg(test)]
mod tests {
    use aws_lambda_events::sqs::SqsEvent;

    use super::*;

    fn sample(name: &str) -> Result<Work, NotEnded> {
        let path = format!("{}/../../events/dead-letter/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let event: SqsEvent = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let [message] = &event.records[..] else { panic!("{name} has one message") };
        read(message.body.as_deref().unwrap())
    }

    #[test]
    fn sample_events_are_read_as_their_names_say() {
        assert!(matches!(sample("chunk").unwrap(), Work::Chunk(event) if event.data().chunk_index == 1));
        let Work::Payloads(notices) = sample("payload").unwrap() else { panic!() };
        assert_eq!(notices[0].key, "incoming/2026/11/21/23/019aa8ec-98d3-7e83-98f2-17f2d7e0e6d7");
        assert!(matches!(sample("test-event").unwrap(), Work::Payloads(notices) if notices.is_empty()));
        assert!(matches!(sample("malformed"), Err(NotEnded::Json(_))));
        assert!(matches!(sample("another-event"), Err(NotEnded::Event(_))));
        assert!(matches!(read(r#"{"Records":[1]}"#), Err(NotEnded::Notice(_))));
    }
}
