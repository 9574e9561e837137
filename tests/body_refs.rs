//! Tests of message bodies that are too large for a request: a client uploads them to S3, and a
//! produce refers to them by `bodyRef`.

use std::collections::BTreeMap;
use std::time::Duration;

use end_to_end::{Fact, Gateway, KEY_A, KEY_B, On, READONLY_KEY, Site, TENANT_A, variable};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

const BODIES: &str = "/messages/bodies";
const LARGEST: usize = 32 * 1024 * 1024;

end_to_end::on_both! {
    uploaded_bodies_are_put_among_others_and_replayed,
    a_body_goes_in_by_reference_and_comes_out_stored_and_goes_in_again,
    an_upload_that_was_replaced_is_not_put_however_large_it_is,
    of_requests_at_once_one_puts_the_bodies,
    a_body_that_was_not_uploaded_is_named_and_nothing_is_put_until_it_is,
    an_upload_has_the_announced_bytes_or_is_none,
    the_bodies_of_a_request_have_a_bound_together,
}

/// Returns random bytes, for an upload that no other test has.
pub(crate) fn bytes(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::new();
    (0..length).map(|_| random.u8(..)).collect()
}

fn announced(bytes: &[u8]) -> Value {
    json!({"size": bytes.len(), "sha256": hex::encode(Sha256::digest(bytes))})
}

/// Uploads bytes to the signed URL in `answer`, with the headers that `answer` lists. Returns the
/// HTTP status.
async fn put(answer: &Value, bytes: Vec<u8>) -> u16 {
    put_without("", answer, bytes).await
}

async fn put_without(left_away: &str, answer: &Value, bytes: Vec<u8>) -> u16 {
    let headers: BTreeMap<String, String> =
        serde_json::from_value(answer["upload"]["headers"].clone()).unwrap();
    let mut request = reqwest::Client::new().put(answer["upload"]["url"].as_str().unwrap()).body(bytes);
    // The client counts the bytes itself.
    for (name, value) in headers.iter().filter(|(name, _)| *name != "content-length" && *name != left_away) {
        request = request.header(name, value);
    }
    request.send().await.unwrap().status().as_u16()
}

/// Uploads bytes, and returns the `bodyRef` by which a produce refers to them.
pub(crate) async fn uploaded(gateway: &Gateway, bytes: &[u8]) -> Value {
    let answer = gateway.post(BODIES, &announced(bytes)).await.expect(201).json();
    assert_eq!(put(&answer, bytes.to_vec()).await, 200);
    answer["bodyRef"].clone()
}

async fn uploaded_bodies_are_put_among_others_and_replayed(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start_for_long_messages(on).await);
    let queue = site.queue().await;
    let (large, small) = (bytes(9_000_000), bytes(1));
    let (first, second) = (uploaded(&gateway, &large).await, uploaded(&gateway, &small).await);
    let body = site.request(&queue, json!({"messages": [
        {"bodyText": "before"}, {"bodyRef": first, "appId": "shop"}, {"bodyRef": second}, {"bodyRef": second},
    ]}));
    let key = Uuid::new_v4();
    let answer = gateway.produce(key, &body).await.expect(201);
    assert_eq!((&answer.json()["enqueued"], &answer.json()["bytes"]), (&json!(4), &json!(9_000_008)));
    let replay = gateway.produce(key, &body).await.expect(201);
    assert_eq!((replay.header("idempotent-replay"), &replay.bytes), (Some("true"), &answer.bytes));
    let other = site.request(&queue, json!({"messages": [{"bodyRef": second}]}));
    gateway.produce(key, &other).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    let put = site.drain(&queue).await;
    let bodies: Vec<_> = put.iter().map(|message| message.body.clone()).collect();
    assert!(bodies == [b"before".to_vec(), large, small.clone(), small], "{} messages", bodies.len());
    let content_type = on.has(Fact::DefaultContentType).then_some("application/octet-stream");
    assert_eq!((put[1].content_type.as_deref(), put[1].app_id.as_deref()), (content_type, Some("shop")));
    site.delete(&queue).await;
}

/// Consumes one message whose body is too large for the response. Returns the message in the
/// response, and its body, downloaded from S3.
pub(crate) async fn stored(gateway: &Gateway, consume: &Value) -> (Value, Vec<u8>) {
    let answer = gateway.consume(Uuid::new_v4(), consume).await.expect(200).json();
    assert_eq!(answer["count"], 1, "{answer}");
    let message = answer["messages"][0].clone();
    let redirect = gateway.get(message["bodyUrl"].as_str().unwrap()).await.expect(303);
    let got = reqwest::get(redirect.header("location").unwrap()).await.unwrap().error_for_status().unwrap();
    (message, got.bytes().await.unwrap().to_vec())
}

async fn a_body_goes_in_by_reference_and_comes_out_stored_and_goes_in_again(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start_for_long_messages(on).await);
    let (queue, body) = (site.queue().await, bytes(24 * 1024 * 1024));
    let consume = site.request(&queue, json!({"waitSeconds": 5, "large": "store"}));
    let mut reference = uploaded(&gateway, &body).await;
    for _ in 0..2 {
        let produce = site.request(&queue, json!({"messages": [{"bodyRef": reference, "type": "film"}]}));
        gateway.produce(Uuid::new_v4(), &produce).await.expect(201);
        let (message, got) = stored(&gateway, &consume).await;
        assert!(got == body, "{} bytes came", got.len());
        assert_eq!((&message["bodySize"], &message["type"]), (&json!(body.len()), &json!("film")));
        // What comes out names what goes in.
        reference = message["bodySha256"].clone();
    }
    site.delete(&queue).await;
}

/// Checks that a produce refuses an uploaded body that was replaced in S3 afterwards. S3 checks the
/// digest of an upload, but a program that may write to the bucket can still replace it.
async fn an_upload_that_was_replaced_is_not_put_however_large_it_is(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(60));
    let s3 = aws_sdk_s3::Client::new(&sdk);
    for length in [10, LARGEST + 1] {
        let reference = uploaded(&gateway, &bytes(10)).await;
        let key = format!("uploads/{TENANT_A}/{}", reference.as_str().unwrap());
        let put = s3.put_object().bucket(variable("RESULTS_BUCKET")).key(key).body(bytes(length).into());
        put.send().await.unwrap();
        let produce = site.request(&queue, json!({"messages": [{"bodyRef": reference}]}));
        let refused = gateway.produce(Uuid::new_v4(), &produce).await.expect_problem(404, "BODY_NOT_FOUND");
        assert_eq!(refused.json()["errors"][0]["pointer"], "/messages/0/bodyRef", "{length}");
    }
    assert!(site.drain(&queue).await.is_empty());
    site.delete(&queue).await;
}

async fn of_requests_at_once_one_puts_the_bodies(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start_for_long_messages(on).await);
    let (queue, body) = (site.queue().await, bytes(9_000_000));
    let announced = announced(&body);
    let (one, other) = tokio::join!(gateway.post(BODIES, &announced), gateway.post(BODIES, &announced));
    let (one, other) = (one.expect(201).json(), other.expect(201).json());
    assert_eq!(tokio::join!(put(&one, body.clone()), put(&other, body.clone())), (200, 200));
    let (key, produce) = (
        Uuid::new_v4(),
        site.request(&queue, json!({"messages": [{"bodyRef": one["bodyRef"]}, {"bodyText": "last"}]})),
    );
    let answers = tokio::join!(gateway.produce(key, &produce), gateway.produce(key, &produce));
    let mut statuses = [answers.0.status, answers.1.status];
    statuses.sort_unstable();
    assert!(matches!(statuses, [201, 201 | 409]), "{statuses:?}");
    gateway.produce(key, &produce).await.expect(201);
    let put: Vec<_> = site.drain(&queue).await.into_iter().map(|message| message.body).collect();
    assert!(put == [body, b"last".to_vec()], "{} messages", put.len());
    site.delete(&queue).await;
}

async fn a_body_that_was_not_uploaded_is_named_and_nothing_is_put_until_it_is(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (queue, mine, key) = (site.queue().await, bytes(1_000), Uuid::new_v4());
    let body = site.request(
        &queue,
        json!({"messages": [
            {"bodyText": "first"}, {"bodyRef": hex::encode(Sha256::digest(&mine))},
        ]}),
    );
    let theirs = uploaded(&gateway.with_key(KEY_B), &mine).await;
    assert_eq!(theirs, body["messages"][1]["bodyRef"], "another tenant has the same bytes");
    for _ in 0..2 {
        let missing = gateway.produce(key, &body).await.expect_problem(404, "BODY_NOT_FOUND").json();
        assert_eq!(missing["errors"][0]["pointer"], "/messages/1/bodyRef", "{missing}");
    }
    assert_eq!(site.ready(&queue).await, 0);
    uploaded(&gateway, &mine).await;
    gateway.produce(key, &body).await.expect(201);
    assert_eq!(site.drain(&queue).await.len(), 2);
    site.delete(&queue).await;
}

async fn an_upload_has_the_announced_bytes_or_is_none(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let (queue, body) = (site.queue().await, bytes(1_000));
    let announced = gateway.post(BODIES, &announced(&body)).await.expect(201).json();
    let produce = site.request(&queue, json!({"messages": [{"bodyRef": announced["bodyRef"]}]}));
    let mut longer = body.clone();
    longer.push(0);
    for others in [bytes(1_000), longer, body[1..].to_vec(), Vec::new()] {
        let status = put(&announced, others).await;
        assert!((400..500).contains(&status), "{status}");
    }
    for header in ["x-amz-checksum-sha256", "content-type"] {
        let status = put_without(header, &announced, body.clone()).await;
        assert!((400..500).contains(&status), "{status} without {header}");
    }
    gateway.produce(Uuid::new_v4(), &produce).await.expect_problem(404, "BODY_NOT_FOUND");
    assert_eq!(put(&announced, body.clone()).await, 200);
    gateway.produce(Uuid::new_v4(), &produce).await.expect(201);
    assert!(site.drain(&queue).await[0].body == body);
    site.delete(&queue).await;
}

async fn the_bodies_of_a_request_have_a_bound_together(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start_for_long_messages(on).await);
    let queue = site.queue().await;
    let (most, one) = (bytes(LARGEST), bytes(1));
    let (most, one) = (uploaded(&gateway, &most).await, uploaded(&gateway, &one).await);
    let both = site.request(&queue, json!({"messages": [{"bodyRef": most}, {"bodyRef": one}]}));
    let refused = gateway.produce(Uuid::new_v4(), &both).await.expect_problem(413, "MAX_PAYLOAD_EXCEEDED");
    assert_eq!(refused.json()["errors"][0]["pointer"], "/messages/1/bodyRef");
    assert_eq!(site.ready(&queue).await, 0);
    let alone = site.request(&queue, json!({"messages": [{"bodyRef": most}]}));
    gateway.produce(Uuid::new_v4(), &alone).await.expect(201);
    assert_eq!(site.drain(&queue).await[0].body.len(), LARGEST);
    site.delete(&queue).await;
}

#[tokio::test]
async fn an_announcement_is_checked_and_signs_nothing_but_what_it_says() {
    let gateway = Gateway::new();
    let good = announced(b"good");
    for (body, pointer) in [
        (json!({"size": 0, "sha256": good["sha256"]}), "/size"),
        (json!({"size": LARGEST + 1, "sha256": good["sha256"]}), "/size"),
        (json!({"size": 4, "sha256": good["sha256"].as_str().unwrap().to_uppercase()}), "/sha256"),
        (json!({"size": 4, "sha256": good["sha256"], "more": 1}), "/more"),
    ] {
        let refused = gateway.post(BODIES, &body).await.expect_problem(400, "SCHEMA_VIOLATION").json();
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    let long = format!("{good}{}", " ".repeat(65_536));
    for (media_type, body, status, reason) in [
        ("text/plain", good.to_string(), 415, "CONTENT_TYPE"),
        ("application/json", long, 413, "MAX_PAYLOAD_EXCEEDED"),
        ("application/json", "{".to_owned(), 400, "MALFORMED_JSON"),
    ] {
        let headers = [("x-api-key", KEY_A), ("content-type", media_type)];
        gateway.send("POST", BODIES, &headers, body).await.expect_problem(status, reason);
    }
    gateway.with_key(READONLY_KEY).post(BODIES, &good).await.expect_problem(403, "SCOPE_REQUIRED");
    gateway.get(BODIES).await.expect_problem(405, "METHOD_NOT_ALLOWED");
    let answer = gateway.post(BODIES, &good).await.expect(201).json();
    let upload = &answer["upload"];
    assert_eq!((&answer["bodyRef"], &upload["method"]), (&good["sha256"], &json!("PUT")));
    assert_eq!(upload["headers"]["content-length"], "4");
    let url = upload["url"].as_str().unwrap();
    for signed in ["content-length", "content-type", "x-amz-checksum-sha256"] {
        assert!(url.contains(signed), "{signed} is not signed: {url}");
    }
    // Again, as after a failure: what is there is written again.
    for _ in 0..2 {
        assert_eq!(put(&answer, b"good".to_vec()).await, 200);
    }
}
