use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use serde_json::Value;
use transport::{PayloadNotice, Receipt, UnknownNotice, read_payload_notices};

/// What is acknowledged or returned as a whole.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The SQS message that it came in; none where storage called this function itself.
    pub(crate) message: Option<Message>,
    /// What it tells of; nothing where it is a test, or of something that this function does not look at.
    pub(crate) notices: Result<Vec<PayloadNotice>, UnknownNotice>,
}

/// A message of SQS.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: String,
    /// By which it can be put off.
    pub(crate) receipt: Option<Receipt>,
}

/// The deliveries of an invocation: SQS messages, each with an event of S3, or one such event itself.
pub(crate) fn deliveries(event: Value) -> Vec<Delivery> {
    let source = event.pointer("/Records/0/eventSource").and_then(Value::as_str);
    if source != Some("aws:sqs") {
        return vec![Delivery { message: None, notices: read_payload_notices(event) }];
    }
    match serde_json::from_value::<SqsEvent>(event) {
        Ok(event) => event.records.into_iter().map(of_message).collect(),
        Err(error) => vec![Delivery { message: None, notices: Err(error.into()) }],
    }
}

fn of_message(message: SqsMessage) -> Delivery {
    let receipt = Receipt::of(&message);
    let body = message.body.as_deref().unwrap_or_default();
    Delivery {
        notices: serde_json::from_str(body).map_err(UnknownNotice::from).and_then(read_payload_notices),
        message: message.message_id.map(|id| Message { id, receipt }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str) -> Vec<Delivery> {
        let path = format!("{}/../../events/chunker/{name}.json", env!("CARGO_MANIFEST_DIR"));
        deliveries(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    }

    fn payload() -> PayloadNotice {
        PayloadNotice {
            bucket: "payloads".to_owned(),
            key: "incoming/2026/11/21/23/019aa8ec-98d3-7e83-98f2-17f2d7e0e6d7".to_owned(),
        }
    }

    #[test]
    fn a_put_is_told_by_storage_itself_or_through_a_queue() {
        let [bare] = &sample("s3-put")[..] else { panic!() };
        assert!(bare.message.is_none());
        assert_eq!(bare.notices.as_ref().unwrap(), &[payload()]);
        for name in ["s3-through-sqs", "multipart-upload-through-sqs"] {
            let [queued] = &sample(name)[..] else { panic!() };
            let message = queued.message.as_ref().unwrap();
            assert_eq!(message.id, "059f36b4-87a3-44ab-83d2-661975830a7d");
            assert_eq!(message.receipt.as_ref().unwrap().receives(), 1);
            assert_eq!(queued.notices.as_ref().unwrap(), &[payload()]);
        }
    }

    #[test]
    fn each_message_is_a_delivery_of_its_own() {
        let [first, second] = &sample("duplicate")[..] else { panic!() };
        assert_ne!(first.message.as_ref().unwrap().id, second.message.as_ref().unwrap().id);
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
        assert!(delivery.message.is_some() && delivery.notices.is_err());
        for event in [
            serde_json::json!({}),
            serde_json::json!(null),
            serde_json::json!({"Records": [{"eventSource": "aws:sqs"}, 1]}),
        ] {
            let [delivery] = &deliveries(event)[..] else { panic!() };
            assert!(delivery.message.is_none() && delivery.notices.is_err());
        }
    }
}
