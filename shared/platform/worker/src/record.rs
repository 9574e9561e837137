//! The records of an invocation: messages of SQS or records of Kafka.

use std::collections::BTreeMap;
use std::fmt;

use attempt::Malformed;
use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::Receipt;

/// Name of the attribute of a message that names the parked record of Kafka, as
/// `topic-partition@offset`.
pub const KAFKA_RECORD: &str = "kafka_record";

/// An event of Kafka with only the members that are read. Other members may have any form, such as
/// the headers that a foreign producer wrote: an event that cannot be read would block its
/// partitions.
#[derive(Deserialize)]
struct KafkaEvent {
    records: BTreeMap<String, Vec<KafkaRecord>>,
}

#[derive(Deserialize)]
struct KafkaRecord {
    offset: i64,
    #[serde(default)]
    value: Value,
}

/// Record as the event source delivered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the record. `None` if the event is the record, because its sender invoked the
    /// function itself.
    pub id: Option<RecordId>,
    /// Body of the record. `None` if the record has no body, or one that cannot be decoded.
    pub body: Option<Vec<u8>>,
    /// Receipt by which a message's visibility timeout is changed. Records of Kafka have none.
    pub receipt: Option<Receipt>,
    /// ARN of the queue that a message came from.
    pub source: Option<String>,
    /// Parked Kafka record that this message stands for, as `topic-partition@offset`.
    pub parked_from: Option<String>,
}

/// Identifier of a record within its event source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordId {
    /// Id of an SQS message.
    Message(String),
    /// Position of a Kafka record: topic, partition and offset.
    #[expect(missing_docs, reason = "as Lambda names them in the event")]
    Offset { topic_partition: String, offset: i64 },
}

impl fmt::Display for RecordId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(id) => formatter.write_str(id),
            Self::Offset { topic_partition, offset } => write!(formatter, "{topic_partition}@{offset}"),
        }
    }
}

/// An event that neither SQS nor Kafka sent.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum UnknownEvent {
    #[error("the event is neither from SQS nor from Kafka")]
    Source,
    #[error("the event is malformed")]
    Form(#[from] Malformed),
    #[error("a message has no id")]
    NoId,
}

impl Record {
    /// Builds the record of an event that is itself the record, because its sender invoked the
    /// function.
    #[must_use]
    pub fn of_invocation(event: &Value) -> Self {
        Self {
            id: None,
            body: Some(event.to_string().into_bytes()),
            receipt: None,
            source: None,
            parked_from: None,
        }
    }

    fn of_message(message: SqsMessage) -> Result<Self, UnknownEvent> {
        let receipt = Receipt::of(&message);
        let parked_from = message.message_attributes.get(KAFKA_RECORD);
        let parked_from = parked_from.and_then(|attribute| attribute.string_value.clone());
        Ok(Self {
            id: Some(RecordId::Message(message.message_id.ok_or(UnknownEvent::NoId)?)),
            body: message.body.map(String::into_bytes),
            receipt,
            source: message.event_source_arn,
            parked_from,
        })
    }

    fn of_partition(partition: &str, record: &KafkaRecord) -> Self {
        let topic_partition = partition.to_owned();
        Self {
            id: Some(RecordId::Offset { topic_partition, offset: record.offset }),
            body: record.value.as_str().and_then(|value| STANDARD.decode(value).ok()),
            receipt: None,
            source: None,
            parked_from: None,
        }
    }
}

/// True if an event comes from SQS or Kafka.
#[must_use]
pub fn is_from_queue(event: &Value) -> bool {
    is_from_kafka(event) || is_from_sqs(event)
}

pub(crate) fn is_from_kafka(event: &Value) -> bool {
    let source = event.get("eventSource").and_then(Value::as_str);
    matches!(source, Some("aws:kafka" | "SelfManagedKafka"))
}

fn is_from_sqs(event: &Value) -> bool {
    event.pointer("/Records/0/eventSource").and_then(Value::as_str) == Some("aws:sqs")
}

/// Sorts an event's records into lanes. The records of a lane are handled in their order. Each
/// partition of Kafka is a lane; so is each message of SQS.
///
/// # Errors
/// If the event as a whole cannot be read.
pub fn lanes(event: Value) -> Result<Vec<Vec<Record>>, UnknownEvent> {
    if is_from_kafka(&event) {
        let event: KafkaEvent = attempt::malformed::from_value(event)?;
        return Ok(event.records.into_iter().map(|(name, records)| lane(&name, records)).collect());
    }
    if !is_from_sqs(&event) {
        return Err(UnknownEvent::Source);
    }
    let event: SqsEvent = attempt::malformed::from_value(event)?;
    event.records.into_iter().map(|message| Ok(vec![Record::of_message(message)?])).collect()
}

fn lane(partition: &str, mut records: Vec<KafkaRecord>) -> Vec<Record> {
    records.sort_by_key(|record| record.offset);
    records.iter().map(|record| Record::of_partition(partition, record)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_without_a_readable_value_is_still_a_record() {
        let event = json!({"eventSource": "aws:kafka", "bootstrapServers": "b-1:9092", "records": {"chunks.ready-0": [
            {"topic": "chunks.ready", "partition": 0, "offset": 2, "timestamp": 1, "headers": [{"h": [255, "foreign"]}], "value": "~"},
            {"topic": "chunks.ready", "partition": 0, "offset": 1, "timestamp": null, "value": null},
            {"offset": 3, "value": {"not": "text"}}, {"offset": 0},
        ]}});
        let lanes = lanes(event).unwrap();
        let ids: Vec<_> = lanes[0].iter().map(|record| record.id.as_ref().unwrap().to_string()).collect();
        assert_eq!(ids, [0, 1, 2, 3].map(|offset| format!("chunks.ready-0@{offset}")));
        assert!(lanes.len() == 1 && lanes[0].iter().all(|record| record.body.is_none()));
    }

    #[test]
    fn another_event_is_refused_as_a_whole() {
        for event in
            [json!({}), json!([]), json!({"Records": []}), json!({"Records": [{"eventSource": "aws:s3"}]})]
        {
            assert!(!is_from_queue(&event), "{event}");
            assert!(matches!(lanes(event.clone()), Err(UnknownEvent::Source)), "{event}");
        }
        for event in [
            json!({"eventSource": "aws:kafka", "records": 1}),
            json!({"Records": [{"eventSource": "aws:sqs", "messageId": "1"}, 1]}),
        ] {
            assert!(is_from_queue(&event), "{event}");
            assert!(matches!(lanes(event), Err(UnknownEvent::Form(_))));
        }
        let unnamed = json!({"Records": [{"eventSource": "aws:sqs"}]});
        assert!(matches!(lanes(unnamed), Err(UnknownEvent::NoId)));
    }

    /// JSON in which the members that are looked for have values of any kind.
    fn events() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            prop_oneof!["aws:sqs", "aws:kafka", "SelfManagedKafka", "\\PC{0,8}"].prop_map(Value::from),
        ];
        let names =
            "Records|records|eventSource|messageId|body|attributes|ApproximateReceiveCount|offset|value|t-0";
        leaf.prop_recursive(6, 40, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((names, inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_event_panics(event in events()) {
            let from_queue = is_from_queue(&event);
            let read = lanes(event);
            prop_assert!(from_queue || read.is_err());
        }

        #[test]
        fn no_message_panics(members in events()) {
            let mut message = json!({"eventSource": "aws:sqs", "messageId": "1", "body": "b"});
            if let Value::Object(members) = members {
                message.as_object_mut().unwrap().extend(members);
            }
            if let Ok(lanes) = lanes(json!({"Records": [message]})) {
                prop_assert_eq!(lanes.len(), 1);
            }
        }
    }
}
