//! The news that a payload lies in its bucket: as S3 tells it, and told again by us in the same form.

use aws_lambda_events::s3::{S3Event, S3EventRecord};
use aws_sdk_sqs::Client;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::AnnounceError;

/// The news that an object was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadNotice {
    pub bucket: String,
    pub key: String,
}

/// What came is no event of S3.
#[derive(Debug, thiserror::Error)]
pub enum UnknownNotice {
    #[error("not an event of S3")]
    Form(#[from] serde_json::Error),
    #[error("the event of S3 names no object")]
    Unnamed,
}

/// What S3 sends when notifications are set up.
#[derive(Deserialize)]
struct TestEvent {
    #[serde(rename = "Event")]
    event: String,
}

/// The objects that an event of S3 says were put: none where it is a test, or tells of something else.
///
/// # Errors
/// Where it is no event of S3. No further delivery changes that.
pub fn read_payload_notices(event: Value) -> Result<Vec<PayloadNotice>, UnknownNotice> {
    if let Ok(test) = TestEvent::deserialize(&event)
        && test.event == "s3:TestEvent"
    {
        return Ok(Vec::new());
    }
    let event: S3Event = serde_json::from_value(event)?;
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
    // Encoded as a form is, in which a space is a plus sign.
    let (key, _) = form_urlencoded::parse(key.as_bytes()).next().ok_or(UnknownNotice::Unnamed)?;
    Ok(PayloadNotice { bucket, key: key.into_owned() })
}

/// The queue of payloads that were received.
#[derive(Debug, Clone)]
pub struct PayloadsReceived {
    client: Client,
    queue_url: String,
}

impl PayloadsReceived {
    #[must_use]
    pub const fn new(client: Client, queue_url: String) -> Self {
        Self { client, queue_url }
    }

    /// Tells of a payload again, which sets its batch going from wherever it stopped. Told too often, it does no harm.
    ///
    /// # Errors
    /// Where the queue does not take the message.
    pub async fn tell(&self, bucket: &str, key: &str) -> Result<(), AnnounceError> {
        let body = event(bucket, key, Timestamp::now()).to_string();
        let sending = self.client.send_message().queue_url(&self.queue_url).message_body(body).send();
        sending.await.map(drop).map_err(|error| AnnounceError::Queue(Box::new(error.into())))
    }
}

fn event(bucket: &str, key: &str, now: Timestamp) -> Value {
    let encode = |part: &str| form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>();
    // S3 leaves the slashes.
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
        fn what_is_told_is_read_again(bucket in "[a-z0-9-]{3,20}", key in "\\PC{1,40}") {
            let told = event(&bucket, &key, Timestamp::UNIX_EPOCH);
            prop_assert_eq!(read_payload_notices(told).unwrap(), [PayloadNotice { bucket, key }]);
        }
    }

    #[test]
    fn tests_and_removals_tell_of_nothing() {
        let mut removed = event("payloads", "incoming/1", Timestamp::UNIX_EPOCH);
        removed["Records"][0]["eventName"] = "ObjectRemoved:Delete".into();
        for event in [json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "payloads"}), removed]
        {
            assert_eq!(read_payload_notices(event).unwrap(), []);
        }
    }

    #[test]
    fn what_names_no_object_or_is_no_event_is_refused() {
        let mut unnamed = event("payloads", "incoming/1", Timestamp::UNIX_EPOCH);
        unnamed["Records"][0]["s3"]["object"] = json!({});
        assert!(matches!(read_payload_notices(unnamed), Err(UnknownNotice::Unnamed)));
        for event in [json!(null), json!({}), json!({"Event": "another"}), json!({"Records": [1]})] {
            assert!(matches!(read_payload_notices(event), Err(UnknownNotice::Form(_))));
        }
    }
}
