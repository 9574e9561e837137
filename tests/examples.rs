//! Tests that every example of a request body in the contract succeeds when it is sent.

use end_to_end::contract::PUBLISHED;
use end_to_end::{Answer, Broker, Gateway, Ingest, KEY_A, LoadTests};
use serde_json::{Value, json};
use uuid::Uuid;

/// Example of a request body in the contract, with its operation's path and media type.
struct Example {
    path: &'static str,
    media_type: &'static str,
    name: &'static str,
    value: &'static Value,
    /// Status of the operation's only successful response, such as 201.
    status: u16,
}

/// Returns the path of every operation in the contract that has a request body, with its examples.
fn bodies() -> Vec<(&'static str, Vec<Example>)> {
    let mut all = Vec::new();
    for (path, operations) in PUBLISHED["paths"].as_object().unwrap() {
        let Some(operation) = operations.get("post") else { continue };
        let Some(content) = operation.pointer("/requestBody/content") else { continue };
        let statuses = operation["responses"].as_object().unwrap().keys();
        let status = statuses.filter_map(|status| status.parse().ok()).find(|status| *status < 300).unwrap();
        let mut examples = Vec::new();
        for (media_type, content) in content.as_object().unwrap() {
            for (name, example) in content.get("examples").and_then(Value::as_object).into_iter().flatten() {
                examples.push(Example { path, media_type, name, value: &example["value"], status });
            }
        }
        all.push((path.as_str(), examples));
    }
    all
}

#[test]
fn every_request_with_a_body_has_an_example() {
    let all = bodies();
    assert!(all.len() >= 7, "{} requests", all.len());
    for (path, examples) in all {
        assert!(!examples.is_empty(), "{path}");
    }
}

/// Sends an example to `path`. If its target names no queue or exchange, the queue of this test is
/// added.
async fn send(gateway: &Gateway, example: &Example, path: &str, queue: &str) -> Answer {
    let mut body = example.value.clone();
    let named = if body.get("from").is_some() { &mut body["from"] } else { &mut body };
    let names_place =
        ["/target/queue", "/target/exchange"].iter().any(|place| named.pointer(place).is_some());
    let takes_place = named.get("target").is_none_or(Value::is_object);
    if named.get("targetRef").is_some() && takes_place && !names_place {
        named["target"]["queue"] = json!(queue);
    }
    let body = match &body {
        Value::String(lines) => lines.clone(),
        json => json.to_string(),
    };
    let key = Uuid::new_v4().to_string();
    let headers = [
        ("x-api-key", KEY_A),
        ("content-type", example.media_type),
        ("idempotency-key", key.as_str()),
        ("x-inova-load-type", "delta"),
    ];
    gateway.send("POST", path, &headers, body).await
}

/// Loads the example `products`, waits until its batch is completed, and returns the batch's id.
async fn final_batch(gateway: &Gateway, products: &Example) -> String {
    let answer = send(gateway, products, products.path, "").await.expect(202);
    let batch = answer.json()["batch_id"].as_str().unwrap().to_owned();
    let state = Ingest::new().finished(&batch).await["status"].clone();
    assert_eq!(state, "COMPLETED", "the example of {}", products.path);
    batch
}

#[tokio::test]
async fn every_example_succeeds_when_it_is_sent() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let all = bodies();
    for example in all.iter().flat_map(|(_, examples)| examples).filter(|one| !one.path.contains('{')) {
        let answer = send(&gateway, example, example.path, &queue.name).await;
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert_eq!(answer.status, example.status, "{} of {}: {text}", example.name, example.path);
        if example.path == "/tests" {
            LoadTests::new(gateway.clone()).end(&LoadTests::id(&answer)).await;
        }
    }
    broker.delete(&queue).await;
}

/// Sends each example about a batch. A completed batch can only be replayed completely; any other
/// example must get a problem that says why it is not possible.
#[tokio::test]
async fn examples_about_a_batch_are_understood() {
    let gateway = Gateway::new();
    let all = bodies();
    let examples = || all.iter().flat_map(|(_, examples)| examples);
    let products = examples().find(|example| example.path == "/v1/inovafarma/products").unwrap();
    for example in examples().filter(|example| example.path.contains('{')) {
        let batch = final_batch(&gateway, products).await;
        let answer = send(&gateway, example, &example.path.replace("{batch_id}", &batch), "").await;
        if example.value["scope"] == "all" {
            answer.expect(example.status);
        } else {
            answer.expect_problem(409, "BATCH_NOT_REPLAYABLE");
        }
    }
}

/// Returns JSON pointers to all objects in a value, first to the value itself if it is an object.
fn objects(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    if value.is_object() {
        all.push(String::new());
    }
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in members {
        all.extend(objects(value).into_iter().map(|pointer| format!("/{name}{pointer}")));
    }
    all
}

/// Checks that no operation accepts an array in place of an object. Its elements have no names, so
/// they would be read in an order that the contract does not describe.
#[tokio::test]
async fn no_array_is_taken_for_an_object() {
    let gateway = Gateway::new();
    let mut sent = 0;
    for example in bodies().into_iter().flat_map(|(_, examples)| examples) {
        // Items are read by the chunker, and headers may hold arrays.
        let pointers = objects(example.value).into_iter().filter(|pointer| !pointer.contains("/headers/"));
        for pointer in pointers.filter(|_| example.value.is_object()) {
            let mut value = example.value.clone();
            let object = value.pointer_mut(&pointer).unwrap();
            *object = object.as_object().unwrap().values().cloned().collect();
            let changed = Example { value: Box::leak(Box::new(value)), ..example };
            let path = changed.path.replace("{batch_id}", &Uuid::new_v4().to_string());
            let answer = send(&gateway, &changed, &path, "").await;
            let seen = (answer.status, answer.json()["reason"].clone());
            assert_eq!(seen, (400, json!("SCHEMA_VIOLATION")), "{path} {pointer}: {}", changed.value);
            sent += 1;
        }
    }
    assert!(sent > 30, "{sent} objects");
}
