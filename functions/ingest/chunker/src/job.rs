//! Reading of S3's notifications of payloads: from messages of SQS, or from an S3 event that
//! invokes the chunker directly.

use std::time::Duration;

use ingestion::payload::PayloadNotice;
use transport::{UnknownNotice, read_payload_notices};
use worker::{Job, Record, Visibility};

use crate::{Chunker, ChunkerError};

impl Job for Chunker {
    const SUBJECT: &'static str = "payload";
    const RESERVE: Duration = Duration::from_secs(2);

    type Work = PayloadNotice;
    type Error = ChunkerError;

    fn read(&self, record: &Record) -> Result<Vec<PayloadNotice>, ChunkerError> {
        Ok(notices(record)?)
    }

    async fn run(&self, notice: PayloadNotice, _: &Record) -> Result<(), ChunkerError> {
        tracing::Span::current().record("object", &notice.key);
        let done = self.process(&notice).await;
        self.database.publish_committed(&self.publisher).await;
        done
    }

    fn visibility(&self, _: &Record) -> Option<&Visibility> {
        Some(&self.visibility)
    }
}

/// Reads the payloads that a queue message names; none if it is a test event of S3 or an event of
/// another kind.
fn notices(record: &Record) -> Result<Vec<PayloadNotice>, UnknownNotice> {
    let event = attempt::malformed::from_slice(record.body.as_deref().unwrap_or_default())?;
    read_payload_notices(event)
}

#[cfg(test)]
mod tests {
    use attempt::Retryable as _;
    use serde_json::{Value, json};
    use worker::{RecordId, is_from_queue, lanes};

    use super::*;

    fn sample(name: &str) -> Vec<Record> {
        let path = format!("{}/../../../events/ingest/chunker/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let event: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        if is_from_queue(&event) {
            lanes(event).unwrap().into_iter().flatten().collect()
        } else {
            vec![Record::of_invocation(&event)]
        }
    }

    fn payload() -> PayloadNotice {
        PayloadNotice {
            bucket: "payloads".to_owned(),
            key: "incoming/2026/11/21/23/019aa8ec-98d3-7e83-98f2-17f2d7e0e6d7".to_owned(),
            version_id: None,
        }
    }

    #[test]
    fn a_notification_comes_from_s3_itself_or_through_a_queue() {
        let [bare] = &sample("s3-put")[..] else { panic!() };
        assert_eq!((&bare.id, notices(bare).unwrap()), (&None, vec![payload()]));
        for name in ["s3-through-sqs", "multipart-upload-through-sqs"] {
            let [queued] = &sample(name)[..] else { panic!() };
            let id = RecordId::Message("059f36b4-87a3-44ab-83d2-661975830a7d".to_owned());
            assert_eq!((queued.id.as_ref(), notices(queued).unwrap()), (Some(&id), vec![payload()]));
            assert_eq!(queued.receipt.as_ref().unwrap().receives(), 1);
        }
    }

    #[test]
    fn a_payload_may_be_notified_in_two_messages() {
        let [first, second] = &sample("duplicate")[..] else { panic!() };
        assert_ne!(first.id, second.id);
        assert_eq!(notices(first).unwrap(), notices(second).unwrap());
    }

    #[test]
    fn test_events_and_removals_name_no_payload() {
        for name in ["test-event", "bare-test-event", "object-removed"] {
            let [record] = &sample(name)[..] else { panic!() };
            assert!(notices(record).unwrap().is_empty(), "{name}");
        }
    }

    #[test]
    fn keys_are_decoded_as_forms_are() {
        let [record] = &sample("unknown-object")[..] else { panic!() };
        assert_eq!(notices(record).unwrap()[0].key, "incoming/2026/11/21/23/not a payload é");
    }

    #[test]
    fn a_record_without_an_event_of_s3_is_never_retried() {
        let [malformed] = &sample("malformed")[..] else { panic!() };
        let empty = Record { body: None, ..malformed.clone() };
        let others = [json!({}), json!(null)].map(|event| Record::of_invocation(&event));
        for record in others.iter().chain([malformed, &empty]) {
            let error = ChunkerError::from(notices(record).unwrap_err());
            assert!(!error.retry().is_transient(), "{error:?}");
        }
    }
}
