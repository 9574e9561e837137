use std::time::Duration;

use attempt::{Retry, Retryable as _};
use transport::{ChunkEvent, read_chunk_event, record_chunk};
use worker::{Failure, Job, KAFKA_RECORD, ParkError, Record, Visibility};

use crate::{Upsert, UpsertError};

impl Job for Upsert {
    const SUBJECT: &'static str = "chunk";
    /// Part of an invocation's time kept free: enough to park the rest of a Kafka batch, which
    /// means to send it to the SQS queue of chunks.
    const RESERVE: Duration = Duration::from_secs(3);

    type Work = ChunkEvent;
    type Error = UpsertError;

    fn read(&self, record: &Record) -> Result<Vec<ChunkEvent>, UpsertError> {
        Ok(vec![chunk(record)?])
    }

    async fn run(&self, event: ChunkEvent, _: &Record) -> Result<(), UpsertError> {
        record_chunk(&event);
        let done = self.process(&event).await;
        self.database.publish_committed(&self.publisher).await;
        done
    }

    fn visibility(&self, _: &Record) -> Option<&Visibility> {
        Some(&self.visibility)
    }

    async fn park(&self, failure: &Failure<UpsertError>, record: &Record) -> Result<(), ParkError> {
        let id = record.id.as_ref().map(ToString::to_string).unwrap_or_default();
        let reason = match failure {
            Failure::Job(error) => error.note(),
            Failure::OutOfTime => failure.to_string(),
        };
        let attributes = [(KAFKA_RECORD, id.as_str()), ("reason", &reason)];
        let parking = self.queue.park(record.body.as_deref(), &attributes, self.pause(failure));
        Box::pin(parking).await.map_err(|error| ParkError::Queue(error.into()))
    }
}

impl Upsert {
    /// Returns the delay of a Kafka record that is parked (sent to the SQS queue of chunks): zero
    /// if no retry can help, or if the record was never tried.
    fn pause(&self, failure: &Failure<UpsertError>) -> Duration {
        match failure.retry() {
            Retry::Later | Retry::Contended | Retry::AfterRepair => self.visibility.first_pause(),
            Retry::OutOfTime | Retry::Never => Duration::ZERO,
        }
    }
}

fn chunk(record: &Record) -> Result<ChunkEvent, UpsertError> {
    let body = record.body.as_deref().ok_or(UpsertError::NoEvent)?;
    Ok(read_chunk_event(body)?)
}

#[cfg(test)]
mod tests {
    use worker::lanes;

    use super::*;

    /// Returns the ids of those records in the sample event `name` that are not the event of a
    /// chunk.
    fn unreadable(name: &str) -> Vec<String> {
        let path = format!("{}/../../../events/ingest/upsert/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let event = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let mut ids = Vec::new();
        for record in lanes(event).unwrap().into_iter().flatten() {
            match chunk(&record) {
                Ok(event) => assert_eq!(event.data().items % 200, 0),
                Err(error) => {
                    assert_eq!(error.retry(), Retry::Never);
                    ids.push(record.id.unwrap().to_string());
                }
            }
        }
        ids
    }

    #[test]
    fn sample_events_are_read_as_their_names_say() {
        for name in ["chunk-ready-sqs", "chunk-ready-kafka", "duplicate", "duplicate-kafka"] {
            assert_eq!(unreadable(name), [""; 0], "{name}");
        }
        for name in ["malformed", "key-of-another-chunk"] {
            assert_eq!(unreadable(name), ["059f36b4-87a3-44ab-83d2-661975830a7d"], "{name}");
        }
        assert_eq!(unreadable("malformed-kafka"), ["chunks.ready-0@16"]);
    }
}
