//! Cuts a payload that was stored into chunks, and announces them.
//!
//! The news of a payload comes at least once, and a run may die anywhere, so everything here is repeated harmlessly: chunks have the same names and bytes in
//! every run, a batch is sealed once, and what is announced twice is written once. A delivery is acknowledged when its batch was brought as far as it
//! can be brought here: sealed and announced, or failed for good by its own content. Everything else returns it to its queue, also an object that is no
//! payload of ours: its news then lies in the dead-letter queue, the object where it is, and nothing is lost.

mod batch;
mod content;
mod cutter;
mod decode;
mod failure;
mod notice;
pub mod pipeline;
mod settings;
mod storage;
mod unusable;

pub use cutter::{Bounds, Cut, CutChunk, Job, MAX_ITEM_ERRORS};
pub use failure::NotCut;
pub use settings::Settings;
pub use unusable::{Unusable, UnusableCode};

use std::time::{Duration, SystemTime};

use accepted::Accepted;
use aws_lambda_events::sqs::SqsBatchResponse;
use catalog::{Database, NewBatch};
use ingestion::Viewer;
use ingestion::payload::PayloadMetadata;
use ingestion::product::CnpjAccess;
use objects::Objects;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;
use tracing::field::Empty;
use transport::{ChunksReady, PayloadNotice, UnknownNotice, Visibility};

use notice::{Message, deliveries};

/// This function's name in metrics.
const SERVICE: &str = "chunker";

/// What is kept free of the invocation's time, to say which deliveries failed.
const TO_ANSWER: Duration = Duration::from_secs(2);

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct Chunker {
    pub objects: Objects,
    pub accepted: Accepted,
    pub database: Database,
    pub queue: ChunksReady,
    /// Of the queue that payloads come from.
    pub visibility: Visibility,
    pub settings: Settings,
}

impl Chunker {
    /// Takes the deliveries of one invocation, which is cut off at `ends_at`, and says which of them are to come again.
    ///
    /// # Errors
    /// Where a delivery that no queue brought failed: then the invocation as a whole has to be repeated.
    pub async fn handle(&self, event: Value, ends_at: SystemTime) -> Result<SqsBatchResponse, NotCut> {
        let left = ends_at.duration_since(SystemTime::now()).unwrap_or_default();
        let ends_at = Instant::now() + left.saturating_sub(TO_ANSWER);
        let mut response = SqsBatchResponse::default();
        for delivery in deliveries(event) {
            let Err(error) = self.deliver(delivery.notices, ends_at).await else { continue };
            let Some(message) = delivery.message else { return Err(error) };
            Box::pin(self.put_off(&message, &error)).await;
            response.add_failure(message.id);
        }
        Ok(response)
    }

    /// Says when a message that failed comes again.
    async fn put_off(&self, message: &Message, error: &NotCut) {
        let Some(receipt) = &message.receipt else { return };
        match error {
            // There is none for the call either.
            NotCut::OutOfTime => {}
            error if error.may_pass() => self.visibility.later(receipt).await,
            _ => self.visibility.at_once(receipt).await,
        }
    }

    async fn deliver(
        &self,
        notices: Result<Vec<PayloadNotice>, UnknownNotice>,
        ends_at: Instant,
    ) -> Result<(), NotCut> {
        let notices = notices.map_err(NotCut::Event).inspect_err(log)?;
        for notice in notices {
            let span = tracing::info_span!(
                "payload",
                object = notice.key,
                correlation_id = Empty,
                tenant = Empty,
                batch_id = Empty
            );
            let taken = async {
                if Instant::now() >= ends_at {
                    return Err(NotCut::OutOfTime).inspect_err(log);
                }
                let taken = timeout_at(ends_at, Box::pin(self.take(&notice))).await;
                taken.unwrap_or(Err(NotCut::OutOfTime)).inspect_err(log)
            };
            taken.instrument(span).await?;
        }
        Ok(())
    }

    /// Takes one payload.
    async fn take(&self, notice: &PayloadNotice) -> Result<(), NotCut> {
        if notice.bucket != self.objects.bucket() {
            return Err(NotCut::OtherBucket(notice.bucket.clone()));
        }
        let head = self.objects.head(&notice.key).await?;
        let metadata = PayloadMetadata::from_map(&head.metadata)?;
        let span = tracing::Span::current();
        span.record("correlation_id", &metadata.trace_id);
        span.record("tenant", metadata.tenant_id.to_string());
        span.record("batch_id", metadata.batch_id.to_string());
        if metadata.key() != notice.key {
            return Err(NotCut::OtherKey(metadata.key()));
        }
        let cnpjs = self.allowed(&metadata).await?;
        let batch = NewBatch { payload_uri: self.objects.uri(&notice.key), metadata, cnpjs };
        self.bring_on(&batch, &head).await
    }

    /// What a batch may load. Its item says so from the beginning, and is gone when an old batch is
    /// replayed; the database has kept it then. The item of an upload learns that its payload is there.
    async fn allowed(&self, metadata: &PayloadMetadata) -> Result<CnpjAccess, NotCut> {
        let (tenant_id, batch_id) = (metadata.tenant_id, metadata.batch_id);
        if let Some(accepted) = self.accepted.get(&Viewer::whole(tenant_id), batch_id).await? {
            if accepted.upload_expires_at.is_some() {
                self.accepted.note_arrival(tenant_id, batch_id).await?;
            }
            return Ok(accepted.cnpjs);
        }
        self.database.allowed_cnpjs(tenant_id, batch_id).await?.ok_or(NotCut::NotAccepted)
    }
}

fn log(error: &NotCut) {
    let may_pass = error.may_pass();
    let error: &dyn std::error::Error = error;
    if may_pass {
        tracing::warn!(event_type = "payload.interrupted", error, "the payload will be tried again");
    } else {
        tracing::error!(
            event_type = "payload.refused",
            error,
            "the payload's news is left to the dead-letter queue"
        );
    }
}
