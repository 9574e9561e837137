use aws_lambda_events::s3::{S3Event, S3EventRecord};
use aws_lambda_events::sqs::SqsEvent;
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

/// The news that an object was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) bucket: String,
    pub(crate) key: String,
}

/// What is acknowledged or returned as a whole.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The SQS message that it came in; none where storage called this function itself.
    pub(crate) message_id: Option<String>,
    /// What it tells of; nothing where it is a test, or of something that this function does not look at.
    pub(crate) notices: Result<Vec<Notice>, UnknownEvent>,
}

/// What came is no event of S3.
#[derive(Debug, thiserror::Error)]
pub enum UnknownEvent {
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

/// The deliveries of an invocation: SQS messages, each with an event of S3, or one such event itself.
pub(crate) fn deliveries(event: Value) -> Vec<Delivery> {
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
                    .map_err(UnknownEvent::from)
                    .and_then(notices),
            })
            .collect(),
        Err(error) => vec![Delivery { message_id: None, notices: Err(error.into()) }],
    }
}

fn notices(event: Value) -> Result<Vec<Notice>, UnknownEvent> {
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

fn notice(record: S3EventRecord) -> Result<Notice, UnknownEvent> {
    let bucket = record.s3.bucket.name.ok_or(UnknownEvent::Unnamed)?;
    let key = record.s3.object.key.ok_or(UnknownEvent::Unnamed)?;
    // Encoded as a form is, in which a space is a plus sign.
    let (key, _) = form_urlencoded::parse(key.as_bytes()).next().ok_or(UnknownEvent::Unnamed)?;
    Ok(Notice { bucket, key: key.into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str) -> Vec<Delivery> {
        let path = format!("{}/../../events/chunker/{name}.json", env!("CARGO_MANIFEST_DIR"));
        deliveries(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    }

    fn payload() -> Notice {
        Notice {
            bucket: "payloads".to_owned(),
            key: "incoming/2026/11/21/23/019aa8ec-98d3-7e83-98f2-17f2d7e0e6d7".to_owned(),
        }
    }

    #[test]
    fn a_put_is_told_by_storage_itself_or_through_a_queue() {
        let [bare] = &sample("s3-put")[..] else { panic!() };
        assert_eq!(bare.message_id, None);
        assert_eq!(bare.notices.as_ref().unwrap(), &[payload()]);
        for name in ["s3-through-sqs", "multipart-upload-through-sqs"] {
            let [queued] = &sample(name)[..] else { panic!() };
            assert_eq!(queued.message_id.as_deref(), Some("059f36b4-87a3-44ab-83d2-661975830a7d"));
            assert_eq!(queued.notices.as_ref().unwrap(), &[payload()]);
        }
    }

    #[test]
    fn each_message_is_a_delivery_of_its_own() {
        let [first, second] = &sample("duplicate")[..] else { panic!() };
        assert_ne!(first.message_id, second.message_id);
        assert_eq!(first.notices.as_ref().unwrap(), second.notices.as_ref().unwrap());
    }

    #[test]
    fn tests_and_removals_tell_of_nothing() {
        for name in ["test-event", "bare-test-event", "object-removed"] {
            let [delivery] = &sample(name)[..] else { panic!() };
            assert!(delivery.notices.as_ref().unwrap().is_empty(), "{name}");
        }
    }

    #[test]
    fn keys_are_decoded_as_forms_are() {
        let [delivery] = &sample("unknown-object")[..] else { panic!() };
        assert_eq!(delivery.notices.as_ref().unwrap()[0].key, "incoming/2026/11/21/23/not a payload é");
    }

    #[test]
    fn what_is_no_event_of_storage_is_an_error_of_its_message() {
        let [delivery] = &sample("malformed")[..] else { panic!() };
        assert!(delivery.message_id.is_some() && delivery.notices.is_err());
        for event in [
            serde_json::json!({}),
            serde_json::json!(null),
            serde_json::json!({"Records": [{"eventSource": "aws:sqs"}, 1]}),
        ] {
            let [delivery] = &deliveries(event)[..] else { panic!() };
            assert!(delivery.message_id.is_none() && delivery.notices.is_err());
        }
    }
}
