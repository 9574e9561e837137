//! Tests of Kafka records that are sent to an SQS queue as messages.

use std::time::Duration;

use serde_json::{Value, json};
use transport::{AnnounceError, ChunkQueue};

use crate::queue::Queue;

/// Returns the entry of the request that [`ChunkQueue::park`] sends for a value.
async fn entry(value: Option<&[u8]>, pause: Duration) -> Value {
    let queue = Queue::answering(vec![json!({"Successful": [], "Failed": []})]).await;
    let chunks = ChunkQueue::new(queue.client.clone(), queue.url.clone());
    let attributes = [("kafka_record", "chunks.ready-0@16"), ("reason", "line\nbreak"), ("empty", "\n")];
    chunks.park(value, &attributes, pause).await.unwrap();
    let [call] = &queue.calls().await[..] else { panic!() };
    call.body["Entries"][0].clone()
}

/// Returns the body of the first message in a sample event of SQS: the event of a chunk.
fn sample() -> Vec<u8> {
    let path = format!("{}/../../../events/ingest/upsert/chunk-ready-sqs.json", env!("CARGO_MANIFEST_DIR"));
    let event: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    event["Records"][0]["body"].as_str().unwrap().as_bytes().to_vec()
}

#[tokio::test]
async fn a_chunk_s_event_stays_as_it_is_in_its_tenant_s_group() {
    let sample = sample();
    let entry = entry(Some(&sample), Duration::from_millis(9100)).await;
    assert_eq!(entry["MessageBody"], std::str::from_utf8(&sample).unwrap());
    assert_eq!(entry["DelaySeconds"], 10);
    assert_eq!(entry["MessageGroupId"], "11111111-1111-4111-8111-111111111111");
    assert_eq!(
        entry["MessageAttributes"],
        json!({
            "kafka_record": {"DataType": "String", "StringValue": "chunks.ready-0@16"},
            "reason": {"DataType": "String", "StringValue": "linebreak"},
        })
    );
}

#[tokio::test]
async fn any_other_value_is_made_sendable() {
    for (value, body) in [
        (None, "(the record has no value, or one that cannot be read)"),
        (Some(&b""[..]), "(the record has an empty value)"),
        (Some(b"poison\0"), "poison\u{fffd}"),
    ] {
        let entry = entry(value, Duration::ZERO).await;
        assert_eq!(entry["MessageBody"], body);
        assert!(entry["DelaySeconds"].is_null() && entry["MessageGroupId"].is_null(), "{entry}");
    }
}

#[tokio::test]
async fn a_queue_that_does_not_take_the_record_is_an_error() {
    let queue = Queue::answering(Vec::new()).await;
    let chunks = ChunkQueue::new(queue.client.clone(), queue.url.clone());
    let parked = chunks.park(Some(b"poison"), &[], Duration::ZERO).await;
    assert!(matches!(parked, Err(AnnounceError::Queue(_))), "{parked:?}");
}
