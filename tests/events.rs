//! Tests of the sample events in `events/`: each one that is a request gets the response that its
//! name says, and every route has a sample.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Gateway, LoadTests, routes};
use serde_json::{Value, json};

/// Expected response to each sample event: path below `events/`, status, and the reason in the
/// problem, or an empty text if there is none.
const EXPECTED: &[(&str, u16, &str)] = &[
    ("gateway/produce/one-message.json", 201, ""),
    ("gateway/produce/properties.json", 201, ""),
    ("gateway/produce/exchange.json", 201, ""),
    ("gateway/produce/expiry-out-of-range.json", 400, "IDEMPOTENCY_EXPIRY_OUT_OF_RANGE"),
    ("gateway/produce/no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("gateway/produce/no-api-key.json", 401, "API_KEY_REQUIRED"),
    ("gateway/produce/malformed-json.json", 400, "MALFORMED_JSON"),
    ("gateway/produce/unknown-profile.json", 404, "TARGET_REF_NOT_FOUND"),
    ("gateway/produce/text-content-type.json", 415, "CONTENT_TYPE"),
    ("gateway/produce/integer-beyond-2-53.json", 400, "NUMBER_OUT_OF_RANGE"),
    ("gateway/produce/duplicate-key-header.json", 400, "IDEMPOTENCY_KEY_MALFORMED"),
    ("gateway/produce/quoted-key.json", 201, ""),
    ("gateway/produce/mangled-gzip-body.json", 400, "CONTENT_CORRUPT"),
    ("gateway/produce/template.json", 201, ""),
    ("gateway/produce/inline-target.json", 503, "BROKER_UNREACHABLE"),
    ("gateway/produce/unknown-member.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/produce/count-out-of-range.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/produce/duplicate-member.json", 400, "DUPLICATE_MEMBER"),
    ("gateway/produce/readonly-api-key.json", 403, "SCOPE_REQUIRED"),
    ("gateway/produce/thousand-random.json", 201, ""),
    ("gateway/produce/gzip-body.json", 201, ""),
    ("gateway/produce/malformed-key.json", 400, "IDEMPOTENCY_KEY_MALFORMED"),
    ("gateway/produce/announce-body.json", 201, ""),
    ("gateway/produce/announce-too-large.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/produce/unknown-body.json", 404, "BODY_NOT_FOUND"),
    ("gateway/produce/ibm-mq.json", 201, ""),
    ("gateway/consume/selector.json", 422, "UNSUPPORTED_BY_BROKER"),
    ("gateway/consume/no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("gateway/consume/rollback.json", 200, ""),
    ("gateway/consume/take.json", 200, ""),
    ("gateway/consume/wait-out-of-range.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/consume/browse.json", 200, ""),
    ("gateway/consume/large.json", 200, ""),
    ("gateway/consume/large-browse.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/consume/unknown-body.json", 404, "BODY_NOT_FOUND"),
    ("gateway/consume/ibm-mq.json", 200, ""),
    ("gateway/move-messages/queue.json", 200, ""),
    ("gateway/move-messages/origin.json", 200, ""),
    ("gateway/move-messages/selected.json", 200, ""),
    ("gateway/move-messages/dry-run.json", 200, ""),
    ("gateway/move-messages/no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("gateway/move-messages/readonly-api-key.json", 403, "SCOPE_REQUIRED"),
    ("gateway/move-messages/same-queue.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/move-messages/unknown-destination.json", 404, "QUEUE_NOT_FOUND"),
    ("gateway/move-messages/max-out-of-range.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/move-messages/ibm-mq.json", 200, ""),
    ("gateway/depth/other-queue.json", 200, ""),
    ("gateway/depth/several-queues.json", 200, ""),
    ("gateway/depth/targets.json", 200, ""),
    ("gateway/depth/profile.json", 200, ""),
    ("gateway/depth/rest-api.json", 200, ""),
    ("gateway/depth/unknown-queue.json", 404, "QUEUE_NOT_FOUND"),
    ("gateway/depth/inline-not-allowed.json", 403, "TARGET_NOT_ALLOWED"),
    ("gateway/depth/ibm-mq.json", 200, ""),
    ("gateway/depth/gzip-body.json", 200, ""),
    ("gateway/depth/no-target.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/connection-test/unreachable.json", 200, ""),
    ("gateway/connection-test/profile.json", 200, ""),
    ("gateway/connection-test/ibm-mq.json", 200, ""),
    ("gateway/connection-test/wrong-password.json", 200, ""),
    ("gateway/load-tests/start.json", 202, ""),
    ("gateway/load-tests/start-no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("gateway/load-tests/start-readonly-api-key.json", 403, "SCOPE_REQUIRED"),
    ("gateway/load-tests/start-without-length.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/load-tests/start-unknown-member.json", 400, "SCHEMA_VIOLATION"),
    ("gateway/load-tests/start-too-many-workers.json", 422, "EXCEEDS_TEST_LIMIT"),
    ("gateway/load-tests/list.json", 200, ""),
    ("gateway/load-tests/list-wrong-cursor.json", 400, "INVALID_PARAMETER"),
    ("gateway/load-tests/unknown-test.json", 404, "TEST_NOT_FOUND"),
    ("gateway/load-tests/page-of-unknown-test.json", 404, "TEST_NOT_FOUND"),
    ("gateway/load-tests/wrong-format.json", 400, "INVALID_PARAMETER"),
    ("gateway/load-tests/malformed-id.json", 400, "INVALID_PARAMETER"),
    ("gateway/load-tests/stop-unknown-test.json", 404, "TEST_NOT_FOUND"),
    ("gateway/load-tests/stop-no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("gateway/load-tests/delete-unknown-test.json", 404, "TEST_NOT_FOUND"),
    ("gateway/load-tests/no-api-key.json", 401, "API_KEY_REQUIRED"),
    ("ingest/product-ingest/delta-array.json", 202, ""),
    ("ingest/product-ingest/full-gzip-lines.json", 202, ""),
    ("ingest/product-ingest/bad-items.json", 202, ""),
    ("ingest/product-ingest/truncated-gzip.json", 400, "CONTENT_CORRUPT"),
    ("ingest/product-ingest/mangled-gzip.json", 400, "CONTENT_CORRUPT"),
    ("ingest/product-ingest/not-gzip.json", 400, "CONTENT_CORRUPT"),
    ("ingest/product-ingest/empty.json", 400, "MALFORMED_JSON"),
    ("ingest/product-ingest/no-api-key.json", 401, "API_KEY_REQUIRED"),
    ("ingest/product-ingest/readonly-api-key.json", 403, "SCOPE_REQUIRED"),
    ("ingest/product-ingest/no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("ingest/product-ingest/expiry.json", 400, "IDEMPOTENCY_EXPIRY_OUT_OF_RANGE"),
    ("ingest/product-ingest/no-load-type.json", 400, "LOAD_TYPE_REQUIRED"),
    ("ingest/product-ingest/wrong-load-type.json", 400, "LOAD_TYPE_INVALID"),
    ("ingest/product-ingest/csv.json", 415, "CONTENT_TYPE"),
    ("ingest/product-ingest/brotli.json", 415, "CONTENT_ENCODING"),
    ("ingest/product-ingest/upload.json", 201, ""),
    ("ingest/product-ingest/upload-wrong-sha256.json", 400, "SCHEMA_VIOLATION"),
    ("ingest/product-ingest/upload-too-large.json", 413, "MAX_PAYLOAD_EXCEEDED"),
    ("ingest/product-ingest/upload-unknown-member.json", 400, "SCHEMA_VIOLATION"),
    ("ingest/batches/list.json", 200, ""),
    ("ingest/batches/list-full-failed.json", 200, ""),
    ("ingest/batches/wrong-limit.json", 400, "INVALID_PARAMETER"),
    ("ingest/batches/wrong-status.json", 400, "INVALID_PARAMETER"),
    ("ingest/batches/wrong-cursor.json", 400, "INVALID_PARAMETER"),
    ("ingest/batches/unknown-batch.json", 404, "BATCH_NOT_FOUND"),
    ("ingest/batches/malformed-id.json", 400, "INVALID_PARAMETER"),
    ("ingest/batches/errors-of-unknown-batch.json", 404, "BATCH_NOT_FOUND"),
    ("ingest/batches/errors-file-of-unknown-batch.json", 404, "BATCH_NOT_FOUND"),
    ("ingest/batches/no-api-key.json", 401, "API_KEY_REQUIRED"),
    ("ingest/batches/replay-of-unknown-batch.json", 404, "BATCH_NOT_FOUND"),
    ("ingest/batches/replay-no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("ingest/batches/replay-unknown-scope.json", 400, "SCHEMA_VIOLATION"),
    ("ingest/batches/replay-unknown-member.json", 400, "SCHEMA_VIOLATION"),
    ("ingest/batches/replay-readonly-api-key.json", 403, "SCOPE_REQUIRED"),
];

/// Lists all files below a folder and its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Member that only events of an HTTP API have.
const HTTP_API: &str = "routeKey";
/// Member that only events of a REST API have.
const REST_API: &str = "httpMethod";

fn is_of(api: &str, event: &Value) -> bool {
    event.get(api).is_some()
}

/// Returns the sample events that are HTTP requests, each with its path below `events/`.
fn requests() -> Vec<(String, Value)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../events"));
    let samples = files(root).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    let read = |path: PathBuf| {
        let event: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        (path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), event)
    };
    samples.map(read).filter(|(_, event)| is_of(HTTP_API, event) || is_of(REST_API, event)).collect()
}

/// Checks that every sample request gets the response in [`EXPECTED`]. The samples of the function
/// `status` have a test of their own.
#[tokio::test]
async fn every_sample_event_is_answered_as_its_name_says() {
    let gateway = Gateway::new();
    let mut gone: Vec<&str> = EXPECTED.iter().map(|expected| expected.0).collect();
    for (path, event) in requests().into_iter().filter(|(path, _)| !path.starts_with("status/")) {
        gone.retain(|expected| *expected != path);
        let answer = send(&gateway, &event).await;
        let reason = if answer.status < 300 { String::new() } else { answer.reason() };
        let Some((_, status, expected)) = EXPECTED.iter().find(|expected| expected.0 == path) else {
            panic!("(\"{path}\", {}, \"{reason}\") is not in the list", answer.status)
        };
        assert_eq!((answer.status, reason.as_str()), (*status, *expected), "{path}");
        if path == "gateway/load-tests/start.json" {
            LoadTests::new(gateway.clone()).end(&LoadTests::id(&answer)).await;
        }
    }
    assert!(gone.is_empty(), "no sample events are {gone:?}");
}

#[test]
fn every_route_has_a_sample_event() {
    let sampled: Vec<_> = requests().iter().map(|(_, event)| event["routeKey"].clone()).collect();
    let mut missing = routes();
    missing.retain(|(method, path)| !sampled.contains(&json!(format!("{method} {path}"))));
    assert!(missing.is_empty(), "no sample event is a request to {missing:?}");
}

/// Sends the HTTP request that an event describes, to the API of the event's kind.
async fn send(gateway: &Gateway, event: &Value) -> end_to_end::Answer {
    if is_of(REST_API, event) {
        return send_to_rest_api(event).await;
    }
    let http = &event["requestContext"]["http"];
    let made_by_the_client = ["host", "content-length"];
    let headers: Vec<_> = event["headers"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| !made_by_the_client.contains(&name.as_str()))
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
        .collect();
    let text = event["body"].as_str().unwrap_or_default();
    let body = if event["isBase64Encoded"] == true {
        STANDARD.decode(text).unwrap()
    } else {
        text.as_bytes().to_vec()
    };
    let mut path = http["path"].as_str().unwrap().to_owned();
    if let Some(query) = event["rawQueryString"].as_str().filter(|query| !query.is_empty()) {
        path = format!("{path}?{query}");
    }
    gateway.send(http["method"].as_str().unwrap(), &path, &headers, body).await
}

/// Sends the HTTP request that an event of a REST API describes. The event has the body in base64.
async fn send_to_rest_api(event: &Value) -> end_to_end::Answer {
    let headers: Vec<_> = event["multiValueHeaders"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| !["Host", "Content-Length"].contains(&name.as_str()))
        .flat_map(|(name, values)| values.as_array().unwrap().iter().map(move |value| (name, value)))
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
        .collect();
    let body = STANDARD.decode(event["body"].as_str().unwrap_or_default()).unwrap();
    let [method, path] = ["httpMethod", "path"].map(|member| event[member].as_str().unwrap());
    Gateway::rest().send(method, path, &headers, body).await
}
