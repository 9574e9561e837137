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

/// Attribute of an SQS message that stands for a parked Kafka record. Its value is the record's
/// position as `topic-partition@offset`.
pub const KAFKA_RECORD: &str = "kafka_record";

/// Kafka event of Lambda, with only the members that this crate needs. Other members, such as
/// foreign headers, are not parsed: an event that cannot be parsed would block its partitions.
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

/// Message or record that an event source delivered: an SQS message, a Kafka record, or the event
/// of a direct invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Id of the message or record; `None` for a direct invocation.
    pub id: Option<RecordId>,
    /// Content of the message or record; `None` if it has none, or if a Kafka record's value is not
    /// valid Base64.
    pub body: Option<Vec<u8>>,
    /// Receipt of an SQS message, by which its visibility timeout is changed; `None` for others.
    pub receipt: Option<Receipt>,
    /// ARN of the SQS queue that delivered the message; `None` for others.
    pub source: Option<String>,
    /// Position of the parked Kafka record for which this SQS message stands, as
    /// `topic-partition@offset`; `None` for others.
    pub parked_from: Option<String>,
}

/// Id of a message or record within its event source.
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

/// Error for an event that is not a valid event of SQS or Kafka.
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
    /// Builds the record of a direct invocation, whose body is the event.
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

/// True if the event is from SQS or Kafka.
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

/// Divides an event's records into lanes, whose records must be handled in order: each Kafka
/// partition is a lane, and so is each single SQS message.
///
/// # Errors
/// If the event is not a valid event of SQS or Kafka.
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

    /// Generates JSON in which the members of SQS and Kafka events have values of any type.
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
