//! Tests of messages that are too large for a response. With `large: store` the gateway stores
//! their bodies in S3, where they can be downloaded as long as the response's record exists.

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::primitives::ByteStream;
use end_to_end::{Answer, Fact, Gateway, KEY_B, On, Queue, READONLY_KEY, Records, Site, TENANT_A, variable};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

end_to_end::on_both! {
    a_message_that_no_answer_can_carry_is_stored_and_what_lies_behind_it_comes_next,
    what_fits_is_answered_as_ever,
    a_rollback_stores_the_body_and_leaves_the_message,
    without_a_record_beforehand_nothing_is_stored,
    the_redirect_is_for_the_caller_alone_and_its_url_needs_no_key,
    nobody_else_gets_a_stored_body,
    a_stored_body_lives_as_long_as_its_record,
    a_stored_body_that_is_missing_is_an_error_and_not_a_redirect_to_nothing,
}

/// Returns a body of `bytes` bytes that is no text, so that a response has it only in base64.
fn large(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| u8::try_from(n % 251).unwrap() | 0x80).collect()
}

fn store(site: &Site, queue: &Queue) -> Value {
    site.request(queue, json!({"maxMessages": 10, "waitSeconds": 1, "large": "store"}))
}

/// Returns the only message of a consume's response, which must refer to `body` instead of
/// containing it.
fn stored(answer: &Answer, body: &[u8]) -> Value {
    let answer = answer.json();
    assert_eq!(answer["count"], 1, "{answer}");
    let message = answer["messages"][0].clone();
    assert!(message["bodyBase64"].is_null() && message.get("bodyText").is_none(), "{message}");
    assert_eq!(message["bodySize"], body.len());
    assert_eq!(message["bodySha256"], hex::encode(Sha256::digest(body)));
    message
}

fn path(message: &Value) -> String {
    message["bodyUrl"].as_str().unwrap().to_owned()
}

/// Consumes a message whose body is stored. Returns the idempotency key, and the path of the body's
/// URL.
async fn consumed(gateway: &Gateway, site: &Site) -> (Uuid, String) {
    let body = large(4_300_000);
    let (queue, key) = (site.queue_with([body.clone()]).await, Uuid::new_v4());
    let answer = gateway.consume(key, &store(site, &queue)).await.expect(200);
    site.delete(&queue).await;
    (key, path(&stored(&answer, &body)))
}

/// Downloads a stored body. The signed URL in the redirect needs no API key.
async fn downloaded(gateway: &Gateway, path: &str) -> Vec<u8> {
    let redirect = gateway.get(path).await.expect(303);
    let got = reqwest::get(redirect.header("location").unwrap()).await.unwrap();
    got.error_for_status().unwrap().bytes().await.unwrap().to_vec()
}

/// Returns the S3 key of the body that a consume with this idempotency key has stored. The prefix
/// is that of objects for a record that is kept for a day.
async fn object(s3: &aws_sdk_s3::Client, key: Uuid) -> String {
    let of = format!("results/2d/CONSUME/{TENANT_A}/{key}/");
    let listed = s3.list_objects_v2().bucket(variable("RESULTS_BUCKET")).prefix(of).send().await.unwrap();
    let [object] = listed.contents() else { panic!("one object of {key}: {:?}", listed.contents()) };
    object.key().unwrap().to_owned()
}

async fn a_message_that_no_answer_can_carry_is_stored_and_what_lies_behind_it_comes_next(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start_for_long_messages(on).await);
    let body = large(6_000_000);
    let queue = site.queue_with([b"first".to_vec(), body.clone(), b"last".to_vec()]).await;
    let before = gateway.consume(Uuid::new_v4(), &store(&site, &queue)).await.expect(200).json();
    assert_eq!((&before["count"], &before["truncated"]), (&json!(1), &json!(true)));
    assert_eq!(before["messages"][0]["bodyText"], "first");
    let refused = gateway.consume(Uuid::new_v4(), &site.request(&queue, json!({}))).await;
    refused.expect_problem(422, "MESSAGE_TOO_LARGE");
    site.ready_becomes(&queue, 2).await;

    let key = Uuid::new_v4();
    let answer = gateway.consume(key, &store(&site, &queue)).await.expect(200);
    let message = stored(&answer, &body);
    let redelivered = on.has(Fact::LooksRedeliver);
    assert_eq!((&answer.json()["truncated"], &message["redelivered"]), (&json!(true), &json!(redelivered)));
    assert_eq!(site.ready(&queue).await, 1, "it has left the queue");
    let got = downloaded(&gateway, &path(&message)).await;
    assert!(got == body, "{} bytes came", got.len());

    let replay = gateway.consume(key, &store(&site, &queue)).await.expect(200);
    assert_eq!((replay.header("idempotent-replay"), &replay.bytes), (Some("true"), &answer.bytes));
    let got = downloaded(&gateway, &path(&message)).await;
    assert!(got == body, "{} bytes came again", got.len());

    let after = gateway.consume(Uuid::new_v4(), &store(&site, &queue)).await.expect(200).json();
    assert_eq!((&after["count"], &after["truncated"]), (&json!(1), &json!(false)));
    assert_eq!(after["messages"][0]["bodyText"], "last");
    site.delete(&queue).await;
}

async fn what_fits_is_answered_as_ever(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue_with(["1", "2", "3"]).await;
    let answer = gateway.consume(Uuid::new_v4(), &store(&site, &queue)).await.expect(200).json();
    let texts = answer["messages"].as_array().unwrap().iter().map(|it| it["bodyText"].as_str().unwrap());
    assert_eq!(texts.collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(answer["truncated"], false);
    assert!(answer["messages"][0].get("bodyUrl").is_none());
    site.delete(&queue).await;
}

async fn a_rollback_stores_the_body_and_leaves_the_message(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start_for_long_messages(on).await);
    let body = large(4_300_000);
    let queue = site.queue_with([body.clone()]).await;
    let look = site.request(&queue, json!({"ack": "rollback", "waitSeconds": 0, "large": "store"}));
    let answer = gateway.consume(Uuid::new_v4(), &look).await.expect(200);
    let got = downloaded(&gateway, &path(&stored(&answer, &body))).await;
    assert!(got == body, "{} bytes came", got.len());
    site.ready_becomes(&queue, 1).await;
    site.delete(&queue).await;
}

async fn without_a_record_beforehand_nothing_is_stored(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue_with(["stays"]).await;
    for members in [json!({"large": "store", "ack": "none"}), json!({"large": "store", "browseOnly": true})] {
        let refused = gateway.consume(Uuid::new_v4(), &site.request(&queue, members)).await;
        let refused = refused.expect_problem(400, "SCHEMA_VIOLATION").json();
        assert_eq!(refused["errors"][0]["pointer"], "/large", "{refused}");
    }
    assert_eq!(site.ready(&queue).await, 1);
    site.delete(&queue).await;
}

async fn the_redirect_is_for_the_caller_alone_and_its_url_needs_no_key(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start_for_long_messages(on).await);
    let (_, path) = consumed(&gateway, &site).await;
    let redirect = gateway.get(&path).await.expect(303);
    let location = redirect.header("location").unwrap();
    assert_eq!(redirect.header("cache-control"), Some("no-store"));
    assert_eq!(redirect.json()["url"], location);
    let expires_at: jiff::Timestamp = redirect.json()["expiresAt"].as_str().unwrap().parse().unwrap();
    let valid = expires_at.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((200..=300).contains(&valid), "{valid} s");
    for part in ["X-Amz-Signature=", "X-Amz-Expires=300", "response-content-disposition=attachment"] {
        assert!(location.contains(part), "{part} is not in {location}");
    }
    assert!(location.contains("X-Amz-SignedHeaders=host&"), "the client has to send nothing: {location}");
    assert!(downloaded(&gateway, &path).await == large(4_300_000));
}

async fn nobody_else_gets_a_stored_body(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start_for_long_messages(on).await);
    let (key, path) = consumed(&gateway, &site).await;
    gateway.with_key(KEY_B).get(&path).await.expect_problem(404, "BODY_NOT_FOUND");
    gateway.with_key(READONLY_KEY).get(&path).await.expect_problem(403, "SCOPE_REQUIRED");
    gateway.with_key("nobody's").get(&path).await.expect_problem(401, "API_KEY_INVALID");
    for id in [
        Uuid::new_v4().to_string(),
        format!("{key}.{}.2", Uuid::nil()),
        format!("{}.{}.2", Uuid::new_v4(), Uuid::now_v7()),
        path.rsplit('/').next().unwrap().to_uppercase(),
        // Of the same record: of another life, and of another execution.
        format!("{}0", path.rsplit('/').next().unwrap()),
        format!("{key}.{}.2", Uuid::now_v7()),
        "other".to_owned(),
    ] {
        let other = gateway.get(&format!("/messages/bodies/{id}")).await;
        other.expect_problem(404, "BODY_NOT_FOUND");
    }
    gateway.send("POST", &path, &[], "").await.expect_problem(405, "METHOD_NOT_ALLOWED");
    gateway.get("/messages/bodies/").await.expect_problem(404, "ROUTE_NOT_FOUND");
}

async fn a_stored_body_lives_as_long_as_its_record(on: On) {
    let (gateway, site, records) =
        (Gateway::new(), Site::start_for_long_messages(on).await, Records::open().await);
    let (key, path) = consumed(&gateway, &site).await;
    let record = records.find("CONSUME", key).await.unwrap();
    let set = async |name: &str, value: &str| {
        records.set("CONSUME", key, &[(name, AttributeValue::S(value.to_owned()))]).await;
    };
    // Not known to be completed: it may be answered with all the same.
    set("status", "PREPARED").await;
    gateway.get(&path).await.expect(303);
    for (name, value) in [
        ("status", "FAILED"),
        ("expiresAt", "2026-01-01T00:00:00.000Z"),
        // The key began anew.
        ("createdAt", "2126-01-01T00:00:00.000Z"),
    ] {
        let before = record[name].as_s().unwrap().clone();
        set("status", "COMPLETED").await;
        set(name, value).await;
        gateway.get(&path).await.expect_problem(404, "BODY_NOT_FOUND");
        set(name, &before).await;
    }
    gateway.get(&path).await.expect(303);
}

async fn a_stored_body_that_is_missing_is_an_error_and_not_a_redirect_to_nothing(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start_for_long_messages(on).await);
    let (key, path) = consumed(&gateway, &site).await;
    let sdk = runtime::Sdk::from_environment().await;
    let s3 = aws_sdk_s3::Client::new(&sdk.objects());
    let (bucket, name) = (variable("RESULTS_BUCKET"), object(&s3, key).await);
    s3.delete_object().bucket(&bucket).key(&name).send().await.unwrap();
    gateway.get(&path).await.expect_problem(503, "STORE_UNAVAILABLE");
    gateway.get(&format!("{path}0")).await.expect_problem(404, "BODY_NOT_FOUND");
    let body = ByteStream::from_static(b"again");
    s3.put_object().bucket(&bucket).key(&name).body(body).send().await.unwrap();
    gateway.get(&path).await.expect(303);
}
