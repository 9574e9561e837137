use std::time::Duration;

use attempt::{Retry, Retryable as _};
use ingestion::payload::PayloadNotice;
use worker::{Disposition, Failure, Job, Record, Visibility};

use crate::{ReceiptError, Receipts, event};

impl Job for Receipts {
    const SUBJECT: &'static str = "receipt";
    const RESERVE: Duration = Duration::from_secs(2);

    type Work = PayloadNotice;
    type Error = ReceiptError;

    fn read(&self, record: &Record) -> Result<Vec<PayloadNotice>, ReceiptError> {
        notices(record)
    }

    async fn run(&self, notice: PayloadNotice, _: &Record) -> Result<(), ReceiptError> {
        tracing::Span::current().record("object", &notice.key);
        let metadata = payloads::open_noticed(&self.objects, &notice).await?.metadata;
        if self.accepted.of_payload(&metadata).await?.is_none() {
            return Err(ReceiptError::NotAccepted);
        }
        let receipt = event::of(&metadata)?;
        self.publisher.publish(&[receipt]).await.map_err(|left| ReceiptError::Unpublished(left.why))
    }

    fn visibility(&self, _: &Record) -> Option<&Visibility> {
        Some(&self.visibility)
    }

    /// Drops a message that names no payload of an accepted batch; the chunker's own message about
    /// the same object ends in the unhandled queue. A message whose payload is gone is retried and
    /// not dropped: its batch may be final already, and then no other message makes this function
    /// publish that the batch was received.
    async fn dispose(&self, failure: &Failure<ReceiptError>, _: &Record) -> Disposition {
        let error: &dyn std::error::Error = failure;
        match failure.retry() {
            Retry::Never => {
                tracing::error!(event_type = "receipt.refused", error, "no receipt is published: {error}");
                Disposition::Acknowledge
            }
            retry => {
                tracing::warn!(
                    event_type = "receipt.kept",
                    error,
                    "the receipt will be published later: {error}"
                );
                Disposition::of(retry)
            }
        }
    }
}

fn notices(record: &Record) -> Result<Vec<PayloadNotice>, ReceiptError> {
    Ok(vec![event::read(record.body.as_deref().unwrap_or_default())?])
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use worker::lanes;

    use super::*;

    fn sample(name: &str) -> Vec<Result<Vec<PayloadNotice>, ReceiptError>> {
        let path = format!("{}/../../../events/ingest/receipts/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let event: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        lanes(event).unwrap().into_iter().flatten().map(|record| notices(&record)).collect()
    }

    #[test]
    fn an_event_of_eventbridge_names_a_payload() {
        let key = "incoming/2026/11/21/23/019aa8ec-98d3-7e83-98f2-17f2d7e0e6d7".to_owned();
        let payload = PayloadNotice { bucket: "payloads".to_owned(), key, version_id: None };
        let [stored] = &sample("payload")[..] else { panic!() };
        assert_eq!(stored.as_ref().unwrap(), std::slice::from_ref(&payload));
        let [first, again] = &sample("duplicate")[..] else { panic!() };
        assert_eq!(first.as_ref().unwrap(), again.as_ref().unwrap());
    }

    #[test]
    fn another_message_is_never_retried() {
        let [malformed] = &sample("malformed")[..] else { panic!() };
        assert!(!malformed.as_ref().unwrap_err().retry().is_transient());
    }
}
