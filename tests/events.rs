//! Every sample event of the gateway's functions gets what its name says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::Gateway;
use serde_json::Value;

/// Folder, file, status, and the reason of a problem.
const EXPECTED: &[(&str, &str, u16, &str)] = &[
    ("produce", "one-message.json", 201, ""),
    ("produce", "properties.json", 201, ""),
    ("produce", "exchange.json", 201, ""),
    ("produce", "expiry-out-of-range.json", 400, "IDEMPOTENCY_EXPIRY_OUT_OF_RANGE"),
    ("produce", "no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("produce", "no-api-key.json", 401, "API_KEY_REQUIRED"),
    ("produce", "malformed-json.json", 400, "MALFORMED_JSON"),
    ("produce", "unknown-profile.json", 404, "TARGET_REF_NOT_FOUND"),
    ("produce", "text-content-type.json", 415, "CONTENT_TYPE"),
    ("produce", "integer-beyond-2-53.json", 400, "NUMBER_OUT_OF_RANGE"),
    ("produce", "duplicate-key-header.json", 400, "IDEMPOTENCY_KEY_MALFORMED"),
    ("produce", "quoted-key.json", 201, ""),
    ("produce", "mangled-gzip-body.json", 400, "CONTENT_CORRUPT"),
    ("produce", "template.json", 201, ""),
    ("produce", "inline-target.json", 503, "BROKER_UNREACHABLE"),
    ("produce", "unknown-member.json", 400, "SCHEMA_VIOLATION"),
    ("produce", "count-out-of-range.json", 400, "SCHEMA_VIOLATION"),
    ("produce", "duplicate-member.json", 400, "DUPLICATE_MEMBER"),
    ("produce", "readonly-api-key.json", 403, "SCOPE_REQUIRED"),
    ("produce", "thousand-random.json", 201, ""),
    ("produce", "gzip-body.json", 201, ""),
    ("produce", "malformed-key.json", 400, "IDEMPOTENCY_KEY_MALFORMED"),
    ("produce", "announce-body.json", 201, ""),
    ("produce", "announce-too-large.json", 400, "SCHEMA_VIOLATION"),
    ("produce", "unknown-body.json", 404, "BODY_NOT_FOUND"),
    ("produce", "ibm-mq.json", 201, ""),
    ("consume", "selector.json", 422, "UNSUPPORTED_BY_BROKER"),
    ("consume", "no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("consume", "rollback.json", 200, ""),
    ("consume", "take.json", 200, ""),
    ("consume", "wait-out-of-range.json", 400, "SCHEMA_VIOLATION"),
    ("consume", "browse.json", 200, ""),
    ("consume", "large.json", 200, ""),
    ("consume", "large-browse.json", 400, "SCHEMA_VIOLATION"),
    ("consume", "unknown-body.json", 404, "BODY_NOT_FOUND"),
    ("consume", "ibm-mq.json", 200, ""),
    ("move-messages", "queue.json", 200, ""),
    ("move-messages", "origin.json", 200, ""),
    ("move-messages", "selected.json", 200, ""),
    ("move-messages", "dry-run.json", 200, ""),
    ("move-messages", "no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("move-messages", "readonly-api-key.json", 403, "SCOPE_REQUIRED"),
    ("move-messages", "same-queue.json", 400, "SCHEMA_VIOLATION"),
    ("move-messages", "unknown-destination.json", 404, "QUEUE_NOT_FOUND"),
    ("move-messages", "max-out-of-range.json", 400, "SCHEMA_VIOLATION"),
    ("move-messages", "ibm-mq.json", 200, ""),
    ("depth", "other-queue.json", 200, ""),
    ("depth", "profile.json", 200, ""),
    ("depth", "unknown-queue.json", 404, "QUEUE_NOT_FOUND"),
    ("depth", "inline-not-allowed.json", 403, "TARGET_NOT_ALLOWED"),
    ("depth", "ibm-mq.json", 200, ""),
    ("depth", "gzip-body.json", 200, ""),
    ("depth", "no-target.json", 400, "SCHEMA_VIOLATION"),
    ("connection-test", "unreachable.json", 200, ""),
    ("connection-test", "profile.json", 200, ""),
    ("connection-test", "ibm-mq.json", 200, ""),
    ("connection-test", "wrong-password.json", 200, ""),
    ("product-ingest", "delta-array.json", 202, ""),
    ("product-ingest", "full-gzip-lines.json", 202, ""),
    ("product-ingest", "bad-items.json", 202, ""),
    ("product-ingest", "truncated-gzip.json", 400, "CONTENT_CORRUPT"),
    ("product-ingest", "mangled-gzip.json", 400, "CONTENT_CORRUPT"),
    ("product-ingest", "not-gzip.json", 400, "CONTENT_CORRUPT"),
    ("product-ingest", "empty.json", 400, "MALFORMED_JSON"),
    ("product-ingest", "no-api-key.json", 401, "API_KEY_REQUIRED"),
    ("product-ingest", "readonly-api-key.json", 403, "SCOPE_REQUIRED"),
    ("product-ingest", "no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("product-ingest", "expiry.json", 400, "IDEMPOTENCY_EXPIRY_OUT_OF_RANGE"),
    ("product-ingest", "no-load-type.json", 400, "LOAD_TYPE_REQUIRED"),
    ("product-ingest", "wrong-load-type.json", 400, "LOAD_TYPE_INVALID"),
    ("product-ingest", "csv.json", 415, "CONTENT_TYPE"),
    ("product-ingest", "brotli.json", 415, "CONTENT_ENCODING"),
    ("product-ingest", "upload.json", 201, ""),
    ("product-ingest", "upload-wrong-sha256.json", 400, "SCHEMA_VIOLATION"),
    ("product-ingest", "upload-too-large.json", 413, "MAX_PAYLOAD_EXCEEDED"),
    ("product-ingest", "upload-unknown-member.json", 400, "SCHEMA_VIOLATION"),
    ("batches", "list.json", 200, ""),
    ("batches", "list-full-failed.json", 200, ""),
    ("batches", "wrong-limit.json", 400, "INVALID_PARAMETER"),
    ("batches", "wrong-status.json", 400, "INVALID_PARAMETER"),
    ("batches", "wrong-cursor.json", 400, "INVALID_PARAMETER"),
    ("batches", "unknown-batch.json", 404, "BATCH_NOT_FOUND"),
    ("batches", "malformed-id.json", 400, "INVALID_PARAMETER"),
    ("batches", "errors-of-unknown-batch.json", 404, "BATCH_NOT_FOUND"),
    ("batches", "errors-file-of-unknown-batch.json", 404, "BATCH_NOT_FOUND"),
    ("batches", "no-api-key.json", 401, "API_KEY_REQUIRED"),
    ("batches", "replay-of-unknown-batch.json", 404, "BATCH_NOT_FOUND"),
    ("batches", "replay-no-key.json", 400, "IDEMPOTENCY_KEY_REQUIRED"),
    ("batches", "replay-unknown-scope.json", 400, "SCHEMA_VIOLATION"),
    ("batches", "replay-unknown-member.json", 400, "SCHEMA_VIOLATION"),
    ("batches", "replay-readonly-api-key.json", 403, "SCOPE_REQUIRED"),
];

#[tokio::test]
async fn every_sample_event_is_answered_as_its_name_says() {
    let gateway = Gateway::new();
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/../events");
    for folder in
        ["produce", "consume", "move-messages", "depth", "connection-test", "product-ingest", "batches"]
    {
        for entry in std::fs::read_dir(format!("{events}/{folder}")).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap();
            let event: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let answer = send(&gateway, &event).await;
            let reason = if answer.status < 300 { String::new() } else { answer.reason() };
            let expected = EXPECTED.iter().find(|expected| (expected.0, expected.1) == (folder, file));
            let Some((_, _, status, expected_reason)) = expected else {
                panic!("(\"{folder}\", \"{file}\", {}, \"{reason}\") is not in the list", answer.status)
            };
            assert_eq!((answer.status, reason.as_str()), (*status, *expected_reason), "{folder}/{file}");
        }
    }
}

/// Sends the request that an event tells of.
async fn send(gateway: &Gateway, event: &Value) -> end_to_end::Answer {
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
