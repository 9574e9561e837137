//! Writes chunks to the database: from SQS and from Kafka by the same code.
//!
//! An event is delivered at least once. The chunk's row changes in the same transaction as its
//! products, so a repeated event finds the chunk done and is acknowledged without work. A chunk
//! that fails is retried after growing pauses, and the reason is stored with it. After too many
//! attempts, or soon if no retry can help, its event goes to the dead-letter queue. A chunk that
//! only waited for the locks of its establishments did not fail: for an hour, its event is sent
//! again as a new message.
//!
//! Kafka counts no attempts. So a record that fails is parked: it goes to the SQS queue of chunks
//! as a message, which is retried and given up like any other.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod error;
mod job;

pub use error::UpsertError;

use std::time::{Duration, SystemTime};

use attempt::{Retry, Retryable as _};
use catalog::{Database, WriteOutcome};
use events::Publisher;
use ingestion::batch::ChunkResult;
use ingestion::chunk::{Chunk, ChunkId, ChunkReady, decode};
use objects::Objects;
use runtime::metrics;
use serde_json::Map;
use tokio::time::{Instant, timeout};
use transport::{ChunkEvent, ChunkQueue};
use worker::Visibility;

/// Name of the function `upsert` in its metrics.
const SERVICE: &str = "upsert";

/// Time limit for storing the reason of a failed attempt with its chunk.
const NOTE: Duration = Duration::from_secs(2);

/// Time since its announcement for which a chunk may wait for locks without counting as a failed
/// attempt. This limit alone ends the loop in which the function sends a chunk to its own queue
/// again, which the template permits (`RecursiveLoop`).
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// Maximum size of a chunk's file in bytes: far more than the planner allows.
const MAX_FILE: usize = 32 * 1024 * 1024;

/// State of the function `upsert`: its clients and queues, reused by every invocation.
#[derive(Debug)]
pub struct Upsert {
    pub objects: Objects,
    pub database: Database,
    pub publisher: Publisher,
    /// SQS queue of chunks, to which Kafka records that were not written are sent too.
    pub queue: ChunkQueue,
    /// Visibility timeouts for messages of the queue of chunks.
    pub visibility: Visibility,
}

impl Upsert {
    async fn process(&self, event: &ChunkEvent) -> Result<(), UpsertError> {
        let began = Instant::now();
        let ready = event.data();
        let written = match self.write(ready).await {
            Ok(written) => written,
            Err(error) if error.retry() == Retry::Contended && may_wait(event, SystemTime::now()) => {
                return self.resend(event, error).await;
            }
            Err(error) => {
                self.note(ready, &error).await;
                return Err(error);
            }
        };
        report(ready, written, began.elapsed());
        if let WriteOutcome::Done { batch, became_final: true, .. }
        | WriteOutcome::AlreadyDone { batch, became_final: true } = written
        {
            payloads::retention::finish(&self.database, &self.objects, ready.batch_id, batch).await;
        }
        Ok(())
    }

    /// Sends the event of a chunk that only waited for locks as a new message, in place of the
    /// current message. If SQS rejects the new message, the current one is retried, and its receive
    /// count grows.
    async fn resend(&self, event: &ChunkEvent, why: UpsertError) -> Result<(), UpsertError> {
        let ChunkReady { batch_id, chunk_index, .. } = *event.data();
        let sent = Box::pin(self.queue.resend(event, self.visibility.first_pause())).await;
        if let Err(error) = sent {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                event_type = "chunk.not_sent_again",
                error,
                "the event of chunk {chunk_index} of batch {batch_id} was not sent again, so its message \
                 counts as received: {error}"
            );
            self.note(event.data(), &why).await;
            return Err(why);
        }
        let error: &dyn std::error::Error = &why;
        tracing::warn!(
            event_type = "chunk.waited",
            error,
            "chunk {chunk_index} of batch {batch_id} waited for locks, so its event was sent again: {error}"
        );
        Ok(())
    }

    async fn write(&self, ready: &ChunkReady) -> Result<WriteOutcome, UpsertError> {
        let chunk = self.read_chunk(ready).await?;
        Ok(self.database.write_chunk(&chunk).await?)
    }

    /// Stores with the chunk why it was not written, for investigation. If that fails, it is only
    /// logged.
    async fn note(&self, ready: &ChunkReady, error: &UpsertError) {
        if !error.is_noted() {
            return;
        }
        let ChunkReady { batch_id, chunk_index: index, .. } = *ready;
        let note = error.note();
        let noting = self.database.note_failed_attempt(ready, &note);
        let error: Box<dyn std::error::Error> = match timeout(NOTE, Box::pin(noting)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        };
        let error: &dyn std::error::Error = error.as_ref();
        tracing::warn!(
            event_type = "chunk.attempt_not_noted",
            error,
            "the failed attempt at chunk {index} of batch {batch_id} was not noted: {error}"
        );
    }

    /// Reads the chunk that an event announces from S3, and checks that the object holds this
    /// chunk.
    async fn read_chunk(&self, ready: &ChunkReady) -> Result<Chunk, UpsertError> {
        let ChunkReady { batch_id, generation, chunk_index, ref chunk_uri, .. } = *ready;
        let found = self.objects.key(chunk_uri).and_then(|key| Some((key, ready.cut_in(key)?)));
        let (key, cut_in) = found.ok_or_else(|| UpsertError::OtherObject(chunk_uri.clone()))?;
        let chunk = decode(&self.objects.get(key, MAX_FILE).await?)?;
        if chunk.id() == ChunkId::of(batch_id, cut_in, chunk_index) {
            Ok(chunk.of_generation(generation))
        } else {
            Err(UpsertError::OtherChunk)
        }
    }
}

/// True if a chunk may still wait for locks without counting as a failed attempt: it was announced
/// less than [`LONGEST_WAIT`] ago. False if the time of its announcement is in the future, since
/// the wait would have no end; only a Kafka producer outside this project can write such a time.
fn may_wait(event: &ChunkEvent, now: SystemTime) -> bool {
    let announced = SystemTime::from(event.attributes().time);
    now.duration_since(announced).is_ok_and(|waited| waited < LONGEST_WAIT)
}

fn report(ready: &ChunkReady, written: WriteOutcome, took: Duration) {
    let ChunkReady { batch_id, chunk_index, .. } = *ready;
    match written {
        WriteOutcome::Done { result, batch, .. } => {
            let changes = result.changes();
            tracing::info!(
                event_type = "chunk.written",
                inserted = changes.inserted,
                updated = changes.updated,
                unchanged = changes.unchanged,
                stale = changes.stale,
                rejected = result.rejected(),
                duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                batch_status = %batch,
                "chunk {chunk_index} of batch {batch_id} was written; the batch is {batch}"
            );
            measure(result, took);
        }
        WriteOutcome::AlreadyDone { .. } => {
            tracing::info!(
                event_type = "chunk.done_before",
                "chunk {chunk_index} of batch {batch_id} was written before"
            );
        }
        WriteOutcome::Superseded => {
            tracing::info!(
                event_type = "chunk.superseded",
                "chunk {chunk_index} of batch {batch_id} is not written: a replay of the batch has begun"
            );
        }
        WriteOutcome::TooOld => {
            tracing::warn!(
                event_type = "chunk.too_old",
                "chunk {chunk_index} of batch {batch_id} is older than the history of loads and is not written"
            );
        }
    }
}

fn measure(result: ChunkResult, took: Duration) {
    let changes = result.changes();
    let measures = [
        (metrics::CHUNKS_WRITTEN, 1),
        (metrics::ITEMS_INSERTED, changes.inserted),
        (metrics::ITEMS_UPDATED, changes.updated),
        (metrics::ITEMS_UNCHANGED, changes.unchanged),
        (metrics::ITEMS_STALE, changes.stale),
        (metrics::ITEMS_REJECTED, result.rejected()),
        (metrics::WRITING_TIME, metrics::milliseconds(took)),
    ];
    metrics::measure(SERVICE, &measures, Map::new());
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn event_of(time: &str) -> ChunkEvent {
        let path =
            format!("{}/../../../events/ingest/upsert/chunk-ready-sqs.json", env!("CARGO_MANIFEST_DIR"));
        let sample: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let body = sample["Records"][0]["body"].as_str().unwrap();
        let mut event: Value = serde_json::from_str(body).unwrap();
        event["time"] = time.into();
        transport::read_chunk_event(event.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_chunk_waits_for_locks_for_an_hour_from_its_announcement_and_no_longer() {
        let now = SystemTime::from(event_of("2026-11-25T12:00:00Z").attributes().time);
        for (announced, may) in [
            ("2026-11-25T12:00:00Z", true),
            ("2026-11-25T11:00:01Z", true),
            ("2026-11-25T11:00:00Z", false),
            ("2026-11-24T12:00:00Z", false),
            ("2026-11-25T12:00:01Z", false),
            ("9999-01-01T00:00:00Z", false),
        ] {
            assert_eq!(may_wait(&event_of(announced), now), may, "{announced}");
        }
    }
}
