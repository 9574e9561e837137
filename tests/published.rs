//! Tests of the events of batches, refused files and requests in doubt, as a rule of EventBridge
//! and an SNS subscription deliver them.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_eventbridge::types::Target;
use aws_sdk_sqs::Client;
use end_to_end::{Gateway, Ingest, Load, QueueManager, Records, TENANT_A, variable};
use events::Event;
use ingestion::generate::{Catalogue, Layout};
use serde_json::{Value, json};
use uuid::Uuid;

/// Maximum time until an event is delivered, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const RECEIVED: &str = "integrahub.batch.received";
const FINAL: &str = "integrahub.batch.final";
const REFUSED: &str = "integrahub.drop.refused";
const IN_DOUBT: &str = "integrahub.message.in_doubt";

/// Receiver of the events about one request: an SQS queue behind the event bus, and one behind the
/// SNS topic.
struct Receiver {
    sqs: Client,
    name: String,
    of_the_bus: String,
    of_the_topic: String,
}

impl Receiver {
    async fn of(key: Uuid) -> Self {
        Self::of_those_with(key, &json!({"data": {"source_idempotency_key": [key.to_string()]}})).await
    }

    /// Creates a receiver of the events whose data match `filter`. Its queues and its rule are
    /// named after `key`.
    async fn of_those_with(key: Uuid, filter: &Value) -> Self {
        let sdk = runtime::Sdk::from_environment().await.single_attempt(PATIENCE);
        let sqs = Client::new(&sdk);
        let name = format!("events-{}", key.simple());
        let queue = async |kind: &str| {
            let made = sqs.create_queue().queue_name(format!("{name}-{kind}")).send().await;
            made.unwrap().queue_url.unwrap()
        };
        let receiver = Self {
            of_the_bus: queue("bus").await,
            of_the_topic: queue("topic").await,
            name: name.clone(),
            sqs,
        };
        receiver.subscribe(&aws_sdk_sns::Client::new(&sdk), filter).await;
        let pattern = json!({"source": ["integrahub"], "detail": filter});
        receiver.rule(&aws_sdk_eventbridge::Client::new(&sdk), &pattern).await;
        receiver
    }

    async fn rule(&self, client: &aws_sdk_eventbridge::Client, pattern: &Value) {
        let bus = variable("EVENT_BUS_ARN");
        let bus = bus.rsplit('/').next().unwrap();
        let rule = client.put_rule().name(&self.name).event_bus_name(bus).event_pattern(pattern.to_string());
        rule.send().await.unwrap();
        let target = Target::builder().id("queue").arn(arn(&self.of_the_bus)).build().unwrap();
        let targets = client.put_targets().rule(&self.name).event_bus_name(bus).targets(target);
        targets.send().await.unwrap();
    }

    async fn subscribe(&self, client: &aws_sdk_sns::Client, filter: &Value) {
        let subscribe = client.subscribe().topic_arn(variable("EVENT_TOPIC_ARN")).protocol("sqs");
        let subscribe = subscribe.endpoint(arn(&self.of_the_topic)).attributes("RawMessageDelivery", "true");
        let subscribe = subscribe.attributes("FilterPolicyScope", "MessageBody");
        subscribe.attributes("FilterPolicy", filter.to_string()).send().await.unwrap();
    }

    /// Waits until `count` events are on one of the receiver's queues, and removes them.
    async fn take(&self, queue: &str, count: usize) -> Vec<Value> {
        let began = Instant::now();
        let mut found = Vec::new();
        while found.len() < count {
            assert!(began.elapsed() < PATIENCE, "only {found:?}");
            let receive = self.sqs.receive_message().queue_url(queue).max_number_of_messages(10);
            let received = receive.wait_time_seconds(1).send().await.unwrap();
            for message in received.messages.unwrap_or_default() {
                let receipt = message.receipt_handle.unwrap();
                self.sqs.delete_message().queue_url(queue).receipt_handle(receipt).send().await.unwrap();
                found.push(serde_json::from_str(&message.body.unwrap()).unwrap());
            }
        }
        found
    }
}

/// Returns the ARN of a queue from its URL, which ends with account and name.
fn arn(queue_url: &str) -> String {
    let mut parts = queue_url.rsplit('/');
    let (name, account) = (parts.next().unwrap(), parts.next().unwrap());
    format!("arn:aws:sqs:us-east-1:{account}:{name}")
}

fn conforms(event: &Value) {
    let (_, data) = Event::DATA_SCHEMAS.into_iter().find(|(of_type, _)| event["type"] == *of_type).unwrap();
    for (schema, value) in [(Event::SCHEMA, event), (data, &event["data"])] {
        let schema = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        validator.validate(value).unwrap();
    }
}

fn catalogue(seed: u64) -> Vec<u8> {
    Catalogue { seed, items: 1200, establishments: 2, ..Catalogue::default() }.payload(Layout::Array)
}

async fn accepted(ingest: &Ingest, key: Uuid, load: Load<'_>) -> String {
    let answer = ingest.send(key, load).await.expect(202).json();
    answer["batch_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_batch_is_received_and_final_for_whoever_listens_to_the_bus_or_the_topic() {
    let (ingest, key) = (Ingest::new(), Uuid::new_v4());
    let receiver = Receiver::of(key).await;
    let batch_id = accepted(&ingest, key, Load::delta(&catalogue(4711))).await;
    let batch = ingest.finished(&batch_id).await;
    let delivered = receiver.take(&receiver.of_the_bus, 2).await;
    for event in &delivered {
        assert_eq!(
            (&event["source"], &event["detail-type"]),
            (&json!("integrahub"), &event["detail"]["type"])
        );
        conforms(&event["detail"]);
        assert_eq!(event["detail"]["data"]["batch_id"], batch_id.as_str());
    }
    let of_type =
        |name: &str| &delivered.iter().find(|event| event["detail-type"] == name).unwrap()["detail"];
    assert_eq!(of_type(RECEIVED)["data"]["load_type"], "delta");
    let account = &of_type(FINAL)["data"];
    for member in
        ["status", "generation", "changes", "chunks", "deactivation", "items_parsed", "items_failed"]
    {
        assert_eq!(account[member], batch[member], "{member}");
    }
    let path = account["links"]["batch"].as_str().unwrap();
    assert_eq!(path, format!("/v1/inovafarma/batches/{batch_id}"));
    let mut on_the_topic = receiver.take(&receiver.of_the_topic, 2).await;
    on_the_topic.sort_by_key(|event| event["time"].to_string());
    assert_eq!(on_the_topic, [of_type(RECEIVED).clone(), of_type(FINAL).clone()]);
}

#[tokio::test]
async fn a_payload_that_cannot_be_read_is_final_with_its_error_and_a_replay_makes_it_final_again() {
    let (ingest, key) = (Ingest::new(), Uuid::new_v4());
    let receiver = Receiver::of(key).await;
    let batch_id = accepted(&ingest, key, Load::delta(b"[{\"CNPJ\": ")).await;
    let batch = ingest.finished(&batch_id).await;
    let delivered = receiver.take(&receiver.of_the_bus, 2).await;
    let last = delivered.iter().find(|event| event["detail-type"] == FINAL).unwrap();
    conforms(&last["detail"]);
    assert_eq!(last["detail"]["data"]["status"], "FAILED");
    assert_eq!(last["detail"]["data"]["error"], batch["error"]);
    ingest.replay(&batch_id, Uuid::new_v4(), &json!({"scope": "all"})).await.expect(202);
    let delivered = receiver.take(&receiver.of_the_bus, 1).await;
    assert_eq!(delivered[0]["detail-type"], FINAL);
    assert_eq!(delivered[0]["detail"]["data"]["generation"], 2);
    assert_ne!(delivered[0]["detail"]["id"], last["detail"]["id"]);
}

/// Checks that requests in doubt are published before a client retries them: a produce that failed
/// with messages in doubt, and a consume whose messages may or may not be removed.
#[tokio::test]
async fn requests_in_doubt_are_events_before_anybody_asks_again() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let batch = json!({"count": 30, "messageSizeBytes": 20, "transaction": {"enabled": true, "txSize": 10, "atomic": true}});
    let mut produce = manager.request("DEV.QUEUE.1", json!({"batch": batch, "payload": {"mode": "random"}}));
    let key = Uuid::new_v4();
    let receiver = Receiver::of(key).await;
    manager.fault(&json!({"verb": "MQCMIT", "nth": 2, "cut": true}));
    gateway.produce(key, &produce).await.expect_problem(502, "OUTCOME_IN_DOUBT");
    let event = receiver.take(&receiver.of_the_topic, 1).await.remove(0);
    conforms(&event);
    assert_eq!((&event["type"], &event["data"]["operation"]), (&json!(IN_DOUBT), &json!("produce")));
    assert_eq!((&event["data"]["cause"], &event["data"]["attempt"]), (&json!("broker"), &json!(1)));
    assert_eq!(
        (&event["data"]["messages_done"], &event["data"]["messages_in_doubt"]),
        (&json!(10), &json!(10))
    );
    assert!(event["subject"].as_str().unwrap().contains("DEV.QUEUE.1"), "{event}");

    produce["batch"]["count"] = json!(3);
    gateway.produce(Uuid::new_v4(), &produce).await.expect(201);
    let key = Uuid::new_v4();
    let receiver = Receiver::of(key).await;
    let consume = manager.request("DEV.QUEUE.1", json!({"maxMessages": 100, "ack": "commit"}));
    manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": "after"}));
    gateway.consume(key, &consume).await.expect_problem(502, "OUTCOME_IN_DOUBT");
    let delivered = receiver.take(&receiver.of_the_bus, 1).await.remove(0);
    let event = &delivered["detail"];
    conforms(event);
    assert_eq!(
        (&delivered["detail-type"], &event["data"]["operation"]),
        (&json!(IN_DOUBT), &json!("consume"))
    );
    assert_eq!(
        (&event["data"]["cause"], &event["data"]["messages_in_doubt"]),
        (&json!("broker"), &Value::Null)
    );
}

#[tokio::test]
async fn an_object_that_is_refused_is_an_event_for_whoever_listens_to_the_bus_or_the_topic() {
    let sdk = runtime::Sdk::from_environment().await.single_attempt(PATIENCE);
    let (s3, bucket) = (aws_sdk_s3::Client::new(&sdk), variable("PAYLOAD_BUCKET"));
    let id = Uuid::new_v4();
    let key = format!("drop/{TENANT_A}/everything/{id}.json");
    let receiver = Receiver::of_those_with(id, &json!({"data": {"object": {"key": [key]}}})).await;
    let put = s3.put_object().bucket(&bucket).key(&key).body(b"[]".to_vec().into()).send().await.unwrap();
    let delivered = receiver.take(&receiver.of_the_bus, 1).await.remove(0);
    let event = &delivered["detail"];
    conforms(event);
    assert_eq!((&delivered["detail-type"], &event["tenant"]), (&json!(REFUSED), &json!(TENANT_A)));
    let object = json!({"bucket": bucket, "key": key, "etag": put.e_tag, "version_id": null});
    assert_eq!((&event["data"]["object"], &event["data"]["reason"]), (&object, &json!("KEY_UNKNOWN")));
    assert_eq!(receiver.take(&receiver.of_the_topic, 1).await, std::slice::from_ref(event));
}

/// Checks the event about a produce that a crash cut off, if its key is used again after the record
/// expired. DynamoDB has not yet deleted the record then.
#[tokio::test]
async fn a_request_that_was_cut_off_is_an_event_even_if_its_key_is_used_again_after_it_expired() {
    let (gateway, manager, records) = (Gateway::new(), QueueManager::start(), Records::open().await);
    let batch = json!({"count": 3, "messageSizeBytes": 20});
    let produce = manager.request("DEV.QUEUE.1", json!({"batch": batch, "payload": {"mode": "random"}}));
    let key = Uuid::new_v4();
    let receiver = Receiver::of(key).await;
    gateway.produce(key, &produce).await.expect(201);
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let number = |value: &str| AttributeValue::N(value.to_owned());
    let cut_off = [
        ("status", text("IN_PROGRESS")),
        ("checkpoint", number("2")),
        ("leaseExpiresAt", number("1")),
        ("expiresAt", text("2020-01-01T00:00:00.000Z")),
    ];
    records.set("PRODUCE", key, &cut_off).await;
    gateway.produce(key, &produce).await.expect(201);
    let event = receiver.take(&receiver.of_the_topic, 1).await.remove(0);
    conforms(&event);
    assert_eq!((&event["type"], &event["data"]["cause"]), (&json!(IN_DOUBT), &json!("interrupted")));
    assert_eq!((&event["data"]["attempt"], &event["data"]["messages_done"]), (&json!(1), &json!(2)));
}
