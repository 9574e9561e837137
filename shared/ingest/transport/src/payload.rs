//! Notification that a payload was stored or an object dropped: as S3 sends it, and in the same
//! form when this system sends it again.

use attempt::{Malformed, Retry, Retryable};
use aws_lambda_events::s3::{S3Event, S3EventRecord};
use aws_sdk_sqs::Client;
use ingestion::payload::PayloadNotice;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;
use uuid::Uuid;

use crate::{AnnounceError, text};

/// Error for a message that is not a notification from S3.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum UnknownNotice {
    #[error("not an S3 event")]
    Form(#[from] Malformed),
    #[error("the S3 event names no object")]
    Unnamed,
}

impl Retryable for UnknownNotice {
    fn retry(&self) -> Retry {
        match self {
            Self::Form(_) | Self::Unnamed => Retry::Never,
        }
    }
}

/// Test message that S3 sends when notifications of a bucket are set up.
#[derive(Deserialize)]
struct TestEvent {
    #[serde(rename = "Event")]
    event: String,
}

/// Returns the objects that an S3 event reports as created; none for a test message or an event of
/// another kind.
///
/// # Errors
/// If the JSON is not an S3 event.
pub fn read_payload_notices(event: Value) -> Result<Vec<PayloadNotice>, UnknownNotice> {
    if let Ok(test) = TestEvent::deserialize(&event)
        && test.event == "s3:TestEvent"
    {
        return Ok(Vec::new());
    }
    let event: S3Event = attempt::malformed::from_value(event)?;
    event.records.into_iter().filter(is_created).map(notice).collect()
}

fn is_created(record: &S3EventRecord) -> bool {
    record
        .event_name
        .as_deref()
        .is_some_and(|name| name.trim_start_matches("s3:").starts_with("ObjectCreated:"))
}

fn notice(record: S3EventRecord) -> Result<PayloadNotice, UnknownNotice> {
    let bucket = record.s3.bucket.name.ok_or(UnknownNotice::Unnamed)?;
    let key = record.s3.object.key.ok_or(UnknownNotice::Unnamed)?;
    // S3 encodes keys like a form: a space is a plus sign.
    let (key, _) = form_urlencoded::parse(key.as_bytes()).next().ok_or(UnknownNotice::Unnamed)?;
    let version_id = record.s3.object.version_id.filter(|id| id != "null");
    Ok(PayloadNotice { bucket, key: key.into_owned(), version_id })
}

/// Client of an SQS queue with S3's notifications: that of the chunker, for stored payloads, or
/// that of `drop-intake`, for dropped objects.
#[derive(Clone, Debug)]
pub struct NotificationQueue {
    client: Client,
    queue_url: String,
}

impl NotificationQueue {
    /// Creates a client of the queue with this URL. S3 does not send to this queue itself:
    /// `dispatch` passes S3's notifications on.
    #[must_use]
    pub const fn new(client: Client, queue_url: String) -> Self {
        Self { client, queue_url }
    }

    /// Sends the notification that an object was stored, in the message group of its tenant if the
    /// tenant is known. A notification too many does no harm.
    pub async fn notify(&self, bucket: &str, key: &str, tenant: Option<Uuid>) -> Result<(), AnnounceError> {
        self.send(event(bucket, key, Timestamp::now()).to_string(), tenant).await
    }

    /// Forwards a notification from S3 unchanged, in the message group of this tenant. A repeated
    /// call sends a second copy.
    pub async fn pass_on(&self, body: &[u8], tenant: Option<Uuid>) -> Result<(), AnnounceError> {
        self.send(text::body(Some(body)).into_owned(), tenant).await
    }

    async fn send(&self, body: String, tenant: Option<Uuid>) -> Result<(), AnnounceError> {
        let request = self.client.send_message().queue_url(&self.queue_url).message_body(body);
        let request = request.set_message_group_id(tenant.map(|tenant| tenant.to_string()));
        request.send().await.map(drop).map_err(|error| AnnounceError::Queue(Box::new(error.into())))
    }
}

fn event(bucket: &str, key: &str, now: Timestamp) -> Value {
    let encode = |part: &str| form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>();
    // S3 does not encode slashes.
    let key = key.split('/').map(encode).collect::<Vec<_>>().join("/");
    json!({"Records": [{
        "eventVersion": "2.2",
        "eventSource": "aws:s3",
        "eventTime": now,
        "eventName": "ObjectCreated:Put",
        "userIdentity": {},
        "requestParameters": {},
        "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": bucket}, "object": {"key": key}},
    }]})
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_written_as_s3_writes_them() {
        let event = event("payloads", "incoming/2026/11/not a payload é+", Timestamp::UNIX_EPOCH);
        assert_eq!(event["Records"][0]["s3"]["object"]["key"], "incoming/2026/11/not+a+payload+%C3%A9%2B");
    }

    proptest! {
        #[test]
        fn a_notification_that_is_sent_can_be_read(bucket in "[a-z0-9-]{3,20}", key in "\\PC{1,40}") {
            let sent = event(&bucket, &key, Timestamp::UNIX_EPOCH);
            prop_assert_eq!(read_payload_notices(sent).unwrap(), [PayloadNotice { bucket, key, version_id: None }]);
        }
    }

    #[test]
    fn test_events_and_removals_name_no_payload() {
        let mut removed = event("payloads", "incoming/1", Timestamp::UNIX_EPOCH);
        removed["Records"][0]["eventName"] = "ObjectRemoved:Delete".into();
        for event in [json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "payloads"}), removed]
        {
            assert_eq!(read_payload_notices(event).unwrap(), []);
        }
    }

    #[test]
    fn an_event_of_another_form_or_without_an_object_is_refused() {
        let mut unnamed = event("payloads", "incoming/1", Timestamp::UNIX_EPOCH);
        unnamed["Records"][0]["s3"]["object"] = json!({});
        assert!(matches!(read_payload_notices(unnamed), Err(UnknownNotice::Unnamed)));
        for event in [json!(null), json!({}), json!({"Event": "another"}), json!({"Records": [1]})] {
            assert!(matches!(read_payload_notices(event), Err(UnknownNotice::Form(_))));
        }
    }
}
