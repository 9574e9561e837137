use aws_lambda_events::s3::{S3Event, S3EventRecord};
use aws_lambda_events::sqs::SqsEvent;
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

/// The news that an object was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub bucket: String,
    pub key: String,
}

/// What is acknowledged or returned as a whole.
#[derive(Debug)]
pub struct Delivery {
    /// The SQS message that it came in; none where storage called this function itself.
    pub message_id: Option<String>,
    /// What it tells of; nothing where it is a test, or of something that this function does not look at.
    pub notices: Result<Vec<Notice>, UnknownEvent>,
}

/// What came is no event of S3.
#[derive(Debug, thiserror::Error)]
#[error("not an event of S3: {0}")]
pub struct UnknownEvent(String);

/// What S3 sends when notifications are set up.
#[derive(Deserialize)]
struct TestEvent {
    #[serde(rename = "Event")]
    event: String,
}

/// The deliveries of an invocation: SQS messages, each with an event of S3, or one such event itself.
#[must_use]
pub fn deliveries(event: Value) -> Vec<Delivery> {
    let source = event.pointer("/Records/0/eventSource").and_then(Value::as_str);
    if source != Some("aws:sqs") {
        return vec![Delivery { message_id: None, notices: notices(event) }];
    }
    match serde_json::from_value::<SqsEvent>(event) {
        Ok(event) => event
            .records
            .into_iter()
            .map(|message| Delivery {
                message_id: message.message_id,
                notices: serde_json::from_str(&message.body.unwrap_or_default())
                    .map_err(unknown)
                    .and_then(notices),
            })
            .collect(),
        Err(error) => vec![Delivery { message_id: None, notices: Err(unknown(error)) }],
    }
}

fn notices(event: Value) -> Result<Vec<Notice>, UnknownEvent> {
    if let Ok(test) = TestEvent::deserialize(&event)
        && test.event == "s3:TestEvent"
    {
        return Ok(Vec::new());
    }
    let event: S3Event = serde_json::from_value(event).map_err(unknown)?;
    event.records.into_iter().filter(is_created).map(notice).collect()
}

fn is_created(record: &S3EventRecord) -> bool {
    record
        .event_name
        .as_deref()
        .is_some_and(|name| name.trim_start_matches("s3:").starts_with("ObjectCreated:"))
}

fn notice(record: S3EventRecord) -> Result<Notice, UnknownEvent> {
    let bucket = record.s3.bucket.name.ok_or_else(|| unknown("it names no bucket"))?;
    let key = record.s3.object.key.ok_or_else(|| unknown("it names no object"))?;
    // Encoded as a form is, in which a space is a plus sign.
    let (key, _) =
        form_urlencoded::parse(key.as_bytes()).next().ok_or_else(|| unknown("it names no object"))?;
    Ok(Notice { bucket, key: key.into_owned() })
}

fn unknown(error: impl ToString) -> UnknownEvent {
    UnknownEvent(error.to_string())
}
