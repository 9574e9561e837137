//! A queue that takes some messages of a call and not others gets the others again: against a server that does so.

use std::collections::BTreeMap;

use ingestion::chunk::{ChunkReady, Generation};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use transport::{AnnounceError, ChunksReady, Origin};
use uuid::Uuid;

use crate::queue::{Answer, Call, Queue};

/// Answers as many calls as there are lists: each names the entries that it does not take. Gives what it was sent.
async fn server(refused: &[&[&str]]) -> (ChunksReady, JoinHandle<Vec<Call>>) {
    let failed = |id: &&str| json!({"Id": id, "SenderFault": false, "Code": "InternalError"});
    let answer = |refused: &&[&str]| {
        let failed: Vec<_> = refused.iter().map(failed).collect();
        Answer::Taken(json!({"Successful": [], "Failed": failed}))
    };
    let queue = Queue::answering(refused.iter().map(answer).collect()).await;
    (ChunksReady::new(queue.client, queue.url), queue.serving)
}

async fn announce(queue: &ChunksReady, count: u32) -> Result<(), AnnounceError> {
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

/// The chunks of a call by the ids of its entries.
fn chunks(call: &Call) -> BTreeMap<&str, u64> {
    let entries = call.body["Entries"].as_array().unwrap();
    let group = format!("{}-5", Uuid::from_u128(1));
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
    let (queue, serving) = server(&[&["2", "7"], &["7"], &[], &[]]).await;
    announce(&queue, 13).await.unwrap();
    let calls = serving.await.unwrap();
    assert_eq!(chunks(&calls[0]).len(), 10);
    assert_eq!(chunks(&calls[1]), BTreeMap::from([("2", 2), ("7", 7)]));
    assert_eq!(chunks(&calls[2]), BTreeMap::from([("7", 7)]));
    assert_eq!(chunks(&calls[3]).into_values().collect::<Vec<_>>(), [10, 11, 12]);
}

#[tokio::test]
async fn a_queue_that_keeps_refusing_is_reported() {
    let (queue, serving) = server(&[&["0"], &["0"], &["0"], &["0"]]).await;
    let error = announce(&queue, 2).await.unwrap_err();
    assert!(matches!(error, AnnounceError::Refused { count: 1, code } if code == "InternalError"));
    serving.await.unwrap();
}

#[tokio::test]
async fn nothing_to_announce_is_no_call() {
    let (queue, serving) = server(&[]).await;
    announce(&queue, 0).await.unwrap();
    assert!(serving.await.unwrap().is_empty());
}
