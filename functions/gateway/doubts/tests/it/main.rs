//! Tests which events the function `doubts` publishes for changes of the idempotency table.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at what it did not expect")]

use std::time::{Duration, SystemTime};

use doubts::{Doubts, UnhandledQueue};
use events::{Event, Publisher, Settings};
use runtime::Sdk;
use serde_json::{Value, json};
use test_support::event_bus::FakeEventBus;
use test_support::sqs::{Call, FakeSqs};

const IN_DOUBT: &str = "integrahub.message.in_doubt";

struct Stand {
    bus: FakeEventBus,
    queue: FakeSqs,
    doubts: Doubts,
}

impl Stand {
    async fn open() -> Self {
        let bus = FakeEventBus::start().await;
        let sdk = Sdk::at(&bus.endpoint(), "us-east-1", "key", "secret").await;
        let name = |kind: &str| Some(format!("arn:aws:{kind}:us-east-1:111122223333:news"));
        let settings = Settings { bus: name("events"), topic: name("sns"), kafka: None };
        let queue = FakeSqs::accepting().await;
        let at_the_queue = Sdk::at(&queue.endpoint(), "us-east-1", "key", "secret").await;
        let sqs = aws_sdk_sqs::Client::new(at_the_queue.standard());
        let unhandled = UnhandledQueue::new(sqs, queue.queue_url());
        Self { doubts: Doubts { publisher: Publisher::of(&sdk, settings), unhandled }, bus, queue }
    }

    /// Returns the events that the function moved to the SQS queue for unhandled events.
    async fn parked(&self) -> Vec<Value> {
        let body = |call: Call| serde_json::from_str(call.body["MessageBody"].as_str().unwrap()).unwrap();
        self.queue.calls().await.into_iter().map(body).collect()
    }

    /// Delivers a batch of changes to the function. Returns the sequence number from which Lambda
    /// would deliver the batch again; `None` if the batch is done.
    async fn deliver(&self, event: Value) -> Option<String> {
        let response = self.doubts.handle(event).await.unwrap();
        let first = response.batch_item_failures.first();
        first.map(|failed| failed.item_identifier.clone())
    }
}

fn sample(name: &str) -> Value {
    let path = format!("{}/../../../events/gateway/doubts/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Builds a batch of stream records from the sample files `names`, with the current time. Returns
/// it with the records' sequence numbers.
fn batch(names: &[&str]) -> (Value, Vec<String>) {
    aged_batch(names, Duration::ZERO)
}

/// Builds a batch of stream records from the sample files `names`, with a time that is `age` ago.
/// Returns it with the records' sequence numbers.
fn aged_batch(names: &[&str], age: Duration) -> (Value, Vec<String>) {
    let made_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() - age;
    let mut records: Vec<Value> = names.iter().map(|name| sample(name)["Records"][0].clone()).collect();
    let numbers: Vec<String> = (0..records.len()).map(|number| format!("{number:021}")).collect();
    for (record, number) in records.iter_mut().zip(&numbers) {
        record["dynamodb"]["SequenceNumber"] = number.as_str().into();
        record["dynamodb"]["ApproximateCreationDateTime"] = made_at.as_secs_f64().into();
    }
    (json!({ "Records": records }), numbers)
}

const SAMPLES: [(&str, &str, &str, u64); 5] = [
    ("failed-in-doubt", "produce", "broker", 200),
    ("taken-over", "produce", "interrupted", 100),
    ("key-used-again", "produce", "interrupted", 100),
    ("commit-in-doubt", "consume", "broker", 0),
    ("expired", "move", "interrupted", 7),
];

#[tokio::test]
async fn each_doubt_is_an_event_on_the_bus_and_on_the_topic_as_its_schema_says() {
    let (_, schema) = Event::DATA_SCHEMAS.into_iter().find(|(of_type, _)| *of_type == IN_DOUBT).unwrap();
    for (name, operation, cause, done) in SAMPLES {
        let stand = Stand::open().await;
        assert_eq!(stand.deliver(sample(name)).await, None, "{name}");
        let events = stand.bus.on_the_bus();
        assert_eq!(stand.bus.on_the_topic(), events);
        let [event] = &events[..] else { panic!("{name}: {events:?}") };
        for (schema, value) in [(Event::SCHEMA, event), (schema, &event["data"])] {
            let schema = serde_json::from_str(schema).unwrap();
            jsonschema::options()
                .should_validate_formats(true)
                .build(&schema)
                .unwrap()
                .validate(value)
                .unwrap();
        }
        assert_eq!((&event["type"], &event["subject"]), (&IN_DOUBT.into(), &"QM1:DEV.QUEUE.1".into()));
        let data = &event["data"];
        assert_eq!((&data["operation"], &data["cause"]), (&operation.into(), &cause.into()), "{name}");
        assert_eq!(data["messages_done"], done, "{name}");
        let in_doubt = if name == "failed-in-doubt" { json!(3) } else { Value::Null };
        assert_eq!(data["messages_in_doubt"], in_doubt, "{name}");
        assert_eq!(data["source_idempotency_key"], "5c1e0a56-4a58-4aaf-9359-83ec8f663f10");
    }
}

#[tokio::test]
async fn changes_without_a_doubt_reach_nobody() {
    let stand = Stand::open().await;
    assert_eq!(stand.deliver(sample("no-doubt")).await, None);
    assert!(stand.bus.calls().is_empty());
}

#[tokio::test]
async fn while_the_bus_is_away_the_changes_come_again_with_the_same_ids() {
    let stand = Stand::open().await;
    let (event, numbers) = batch(&["failed-in-doubt", "commit-in-doubt", "expired"]);
    stand.bus.go_away(true);
    assert_eq!(stand.deliver(event.clone()).await.as_ref(), Some(&numbers[0]));
    stand.bus.go_away(false);
    assert_eq!(stand.deliver(event.clone()).await, None);
    assert_eq!(stand.deliver(event).await, None);
    let ids: Vec<Value> = stand.bus.on_the_bus().iter().map(|event| event["id"].clone()).collect();
    let (first, second) = ids.split_at(3);
    assert_eq!(first, second);
    assert!(first[0] != first[1] && first[1] != first[2]);
}

#[tokio::test]
async fn an_event_that_is_refused_comes_again_with_those_after_it() {
    let stand = Stand::open().await;
    stand.bus.refuse(&[IN_DOUBT]);
    let (event, numbers) = batch(&["expired", "failed-in-doubt"]);
    assert_eq!(stand.deliver(event).await.as_ref(), Some(&numbers[0]));
}

#[tokio::test]
async fn an_event_that_is_refused_for_a_quarter_of_an_hour_holds_up_no_others() {
    let stand = Stand::open().await;
    stand.bus.refuse(&[IN_DOUBT]);
    let (young, numbers) = aged_batch(&["expired", "failed-in-doubt"], Duration::from_mins(14));
    assert_eq!(stand.deliver(young).await.as_ref(), Some(&numbers[0]));
    assert!(stand.parked().await.is_empty());

    let (old, _) = aged_batch(&["expired", "failed-in-doubt"], Duration::from_mins(16));
    assert_eq!(stand.deliver(old).await, None);
    let parked = stand.parked().await;
    let operations: Vec<&Value> = parked.iter().map(|event| &event["data"]["operation"]).collect();
    assert_eq!(operations, ["move", "produce"]);
}

#[tokio::test]
async fn while_the_bus_is_away_events_move_to_the_unhandled_queue_before_the_stream_forgets_them() {
    let stand = Stand::open().await;
    stand.bus.go_away(true);
    let (young, numbers) = aged_batch(&["expired", "failed-in-doubt"], Duration::from_hours(19));
    assert_eq!(stand.deliver(young).await.as_ref(), Some(&numbers[0]));
    assert!(stand.parked().await.is_empty());

    let (mut mixed, _) = aged_batch(&["expired", "failed-in-doubt"], Duration::from_hours(21));
    let (young, numbers) = batch(&["expired", "failed-in-doubt"]);
    mixed["Records"][1] = young["Records"][1].clone();
    assert_eq!(stand.deliver(mixed).await.as_ref(), Some(&numbers[1]), "the others are tried further");
    let parked = stand.parked().await;
    let [parked] = &parked[..] else { panic!("{parked:?}") };
    stand.bus.go_away(false);
    stand.deliver(sample("expired")).await;
    let published = stand.bus.on_the_bus();
    assert_eq!(published, std::slice::from_ref(parked), "it can be published as it is");
}

#[tokio::test]
async fn an_event_that_the_unhandled_queue_does_not_take_stays_in_the_stream() {
    let mut stand = Stand::open().await;
    let queue = FakeSqs::answering(Vec::new()).await;
    let sdk = Sdk::at(&queue.endpoint(), "us-east-1", "key", "secret").await;
    stand.doubts.unhandled = UnhandledQueue::new(aws_sdk_sqs::Client::new(sdk.standard()), queue.queue_url());
    stand.bus.refuse(&[IN_DOUBT]);
    let (old, numbers) = aged_batch(&["expired", "failed-in-doubt"], Duration::from_hours(23));
    assert_eq!(stand.deliver(old).await.as_ref(), Some(&numbers[0]));
}

#[tokio::test]
async fn a_record_that_cannot_be_read_does_not_hold_up_the_others() {
    let stand = Stand::open().await;
    let (mut event, _) = batch(&["expired", "failed-in-doubt"]);
    event["Records"][0]["dynamodb"]["OldImage"].as_object_mut().unwrap().remove("attempt");
    assert_eq!(stand.deliver(event).await, None);
    assert_eq!(stand.bus.on_the_bus().len(), 1);
}

#[tokio::test]
async fn an_event_that_is_not_a_stream_s_is_refused() {
    let stand = Stand::open().await;
    for event in [json!({}), json!({"Records": [{"eventSource": "aws:sqs", "body": "b"}]}), json!([])] {
        assert!(stand.doubts.handle(event).await.is_err());
    }
}
