use std::time::Duration;

use attempt::{Retry, Retryable};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use events::EventError;
use ingestion::chunk::ChunkReady;
use jiff::Timestamp;

use crate::{ChunkEvent, Origin, chunk_event, read_chunk_event, text};

/// Maximum number of messages in one `SendMessageBatch` request of SQS.
const AT_ONCE: usize = 10;

/// Maximum number of attempts to send messages that SQS rejects while it accepts others of the same
/// request.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Client of the SQS queue `chunks-ready`, with announcements of chunks to write.
#[derive(Clone, Debug)]
pub struct ChunkQueue {
    client: Client,
    queue_url: String,
}

/// Reason why messages were not sent. Some of several may have been sent; sending those again does
/// no harm.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum AnnounceError {
    #[error("cannot make the chunk's event")]
    Event(#[from] EventError),
    #[error("cannot serialize the chunk's event")]
    Json(#[source] serde_json::Error),
    #[error("the request to SQS failed")]
    Queue(#[source] Box<aws_sdk_sqs::Error>),
    #[error("SQS rejected {count} messages, the first with {code}")]
    Refused { count: usize, code: String },
    #[error("Kafka did not take the chunks")]
    Topic(#[from] events::kafka::ProduceError),
}

impl Retryable for AnnounceError {
    fn retry(&self) -> Retry {
        match self {
            Self::Event(error) => error.retry(),
            Self::Json(_) => Retry::Never,
            Self::Queue(_) | Self::Refused { .. } => Retry::Later,
            Self::Topic(error) => error.retry(),
        }
    }
}

impl ChunkQueue {
    /// Creates a client of the standard SQS queue with this URL. Its message groups make it a fair
    /// queue.
    #[must_use]
    pub const fn new(client: Client, queue_url: String) -> Self {
        Self { client, queue_url }
    }

    /// Announces chunks of one batch in the message group of the batch's tenant, so that a tenant
    /// with many chunks does not delay others.
    ///
    /// # Errors
    /// If SQS does not accept all messages.
    pub async fn announce(
        &self,
        origin: &Origin,
        chunks: impl IntoIterator<Item = ChunkReady>,
    ) -> Result<(), AnnounceError> {
        let mut chunks = chunks.into_iter();
        loop {
            let entries = chunks
                .by_ref()
                .take(AT_ONCE)
                .enumerate()
                .map(|(place, chunk)| {
                    entry(place, &chunk_event(origin, chunk, Timestamp::now())?, Duration::ZERO)
                })
                .collect::<Result<Vec<_>, _>>()?;
            if entries.is_empty() {
                return Ok(());
            }
            self.send(entries).await?;
        }
    }

    /// Sends the event of a chunk again, as a new message that is delivered after `pause` and whose
    /// receive count begins again.
    pub async fn resend(&self, event: &ChunkEvent, pause: Duration) -> Result<(), AnnounceError> {
        self.send(vec![entry(0, event, pause)?]).await
    }

    /// Sends the value of a Kafka record as a message that is delivered after `pause`, with these
    /// attributes. The value may have any bytes: those that SQS does not accept are replaced, and a
    /// long value is cut. A repeated call sends a second copy.
    pub async fn park(
        &self,
        value: Option<&[u8]>,
        attributes: &[(&str, &str)],
        pause: Duration,
    ) -> Result<(), AnnounceError> {
        let mut entry = SendMessageBatchRequestEntry::builder()
            .id("0")
            .set_delay_seconds(delay(pause))
            .message_body(text::body(value));
        if let Some(event) = value.and_then(|value| read_chunk_event(value).ok()) {
            entry = entry.message_group_id(&event.attributes().tenant);
        }
        for (name, value) in attributes {
            let value = text::attribute(value);
            if value.is_empty() {
                continue;
            }
            let value = MessageAttributeValue::builder().data_type("String").string_value(value).build();
            entry = entry.message_attributes(*name, value.map_err(refused)?);
        }
        self.send(vec![entry.build().map_err(refused)?]).await
    }

    /// Sends messages. Those that SQS rejects are sent again, up to [`ATTEMPTS`] times in all.
    async fn send(&self, mut entries: Vec<SendMessageBatchRequestEntry>) -> Result<(), AnnounceError> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let request = self.client.send_message_batch().queue_url(&self.queue_url);
            let sent = request.set_entries(Some(entries.clone())).send().await;
            let failed = sent.map_err(|error| AnnounceError::Queue(Box::new(error.into())))?.failed;
            let Some(first) = failed.first() else { break };
            if attempt >= ATTEMPTS {
                return Err(AnnounceError::Refused { count: failed.len(), code: first.code.clone() });
            }
            entries.retain(|entry| failed.iter().any(|failed| failed.id == entry.id));
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause *= 2;
        }
        Ok(())
    }
}

fn entry(
    place: usize,
    event: &ChunkEvent,
    pause: Duration,
) -> Result<SendMessageBatchRequestEntry, AnnounceError> {
    SendMessageBatchRequestEntry::builder()
        .id(place.to_string())
        .set_delay_seconds(delay(pause))
        .message_group_id(&event.attributes().tenant)
        .message_body(serde_json::to_string(event).map_err(AnnounceError::Json)?)
        .build()
        .map_err(refused)
}

fn refused(error: BuildError) -> AnnounceError {
    AnnounceError::Queue(Box::new(error.into()))
}

/// Converts a pause to whole seconds, rounded up, as the delay of a message; `None` for no pause,
/// so that the queue's own delay applies.
fn delay(pause: Duration) -> Option<i32> {
    let seconds = i32::try_from(pause.as_millis().div_ceil(1000)).unwrap_or(i32::MAX);
    (seconds > 0).then_some(seconds)
}
