//! Tests of the function `dead-letter` while the store that caused a failure is still unavailable.
//! The message stays on its queue, and is handled once the store is available.

use std::time::Duration;

use end_to_end::{Ingest, Load, Payloads, variable};
use serde_json::{Value, json};
use test_support::template::Deployed;

use crate::crash::stand::faults::{Blow, Faults, Op};
use crate::crash::stand::function::{Function, Invoked};
use crate::crash::stand::store::StoreProxy;
use crate::crash::stand::store_variables;

const DATABASE_AWAY: [(&str, &str); 2] = [("DATABASE_HOST", "127.0.0.1"), ("DATABASE_PORT", "1")];

fn function(stores: &StoreProxy, more: &[(&str, &str)]) -> Function {
    let of_the_stack = [
        "BATCHES_TABLE",
        "PAYLOAD_BUCKET",
        "BATCHES_FAILED_QUEUE_URL",
        "CHUNKS_FAILED_QUEUE_URL",
        "UNHANDLED_QUEUE_URL",
    ];
    let of_the_stack = of_the_stack.map(|name| (name.to_owned(), variable(name)));
    let given = [("DATABASE_SECRET_ARN", "local/database"), ("DATABASE_TLS", "off")];
    let given = given.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let variables = of_the_stack.into_iter().chain(given).collect();
    let deployed = Deployed {
        binary: "dead-letter".to_owned(),
        timeout: Duration::from_secs(30),
        memory_mb: 256,
        variables,
    };
    Function::new(deployed, &store_variables(stores))
}

/// Invokes `dead-letter` with one message, and returns true if the message stays on its queue.
async fn stays(function: &Function, body: &str) -> bool {
    let event = json!({"Records": [{
        "eventSource": "aws:sqs", "messageId": "m-1", "receiptHandle": "of a delivery that is over",
        "eventSourceARN": format!("arn:aws:sqs:us-east-1:000000000000:{}", variable("CHUNKS_FAILED_QUEUE_URL").rsplit('/').next().unwrap()),
        "attributes": {"ApproximateReceiveCount": "6"}, "body": body,
    }]});
    let invoked = function.invoke(event.to_string().into()).await;
    let Invoked::Answered(answer) = invoked else { panic!("{invoked:?}") };
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let failures = answer["batchItemFailures"].as_array().unwrap();
    assert!(failures.is_empty() || *failures == [json!({"itemIdentifier": "m-1"})], "{answer}");
    !failures.is_empty()
}

/// Returns the body of the message about a chunk in the sample events, with the stack's bucket.
fn chunk() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../events/ingest/dead-letter/chunk.json");
    let event: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let bucket = format!("s3://{}/", variable("PAYLOAD_BUCKET"));
    event["Records"][0]["body"].as_str().unwrap().replace("s3://payloads/", &bucket)
}

/// Loads a batch until it is final, and returns S3's notification of its payload.
async fn payload() -> String {
    let ingest = Ingest::new();
    let batch_id = ingest.accepted(Load::delta(b"[]")).await;
    ingest.finished(&batch_id).await;
    let key = &Payloads::open().await.keys(&batch_id).await[0];
    json!({"Records": [{
        "eventTime": "2026-11-21T23:59:59.456Z", "eventName": "ObjectCreated:Put", "userIdentity": {}, "requestParameters": {},
        "s3": {"bucket": {"name": variable("PAYLOAD_BUCKET")}, "object": {"key": key}},
    }]})
    .to_string()
}

#[tokio::test]
async fn with_the_database_away_a_message_stays() {
    let stores = StoreProxy::start(Faults::default()).await;
    let (away, back) = (function(&stores, &DATABASE_AWAY), function(&stores, &[]));
    let payload = payload().await;
    assert!(stays(&away, &chunk()).await && stays(&away, &payload).await);
    assert!(!stays(&back, &payload).await);
}

#[tokio::test]
async fn with_s3_or_the_batch_items_away_a_message_stays() {
    let faults = Faults::default();
    let stores = StoreProxy::start(faults.clone()).await;
    let function = function(&stores, &[]);
    let payload = payload().await;
    // Asked what the object is, S3 fails; then DynamoDB, asked for the item.
    for op in [Op::HeadObject, Op::Access] {
        faults.every(op, Blow::Status(500));
        assert!(stays(&function, &payload).await, "{op:?}");
        assert!(faults.seen(op) > 0, "{op:?}");
        faults.clear();
    }
    assert!(!stays(&function, &payload).await);
}

#[tokio::test]
async fn what_cannot_be_handed_on_to_people_stays() {
    let faults = Faults::default();
    let stores = StoreProxy::start(faults.clone()).await;
    let function = function(&stores, &[]);
    faults.every(Op::Send, Blow::Status(500));
    assert!(stays(&function, "not an event").await);
    faults.clear();
    assert!(!stays(&function, "not an event").await);
}
