//! Tests that messages which SQS rejects are sent again, and that the event of a chunk that waited
//! for locks is sent again unchanged.

use std::collections::BTreeMap;
use std::time::Duration;

use ingestion::chunk::{ChunkReady, Generation};
use serde_json::{Value, json};
use test_support::sqs::Call;
use transport::{AnnounceError, ChunkQueue, Origin, read_chunk_event};
use uuid::Uuid;

use crate::queue::Queue;

/// Starts a fake SQS queue that answers each request in turn. Each list has the ids of the entries
/// that the queue rejects in one request.
async fn server(refused: &[&[&str]]) -> (ChunkQueue, Queue) {
    let failed = |id: &&str| json!({"Id": id, "SenderFault": false, "Code": "InternalError"});
    let answer = |refused: &&[&str]| {
        let failed: Vec<_> = refused.iter().map(failed).collect();
        json!({"Successful": [], "Failed": failed})
    };
    let queue = Queue::answering(refused.iter().map(answer).collect()).await;
    (ChunkQueue::new(queue.client.clone(), queue.url.clone()), queue)
}

async fn announce(queue: &ChunkQueue, count: u32) -> Result<(), AnnounceError> {
    let origin = Origin {
        tenant_id: Uuid::from_u128(1),
        idempotency_key: "5c1e0a56-4a58-4aaf-9359-83ec8f663f10".to_owned(),
        trace_id: "trace-1".to_owned(),
    };
    let chunks = (0..count).map(|index| ChunkReady {
        batch_id: Uuid::from_u128(7),
        generation: Generation::FIRST,
        chunk_index: index,
        chunk_uri: format!("s3://payloads/{index}"),
        cnpj: "05927228000145".parse().unwrap(),
        items: 1000,
    });
    queue.announce(&origin, chunks).await
}

/// Returns the index of each chunk in a request to SQS, by the id of the chunk's entry.
fn chunks(call: &Call) -> BTreeMap<&str, u64> {
    let entries = call.body["Entries"].as_array().unwrap();
    let group = Uuid::from_u128(1).to_string();
    assert!(entries.iter().all(|entry| entry["MessageGroupId"] == group.as_str()));
    entries
        .iter()
        .map(|entry| {
            let event: Value = serde_json::from_str(entry["MessageBody"].as_str().unwrap()).unwrap();
            (entry["Id"].as_str().unwrap(), event["data"]["chunk_index"].as_u64().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn ten_go_in_a_call_and_what_was_not_taken_goes_again() {
    let (chunks_ready, queue) = server(&[&["2", "7"], &["7"], &[], &[]]).await;
    announce(&chunks_ready, 13).await.unwrap();
    let calls = queue.calls().await;
    assert_eq!(chunks(&calls[0]).len(), 10);
    assert_eq!(chunks(&calls[1]), BTreeMap::from([("2", 2), ("7", 7)]));
    assert_eq!(chunks(&calls[2]), BTreeMap::from([("7", 7)]));
    assert_eq!(chunks(&calls[3]).into_values().collect::<Vec<_>>(), [10, 11, 12]);
}

#[tokio::test]
async fn a_queue_that_keeps_refusing_is_reported() {
    let (chunks_ready, queue) = server(&[&["0"], &["0"], &["0"], &["0"]]).await;
    let error = announce(&chunks_ready, 2).await.unwrap_err();
    assert!(matches!(error, AnnounceError::Refused { count: 1, code } if code == "InternalError"));
    assert_eq!(queue.calls().await.len(), 4);
}

#[tokio::test]
async fn nothing_to_announce_is_no_call() {
    let (chunks_ready, queue) = server(&[]).await;
    announce(&chunks_ready, 0).await.unwrap();
    assert!(queue.calls().await.is_empty());
}

/// Checks that an event that is sent again keeps its time, which says how long its chunk has
/// waited; otherwise the waiting would never end.
#[tokio::test]
async fn an_event_that_is_sent_again_is_the_same_event() {
    let (chunks_ready, queue) = server(&[&[], &[]]).await;
    announce(&chunks_ready, 1).await.unwrap();
    let body = |call: &Call| call.body["Entries"][0]["MessageBody"].as_str().unwrap().to_owned();
    let first = body(&queue.calls().await[0]);
    let event = read_chunk_event(first.as_bytes()).unwrap();
    chunks_ready.resend(&event, Duration::from_millis(7500)).await.unwrap();
    let again = &queue.calls().await[1];
    assert_eq!(body(again), first);
    assert_eq!(again.body["Entries"][0]["DelaySeconds"], 8);
}
