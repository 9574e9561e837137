//! Writes chunks to the database: from SQS and from Kafka by the same code.
//!
//! An event arrives at least once. The chunk's row changes in the same transaction as its products, so
//! a repeated event finds the chunk done and is acknowledged without work. A chunk that fails is
//! retried after pauses that grow, and the failure is noted with it; after too many attempts, or soon
//! if no retry can help, its event goes to the dead-letter queue. A chunk that only waited for the
//! locks of its establishments did not fail: for an hour, its event is sent again as a new message.

mod delivery;
mod failure;

pub use delivery::{Failure, RecordId, Response, UnknownEvent};
pub use failure::NotWritten;

use std::time::{Duration, SystemTime};

use catalog::{Database, Written};
use ingestion::batch::{BatchStatus, ChunkResult};
use ingestion::chunk::{Chunk, ChunkId, ChunkReady, decode};
use ingestion::payload::generation_of_chunk;
use objects::Objects;
use serde_json::{Map, Value};
use telemetry::metrics::{self, Measure};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument as _;
use tracing::field::Empty;
use transport::{ChunkEvent, ChunksReady, Receipt, Visibility};
use uuid::Uuid;

use delivery::{Record, lanes, take};

/// This function's name in metrics.
const SERVICE: &str = "upsert";

/// What is kept free of the invocation's time, to say which records failed.
const TO_ANSWER: Duration = Duration::from_secs(1);

/// What noting a failed attempt may take.
const NOTE: Duration = Duration::from_secs(2);

/// How long after it was announced a chunk may wait for others without an attempt being counted.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// Bytes of a chunk's file: far more than the planner lets in.
const MAX_FILE: usize = 32 * 1024 * 1024;

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct Upsert {
    pub objects: Objects,
    pub database: Database,
    /// The queue that chunks come from.
    pub queue: ChunksReady,
    /// Of the same queue.
    pub visibility: Visibility,
}

impl Upsert {
    /// Takes the records of one invocation, which is cut off at `ends_at`, and says which of them are to come again.
    ///
    /// # Errors
    /// Where the event as a whole cannot be read.
    pub async fn handle(&self, event: Value, ends_at: SystemTime) -> Result<Response, UnknownEvent> {
        let left = ends_at.duration_since(SystemTime::now()).unwrap_or_default();
        let ends_at = Instant::now() + left.saturating_sub(TO_ANSWER);
        let response = take(lanes(event)?, async |record: Record| {
            let span = tracing::info_span!(
                "chunk",
                correlation_id = Empty,
                tenant = Empty,
                batch_id = Empty,
                chunk_id = Empty,
                cnpj = Empty
            );
            let receipt = record.receipt.clone();
            let written = async {
                if Instant::now() >= ends_at {
                    return Err(NotWritten::OutOfTime).inspect_err(log);
                }
                let written = timeout_at(ends_at, Box::pin(self.write(record))).await;
                let written = written.unwrap_or(Err(NotWritten::OutOfTime)).inspect_err(log);
                if let (Err(error), Some(receipt)) = (&written, &receipt) {
                    Box::pin(self.put_off(receipt, error)).await;
                }
                written
            };
            written.instrument(span).await
        });
        Ok(response.await)
    }

    async fn write(&self, record: Record) -> Result<(), NotWritten> {
        let began = Instant::now();
        let body = record.body.ok_or(NotWritten::NoEvent)?;
        let event = transport::read_chunk_event(&body)?;
        let attributes = event.attributes();
        let ready = event.data();
        let span = tracing::Span::current();
        span.record("correlation_id", &attributes.trace_id);
        span.record("tenant", &attributes.tenant);
        span.record("batch_id", ready.batch_id.to_string());
        span.record("chunk_id", ready.chunk_id().to_string());
        span.record("cnpj", ready.cnpj.as_str());

        let written = match self.write_ready(ready).await {
            Ok(written) => written,
            // The event keeps its time, so a chunk that has waited for longer fails like any other.
            Err(error)
                if error.is_no_attempt()
                    && record.receipt.is_some()
                    && SystemTime::from(attributes.time).elapsed().unwrap_or_default() < LONGEST_WAIT =>
            {
                return self.send_again(&event, error).await;
            }
            Err(error) => {
                self.note(ready, &error).await;
                return Err(error);
            }
        };
        report(written, began.elapsed());
        let became_final = match written {
            Written::Done { batch, became_final, .. } | Written::AlreadyDone { batch, became_final } => {
                became_final.then_some(batch)
            }
            Written::Superseded | Written::TooOld => None,
        };
        if let Some(status) = became_final {
            self.let_go(ready.batch_id, status).await;
        }
        Ok(())
    }

    /// Sends the event of a chunk again that only waited for others: the message that brought it is
    /// done then. Where the queue does not take it, that message comes again, and counts as
    /// received once more.
    async fn send_again(&self, event: &ChunkEvent, why: NotWritten) -> Result<(), NotWritten> {
        let sent = Box::pin(self.queue.send_again(event, self.visibility.first_pause())).await;
        if let Err(error) = sent {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                event_type = "chunk.not_sent_again",
                error,
                "the chunk's message counts as received"
            );
            return Err(why);
        }
        let error: &dyn std::error::Error = &why;
        tracing::warn!(event_type = "chunk.waited", error, "the chunk's event was sent again");
        Ok(())
    }

    /// Says when a message that failed comes again.
    async fn put_off(&self, receipt: &Receipt, error: &NotWritten) {
        match error {
            // There is none for the call either.
            NotWritten::OutOfTime => {}
            error if error.may_pass() => self.visibility.later(receipt).await,
            _ => self.visibility.at_once(receipt).await,
        }
    }

    async fn write_ready(&self, ready: &ChunkReady) -> Result<Written, NotWritten> {
        let chunk = self.read(ready).await?;
        Ok(self.database.write_chunk(&chunk).await?)
    }

    /// Notes with the chunk why it was not written. That is for whoever looks at it later, so a note that cannot be made changes nothing.
    async fn note(&self, ready: &ChunkReady, error: &NotWritten) {
        if error.is_not_noted() {
            return;
        }
        let note = error.note();
        let noting = self.database.note_failed_attempt(ready.chunk_id(), &note);
        let error: Box<dyn std::error::Error> = match timeout(NOTE, Box::pin(noting)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        };
        let error: &dyn std::error::Error = error.as_ref();
        tracing::warn!(event_type = "chunk.attempt_not_noted", error, "the failed attempt was not noted");
    }

    /// Reads the chunk that an event announces, and makes sure that it is that one. One that is replayed lies where an earlier generation put it.
    async fn read(&self, ready: &ChunkReady) -> Result<Chunk, NotWritten> {
        let ChunkReady { batch_id, generation, chunk_index, ref chunk_uri, .. } = *ready;
        let of_this_chunk = |key| Some((key, generation_of_chunk(key, batch_id, chunk_index)?));
        let found = self.objects.key(chunk_uri).and_then(of_this_chunk);
        let found = found.filter(|(_, cut_in)| *cut_in <= generation);
        let (key, cut_in) = found.ok_or_else(|| NotWritten::OtherObject(chunk_uri.clone()))?;
        let chunk = decode(&self.objects.get(key, MAX_FILE).await?)?;
        if chunk.id() == ChunkId::of(batch_id, cut_in, chunk_index) {
            Ok(chunk.of_generation(generation))
        } else {
            Err(NotWritten::OtherChunk)
        }
    }

    /// Lets the objects of a batch that is final expire. What fails here costs storage and nothing else.
    async fn let_go(&self, batch_id: Uuid, status: BatchStatus) {
        tracing::info!(event_type = "batch.final", %status, "the batch came to its end");
        retention::let_go(&self.database, &self.objects, batch_id).await;
    }
}

fn report(written: Written, took: Duration) {
    match written {
        Written::Done { result, batch, .. } => {
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
                "the chunk was written"
            );
            measure(result, took);
        }
        Written::AlreadyDone { .. } => {
            tracing::info!(event_type = "chunk.done_before", "the chunk was written before");
        }
        Written::Superseded => {
            tracing::info!(event_type = "chunk.superseded", "the batch is being replayed by now");
        }
        Written::TooOld => {
            tracing::warn!(
                event_type = "chunk.too_old",
                "the chunk is older than the history of loads, and is not written"
            );
        }
    }
}

fn measure(result: ChunkResult, took: Duration) {
    let changes = result.changes();
    let measures = [
        (metrics::CHUNKS_WRITTEN, Measure::Count(1)),
        (metrics::ITEMS_INSERTED, Measure::Count(changes.inserted)),
        (metrics::ITEMS_UPDATED, Measure::Count(changes.updated)),
        (metrics::ITEMS_UNCHANGED, Measure::Count(changes.unchanged)),
        (metrics::ITEMS_STALE, Measure::Count(changes.stale)),
        (metrics::ITEMS_REJECTED, Measure::Count(result.rejected())),
        (metrics::WRITING_TIME, Measure::duration(took)),
    ];
    metrics::measure(SERVICE, &measures, Map::new());
}

fn log(error: &NotWritten) {
    let may_pass = error.may_pass();
    let error: &dyn std::error::Error = error;
    if may_pass {
        tracing::warn!(event_type = "chunk.interrupted", error, "the chunk will be tried again");
    } else {
        tracing::error!(
            event_type = "chunk.refused",
            error,
            "the chunk's event is left to the dead-letter queue"
        );
    }
}
