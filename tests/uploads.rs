//! Tests of catalogues that a client uploads to a presigned URL.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Answer, Gateway, Ingest, Payloads, gzip};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::products::{Load, batch_id, catalogue, conforms};

pub(crate) const UPLOADS: &str = "/v1/inovafarma/products/uploads";

pub(crate) fn announced(bytes: &[u8]) -> Value {
    json!({
        "content_type": "application/json",
        "content_encoding": "gzip",
        "content_length": bytes.len(),
        "sha256": hex::encode(Sha256::digest(bytes)),
    })
}

async fn ask(key: Uuid, body: &Value) -> Answer {
    Load::new(key).body(body.to_string()).post(UPLOADS).await
}

/// Uploads bytes as the response `upload` says, with the headers in `changed` replaced. An empty
/// value removes a header. Returns the status and the body.
pub(crate) async fn put(upload: &Value, bytes: Vec<u8>, changed: &[(&str, &str)]) -> (StatusCode, String) {
    let upload = &upload["upload"];
    let headers = upload["headers"].as_object().unwrap();
    let mut headers: BTreeMap<&str, &str> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
    headers.extend(changed.iter().copied());
    // The client counts the bytes itself.
    headers.retain(|name, value| *name != "content-length" && !value.is_empty());
    let mut request = reqwest::Client::new().put(upload["url"].as_str().unwrap()).body(bytes);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = request.send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

#[tokio::test]
async fn an_upload_is_taken_once_and_as_announced() {
    let payloads = Payloads::open().await;
    let key = Uuid::new_v4();
    let bytes = gzip(&catalogue(&key.to_string()), 6);
    let body = announced(&bytes);
    let answer = ask(key, &body).await.expect(201);
    let upload = answer.json();
    conforms("ProductUpload", &upload);
    let id = batch_id(&answer);
    let headers = upload["upload"]["headers"].as_object().unwrap();
    assert!(
        headers.keys().all(|name| !name.contains("trace-id") || name.starts_with("x-amz-meta-")),
        "{headers:?}"
    );
    assert_eq!((&upload["status"], &upload["upload"]["method"]), (&json!("AWAITING_UPLOAD"), &json!("PUT")));
    assert_eq!(answer.header("location"), Some(format!("/v1/inovafarma/batches/{id}").as_str()));
    let batch = async || Gateway::new().get(&format!("/v1/inovafarma/batches/{id}")).await.expect(200).json();
    conforms("ProductBatch", &batch().await);
    assert_eq!(batch().await["status"], "AWAITING_UPLOAD");

    let other = vec![b'x'; bytes.len()];
    let checksum = STANDARD.encode(Sha256::digest(&other));
    for (what, bytes, changed) in [
        ("fewer bytes", bytes[..bytes.len() - 1].to_vec(), &[][..]),
        ("other bytes", other.clone(), &[]),
        ("other bytes with their checksum", other, &[("x-amz-checksum-sha256", checksum.as_str())]),
        ("another tenant", bytes.clone(), &[("x-amz-meta-tenant-id", end_to_end::KEY_B)]),
        ("another type", bytes.clone(), &[("content-type", "application/x-ndjson")]),
        ("over what is there", bytes.clone(), &[("if-none-match", "")]),
    ] {
        let (status, text) = put(&upload, bytes, changed).await;
        assert!(status.is_client_error(), "{what}: {status} {text}");
    }
    assert!(payloads.keys(&id).await.is_empty());

    let again = ask(key, &body).await.expect(201);
    assert_eq!(again.header("idempotent-replay"), Some("true"));
    assert_eq!((batch_id(&again), &again.json()["status"]), (id.clone(), &json!("AWAITING_UPLOAD")));
    let (status, text) = put(&again.json(), bytes.clone(), &[]).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let payload = payloads.only(&id).await;
    assert_eq!(payload.bytes, bytes);
    assert_eq!(
        (payload.metadata["batch-id"].as_str(), payload.metadata["load-type"].as_str()),
        (id.as_str(), "delta")
    );

    let (status, text) = put(&upload, bytes, &[]).await;
    assert_eq!(status, StatusCode::PRECONDITION_FAILED, "{text}");
    let there = ask(key, &body).await.expect(201).json();
    conforms("ProductUpload", &there);
    assert_eq!(there, json!({"batch_id": id, "status": "RECEIVED", "upload": null}));
}

#[tokio::test]
async fn an_upload_that_was_worked_on_is_not_offered_again_when_its_payload_is_gone() {
    let payloads = Payloads::open().await;
    let key = Uuid::new_v4();
    let bytes = gzip(&catalogue(&key.to_string()), 6);
    let body = announced(&bytes);
    let upload = ask(key, &body).await.expect(201).json();
    let (status, text) = put(&upload, bytes, &[]).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let id = upload["batch_id"].as_str().unwrap();
    assert_eq!(Ingest::new().finished(id).await["status"], "COMPLETED");
    for key in payloads.keys(id).await {
        payloads.remove(&key).await;
    }
    let again = ask(key, &body).await.expect(201);
    conforms("ProductUpload", &again.json());
    assert_eq!(again.json(), json!({"batch_id": id, "status": "RECEIVED", "upload": null}));
    assert_eq!(again.header("location"), Some(format!("/v1/inovafarma/batches/{id}").as_str()));
    assert_eq!(Ingest::new().get(id, "").await.expect(200).json()["status"], "COMPLETED");
}

#[tokio::test]
async fn a_url_is_of_its_time() {
    let bytes = gzip(&catalogue("late"), 6);
    let mut upload = ask(Uuid::new_v4(), &announced(&bytes)).await.expect(201).json();
    let url = upload["upload"]["url"].as_str().unwrap().to_owned();
    assert!(url.contains("X-Amz-Expires=900"), "{url}");
    // Nobody waits a quarter of an hour here; but neither its beginning nor its length can be
    // moved.
    upload["upload"]["url"] = url.replace("X-Amz-Expires=900", "X-Amz-Expires=90000").into();
    let (status, text) = put(&upload, bytes, &[]).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
}

#[tokio::test]
async fn announcements_that_are_wrong() {
    let right = announced(b"x");
    let with = |name: &str, value: Value| {
        let mut body = right.clone();
        body[name] = value;
        body
    };
    for (body, pointer) in [
        (with("content_type", json!("text/csv")), "/content_type"),
        (with("content_encoding", json!("br")), "/content_encoding"),
        (with("content_length", json!(0)), "/content_length"),
        (with("content_length", json!("17")), "/content_length"),
        (with("sha256", json!("ab")), "/sha256"),
        (with("sha526", json!("ab")), "/sha526"),
    ] {
        let problem = ask(Uuid::new_v4(), &body).await.expect_problem(400, "SCHEMA_VIOLATION").json();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
    ask(Uuid::new_v4(), &with("content_length", json!(200_000_001)))
        .await
        .expect_problem(413, "MAX_PAYLOAD_EXCEEDED");
    let key = Uuid::new_v4();
    ask(key, &right).await.expect(201);
    ask(key, &with("content_length", json!(2))).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    Load::new(key).send().await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    Load::new(key)
        .body(right.to_string())
        .with("x-inova-load-type", "full")
        .post(UPLOADS)
        .await
        .expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
}
