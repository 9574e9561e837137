//! Ends the work that failed for good: what lies in the dead-letter queues of payloads and of chunks.
//!
//! A message is there because the infrastructure failed, again and again: faults of the data were recorded by those who found them. So its chunk or its batch is
//! recorded as failed, from where a replay can take it up again, and the message is acknowledged. A chunk that is written after all is done
//! nevertheless. Where the record cannot be made, because a store is what failed, the message stays, and is tried for days. A message that cannot be
//! understood, or that no batch belongs to, goes to a queue for people. Nothing is ever dropped.

mod ending;
mod failure;
mod message;
mod unhandled;

pub use failure::NotEnded;
pub use unhandled::UnhandledQueue;

use std::time::{Duration, SystemTime};

use accepted::Accepted;
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use catalog::Database;
use objects::Objects;
use serde_json::{Map, Value};
use telemetry::metrics;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;
use tracing::field::Empty;
use transport::{Receipt, Visibility};

use message::Work;

/// This function's name in metrics.
const SERVICE: &str = "dead-letter";

/// What is kept free of the invocation's time, to hand a message on and to say which failed.
const TO_ANSWER: Duration = Duration::from_secs(5);

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct DeadLetter {
    pub objects: Objects,
    pub accepted: Accepted,
    pub database: Database,
    /// The queues that messages come from.
    pub sources: Vec<Visibility>,
    /// How often a message was received before it came there.
    pub earlier_receives: u32,
    pub unhandled: UnhandledQueue,
}

/// An event that no queue sent.
#[derive(Debug, thiserror::Error)]
pub enum UnknownEvent {
    #[error("the event has another form than that of messages")]
    Form(#[from] serde_json::Error),
    #[error("a message has no id")]
    NoId,
}

impl DeadLetter {
    /// Takes the messages of one invocation, which is cut off at `ends_at`, and says which of them stay where they are.
    ///
    /// # Errors
    /// Where the event as a whole cannot be read.
    pub async fn handle(&self, event: Value, ends_at: SystemTime) -> Result<SqsBatchResponse, UnknownEvent> {
        let left = ends_at.duration_since(SystemTime::now()).unwrap_or_default();
        let ends_at = Instant::now() + left.saturating_sub(TO_ANSWER);
        let event: SqsEvent = serde_json::from_value(event)?;
        let mut response = SqsBatchResponse::default();
        for message in event.records {
            let id = message.message_id.clone().ok_or(UnknownEvent::NoId)?;
            let span = tracing::info_span!(
                "message",
                message_id = id,
                correlation_id = Empty,
                tenant = Empty,
                batch_id = Empty,
                chunk_id = Empty,
                cnpj = Empty
            );
            let is_kept = Box::pin(self.take(&message, ends_at)).instrument(span).await;
            if is_kept == Kept::InItsQueue {
                response.add_failure(id);
            }
        }
        Ok(response)
    }

    async fn take(&self, message: &SqsMessage, ends_at: Instant) -> Kept {
        let ended = if Instant::now() >= ends_at {
            Err(NotEnded::OutOfTime)
        } else {
            let ending = Box::pin(self.end(message.body.as_deref().unwrap_or_default()));
            timeout_at(ends_at, ending).await.unwrap_or(Err(NotEnded::OutOfTime))
        };
        match ended {
            Ok(()) => Kept::No,
            Err(error) if error.may_pass() => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(event_type = "message.kept", error, "the message will be tried again");
                self.put_off(message).await;
                Kept::InItsQueue
            }
            Err(error) => self.hand_on(message, &error).await,
        }
    }

    async fn end(&self, body: &str) -> Result<(), NotEnded> {
        match message::read(body)? {
            Work::Chunk(event) => self.end_chunk(&event).await,
            Work::Payloads(notices) => {
                for notice in notices {
                    self.end_payload(&notice).await?;
                }
                Ok(())
            }
        }
    }

    /// Gives a message to people that nothing can be done for here.
    async fn hand_on(&self, message: &SqsMessage, why: &NotEnded) -> Kept {
        let reason = why.reason();
        match Box::pin(self.unhandled.keep(message, &reason)).await {
            Ok(()) => {
                tracing::error!(
                    event_type = "message.unhandled",
                    reason,
                    "the message needs somebody to look at it"
                );
                metrics::count(SERVICE, &[metrics::MESSAGES_UNHANDLED], Map::new());
                Kept::No
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    event_type = "message.kept",
                    reason,
                    error,
                    "the message could not be handed on"
                );
                self.put_off(message).await;
                Kept::InItsQueue
            }
        }
    }

    async fn put_off(&self, message: &SqsMessage) {
        let arn = message.event_source_arn.as_deref().unwrap_or_default();
        let source = self.sources.iter().find(|source| source.is_of(arn));
        if let (Some(source), Some(receipt)) = (source, Receipt::of(message)) {
            Box::pin(source.later(&receipt.without(self.earlier_receives))).await;
        }
    }
}

/// Where a message is after it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// It is not needed any more, or lies in another queue.
    No,
    InItsQueue,
}
