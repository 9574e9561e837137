//! What an invocation brings: records of SQS or of Kafka, and the answer that says which of them are to come again.

use std::collections::BTreeMap;

use aws_lambda_events::kafka::{KafkaEvent, KafkaRecord};
use aws_lambda_events::sqs::SqsEvent;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;
use transport::Receipt;

/// Records that are taken one after the other. Where one fails, those after it are not taken.
pub(crate) type Lane = Vec<Record>;

/// One event, as it was delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: RecordId,
    /// Nothing where there is none, or not in its encoding.
    pub(crate) body: Option<Vec<u8>>,
    /// By which a message of SQS can be put off.
    pub(crate) receipt: Option<Receipt>,
}

/// How a record is named in the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RecordId {
    /// A message of SQS.
    Message(String),
    /// A record of Kafka. Of a partition, Lambda delivers again from the first one that is named.
    Offset {
        #[serde(rename = "topic-partition")]
        topic_partition: String,
        offset: i64,
    },
}

/// Which records failed.
#[derive(Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    pub batch_item_failures: Vec<Failure>,
}

/// A record that failed.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub item_identifier: RecordId,
}

/// An event of a source that this function is not subscribed to, or in another form.
#[derive(Debug, thiserror::Error)]
pub enum UnknownEvent {
    #[error("neither SQS nor Kafka sent the event")]
    Source,
    #[error("the event has another form")]
    Form(#[from] serde_json::Error),
    #[error("a message has no id")]
    NoId,
}

/// Sorts an event's records. Each message of SQS is for itself, and so is each partition of Kafka, whose records have an order.
pub(crate) fn lanes(event: Value) -> Result<Vec<Lane>, UnknownEvent> {
    if let Some("aws:kafka" | "SelfManagedKafka") = event.get("eventSource").and_then(Value::as_str) {
        let event: KafkaEvent = serde_json::from_value(event)?;
        let partitions: BTreeMap<_, _> = event.records.into_iter().collect();
        return Ok(partitions
            .into_iter()
            .map(|(partition, records)| of_partition(&partition, records))
            .collect());
    }
    if event.pointer("/Records/0/eventSource").and_then(Value::as_str) != Some("aws:sqs") {
        return Err(UnknownEvent::Source);
    }
    let event: SqsEvent = serde_json::from_value(event)?;
    let of_message = |message: aws_lambda_events::sqs::SqsMessage| {
        let receipt = Receipt::of(&message);
        let id = RecordId::Message(message.message_id.ok_or(UnknownEvent::NoId)?);
        Ok(vec![Record { id, body: message.body.map(String::into_bytes), receipt }])
    };
    event.records.into_iter().map(of_message).collect()
}

fn of_partition(partition: &str, mut records: Vec<KafkaRecord>) -> Lane {
    records.sort_by_key(|record| record.offset);
    let of_record = |record: KafkaRecord| Record {
        id: RecordId::Offset { topic_partition: partition.to_owned(), offset: record.offset },
        body: record.value.and_then(|value| STANDARD.decode(value).ok()),
        receipt: None,
    };
    records.into_iter().map(of_record).collect()
}

/// Takes each lane's records in their order, up to its first failure, and says which failed.
pub(crate) async fn take<E>(
    lanes: Vec<Lane>,
    mut take_one: impl AsyncFnMut(Record) -> Result<(), E>,
) -> Response {
    let mut response = Response::default();
    for lane in lanes {
        for record in lane {
            let id = record.id.clone();
            if take_one(record).await.is_err() {
                response.batch_item_failures.push(Failure { item_identifier: id });
                break;
            }
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kafka() -> Value {
        let record = |partition: i64, offset: i64, value: &str| {
            json!({"topic": "chunks.ready", "partition": partition, "offset": offset, "timestamp": 1_800_000_000_000_i64,
                   "timestampType": "CREATE_TIME", "key": STANDARD.encode("05927228000145"), "value": STANDARD.encode(value),
                   "headers": [{"content-type": [97, 112, 112]}]})
        };
        json!({"eventSource": "aws:kafka", "bootstrapServers": "b-1:9092", "records": {
            "chunks.ready-1": [record(1, 7, "d")],
            "chunks.ready-0": [record(0, 15, "a"), record(0, 16, "b"), record(0, 17, "c")],
        }})
    }

    #[tokio::test]
    async fn a_partition_stops_at_its_first_failure_and_the_others_go_on() {
        let mut seen = Vec::new();
        let response = take(lanes(kafka()).unwrap(), async |record: Record| {
            let body = String::from_utf8(record.body.unwrap()).unwrap();
            seen.push(body.clone());
            if body == "b" { Err(()) } else { Ok(()) }
        })
        .await;
        assert_eq!(seen, ["a", "b", "d"]);
        assert_eq!(
            serde_json::to_value(response).unwrap(),
            json!({"batchItemFailures": [{"itemIdentifier": {"topic-partition": "chunks.ready-0", "offset": 16}}]})
        );
    }

    #[tokio::test]
    async fn each_message_is_for_itself() {
        let message = |id: &str, body: &str| json!({"eventSource": "aws:sqs", "messageId": id, "body": body});
        let event = json!({"Records": [message("1", "a"), message("2", "b"), message("3", "c")]});
        let mut seen = 0;
        let response = take(lanes(event).unwrap(), async |record: Record| {
            seen += 1;
            if record.body.unwrap() == b"c" { Ok(()) } else { Err(()) }
        })
        .await;
        assert_eq!(seen, 3);
        assert_eq!(
            serde_json::to_value(response).unwrap(),
            json!({"batchItemFailures": [{"itemIdentifier": "1"}, {"itemIdentifier": "2"}]})
        );
    }

    #[test]
    fn a_record_without_a_readable_value_is_still_a_record() {
        let mut event = kafka();
        event["records"] = json!({"chunks.ready-0": [
            {"topic": "chunks.ready", "partition": 0, "offset": 1, "timestamp": 1, "headers": [], "value": null},
            {"topic": "chunks.ready", "partition": 0, "offset": 2, "timestamp": 1, "headers": [], "value": "~"},
        ]});
        let lanes = lanes(event).unwrap();
        assert_eq!(lanes.len(), 1);
        assert!(lanes[0].len() == 2 && lanes[0].iter().all(|record| record.body.is_none()));
    }

    #[tokio::test]
    async fn sample_events_are_read_as_their_names_say() {
        for (name, failures) in [
            ("chunk-ready-sqs", json!([])),
            ("chunk-ready-kafka", json!([])),
            ("duplicate", json!([])),
            ("duplicate-kafka", json!([])),
            ("malformed", json!([{"itemIdentifier": "059f36b4-87a3-44ab-83d2-661975830a7d"}])),
            ("key-of-another-chunk", json!([{"itemIdentifier": "059f36b4-87a3-44ab-83d2-661975830a7d"}])),
            (
                "malformed-kafka",
                json!([{"itemIdentifier": {"topic-partition": "chunks.ready-0", "offset": 16}}]),
            ),
        ] {
            let path = format!("{}/../../events/upsert/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let event: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            let read = async |record: Record| {
                let event = transport::read_chunk_event(&record.body.unwrap()).map_err(drop)?;
                assert_eq!(event.data().items % 200, 0);
                Ok::<_, ()>(())
            };
            let response = take(lanes(event).unwrap(), read).await;
            assert_eq!(serde_json::to_value(response).unwrap()["batchItemFailures"], failures, "{name}");
        }
    }

    #[test]
    fn another_event_is_refused_as_a_whole() {
        for event in
            [json!({}), json!([]), json!({"Records": []}), json!({"Records": [{"eventSource": "aws:s3"}]})]
        {
            assert!(matches!(lanes(event.clone()), Err(UnknownEvent::Source)), "{event}");
        }
        assert!(matches!(
            lanes(json!({"eventSource": "aws:kafka", "records": 1})),
            Err(UnknownEvent::Form(_))
        ));
    }
}
