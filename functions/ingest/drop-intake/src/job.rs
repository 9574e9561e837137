//! Reading of S3's notifications of dropped objects from messages of SQS.

use std::time::Duration;

use ingestion::payload::PayloadNotice;
use transport::read_payload_notices;
use worker::{Job, Record, Visibility};

use crate::{DropIntake, IntakeError};

impl Job for DropIntake {
    const SUBJECT: &'static str = "drop";
    const RESERVE: Duration = Duration::from_secs(2);

    type Work = PayloadNotice;
    type Error = IntakeError;

    fn read(&self, record: &Record) -> Result<Vec<PayloadNotice>, IntakeError> {
        notices(record)
    }

    async fn run(&self, notice: PayloadNotice, _: &Record) -> Result<(), IntakeError> {
        tracing::Span::current().record("object", &notice.key);
        self.process(&notice).await
    }

    fn visibility(&self, _: &Record) -> Option<&Visibility> {
        Some(&self.visibility)
    }
}

fn notices(record: &Record) -> Result<Vec<PayloadNotice>, IntakeError> {
    let event = attempt::malformed::from_slice(record.body.as_deref().unwrap_or_default());
    Ok(read_payload_notices(event.map_err(transport::UnknownNotice::from)?)?)
}

#[cfg(test)]
mod tests {
    use attempt::Retryable as _;
    use serde_json::Value;
    use worker::lanes;

    use super::*;

    fn sample(name: &str) -> Vec<Result<Vec<PayloadNotice>, IntakeError>> {
        let path = format!("{}/../../../events/ingest/drop-intake/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let event: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        lanes(event).unwrap().into_iter().flatten().map(|record| notices(&record)).collect()
    }

    fn notice(name: &str, version_id: Option<&str>) -> Vec<PayloadNotice> {
        let key = format!("drop/11111111-1111-4111-8111-111111111111/full/{name}");
        let version_id = version_id.map(str::to_owned);
        vec![PayloadNotice { bucket: "payloads".to_owned(), key, version_id }]
    }

    #[test]
    fn a_notification_names_an_object_and_its_version() {
        for (name, key, version_id) in [
            ("put", "loja 12.ndjson.gz", None),
            ("multipart-upload", "loja-12.json", None),
            ("version", "loja-12.json", Some("096fKKXTRTtl3on89fVO.nfljtsv6qko")),
        ] {
            let [read] = &sample(name)[..] else { panic!() };
            assert_eq!(read.as_ref().unwrap(), &notice(key, version_id), "{name}");
        }
        let [first, second] = &sample("duplicate")[..] else { panic!() };
        assert_eq!(first.as_ref().unwrap(), second.as_ref().unwrap());
    }

    #[test]
    fn a_test_event_names_nothing_and_another_message_is_never_retried() {
        let [test] = &sample("test-event")[..] else { panic!() };
        assert!(test.as_ref().unwrap().is_empty());
        let [malformed] = &sample("malformed")[..] else { panic!() };
        assert!(!malformed.as_ref().unwrap_err().retry().is_transient());
    }
}
