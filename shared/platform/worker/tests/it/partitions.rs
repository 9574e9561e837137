//! Tests of the outcomes of Kafka records.

use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use worker::{ParkError, ServeError, SqsBatchResponse, serve};

use crate::job::{Plain, Words};
use crate::queue::Queue;

const TIME: Duration = Duration::from_secs(30);

/// Builds a Kafka event with these values in each partition. Offsets begin at 10.
fn event(partitions: &[&[&str]]) -> Value {
    let mut records = serde_json::Map::new();
    for (partition, values) in partitions.iter().enumerate() {
        let record = |(offset, value): (usize, &&str)| {
            json!({
                "topic": "chunks.ready", "partition": partition, "offset": 10 + offset,
                "timestamp": 1_800_000_000_000_i64, "timestampType": "CREATE_TIME",
                "key": STANDARD.encode("05927228000145"), "value": STANDARD.encode(value), "headers": [],
            })
        };
        let values: Vec<_> = values.iter().enumerate().map(record).rev().collect();
        records.insert(format!("chunks.ready-{partition}"), values.into());
    }
    json!({"eventSource": "aws:kafka", "bootstrapServers": "b-1:9092", "records": records})
}

async fn served(
    words: &Words,
    partitions: &[&[&str]],
    time: Duration,
) -> Result<SqsBatchResponse, ServeError> {
    serve(words, event(partitions), SystemTime::now() + time).await
}

#[tokio::test]
async fn what_fails_is_parked_and_its_partition_goes_on() {
    for source in ["aws:kafka", "SelfManagedKafka"] {
        let queue = Queue::start().await;
        let words = Words::new(&queue);
        let mut event =
            event(&[&["a", "later", "never", "unreadable", "repair", "moved", "b"], &["contended", "c"]]);
        event["eventSource"] = source.into();
        let response = serve(&words, event, SystemTime::now() + TIME).await.unwrap();
        assert_eq!(response, SqsBatchResponse::default());
        assert_eq!(words.begun(), ["a", "later", "never", "repair", "moved", "b", "contended", "c"]);
        let parked = ["0@11", "0@12", "0@13", "0@14", "1@10"].map(|place| format!("chunks.ready-{place}"));
        assert_eq!(words.parked(), parked);
        assert_eq!(queue.calls().await, 0, "Kafka has no visibility timeouts");
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_parked_fails_the_invocation_and_stops_its_partition_alone() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    let served = served(&words, &[&["a", "later refused", "b"], &["c", "later", "d"]], TIME).await;
    let Err(ServeError::Unsettled { record, source: ParkError::Queue(_) }) = served else {
        panic!("{served:?}")
    };
    assert_eq!(record, "chunks.ready-0@11");
    assert_eq!(words.begun(), ["a", "later", "c", "later", "d"]);
    assert_eq!(words.parked(), ["chunks.ready-1@11"]);
}

#[tokio::test]
async fn a_job_without_a_queue_for_them_never_answers_success() {
    let failed = serve(&Plain, event(&[&["a"]]), SystemTime::now() + TIME).await;
    assert!(matches!(failed, Err(ServeError::Unsettled { source: ParkError::NoQueue, .. })), "{failed:?}");
}

#[tokio::test]
async fn without_time_the_invocation_fails_and_nothing_is_parked() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    let failed = served(&words, &[&["a"], &["b"]], Duration::from_millis(900)).await;
    let Err(ServeError::OutOfTime { record }) = failed else { panic!("{failed:?}") };
    assert_eq!(record, "chunks.ready-0@10");
    assert!(words.begun().is_empty() && words.parked().is_empty());
}

#[tokio::test]
async fn a_record_that_takes_all_the_time_is_parked_with_those_that_had_none() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    served(&words, &[&["a", "slow", "b"], &["c"]], Duration::from_millis(1300)).await.unwrap();
    assert_eq!(words.begun(), ["a", "slow"]);
    assert_eq!(words.parked(), ["chunks.ready-0@11", "chunks.ready-0@12", "chunks.ready-1@10"]);
}

#[tokio::test]
async fn a_queue_that_does_not_answer_leaves_time_for_the_error() {
    let queue = Queue::start().await;
    for body in ["later unanswered", "moved unanswered"] {
        let words = Words::new(&queue);
        let began = Instant::now();
        let failed = served(&words, &[&[body], &["a"]], Duration::from_secs(2)).await;
        let is_out_of_time =
            matches!(failed, Err(ServeError::Unsettled { source: ParkError::OutOfTime, .. }));
        assert!(is_out_of_time, "{body}: {failed:?}");
        assert!(began.elapsed() < Duration::from_millis(1950), "{body}: {:?}", began.elapsed());
        assert!(words.parked().is_empty());
    }
}

#[tokio::test]
async fn repeated_and_out_of_order_delivery_has_the_same_end() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    for _ in 0..2 {
        served(&words, &[&["a", "never", "b"]], TIME).await.unwrap();
    }
    assert_eq!(words.begun(), ["a", "never", "b", "a", "never", "b"]);
    assert_eq!(words.parked(), ["chunks.ready-0@11", "chunks.ready-0@11"]);
}
