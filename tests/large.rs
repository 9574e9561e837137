//! Messages that no answer can carry: with `large: store` their bodies are stored, and can be had
//! as long as the answer that names them.

use amqprs::{BasicProperties, FieldValue};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::primitives::ByteStream;
use end_to_end::{Answer, Broker, Gateway, KEY_B, Queue, READONLY_KEY, Records, TENANT_A, variable};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// No text: base64 alone exceeds an answer.
fn large(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| u8::try_from(n % 251).unwrap() | 0x80).collect()
}

async fn queue_with(broker: &Broker, bodies: &[&[u8]]) -> Queue {
    let queue = broker.queue().await;
    put(broker, &queue, bodies).await;
    queue
}

async fn put(broker: &Broker, queue: &Queue, bodies: &[&[u8]]) {
    for body in bodies {
        broker.publish(queue, BasicProperties::default(), body.to_vec()).await;
    }
    ready_becomes(broker, queue, bodies.len()).await;
}

async fn ready_becomes(broker: &Broker, queue: &Queue, expected: usize) {
    for _ in 0..200 {
        if broker.ready(queue).await == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(broker.ready(queue).await, expected);
}

fn store(queue: &Queue) -> Value {
    queue.request(json!({"maxMessages": 10, "waitSeconds": 1, "large": "store"}))
}

/// The only message of an answer, whose body is not in it.
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

/// A consumed message with a stored body: its key, and the body's path.
async fn consumed(gateway: &Gateway, broker: &Broker) -> (Uuid, String) {
    let body = large(4_300_000);
    let (queue, key) = (queue_with(broker, &[&body]).await, Uuid::new_v4());
    let answer = gateway.consume(key, &store(&queue)).await.expect(200);
    broker.delete(&queue).await;
    (key, path(&stored(&answer, &body)))
}

/// A stored body, as it is downloaded: the signed URL needs no API key.
async fn downloaded(gateway: &Gateway, path: &str) -> Vec<u8> {
    let redirect = gateway.get(path).await.expect(303);
    let got = reqwest::get(redirect.header("location").unwrap()).await.unwrap();
    got.error_for_status().unwrap().bytes().await.unwrap().to_vec()
}

/// The key of a stored body's object, which lives as long as a record of a day.
async fn object(s3: &aws_sdk_s3::Client, key: Uuid) -> String {
    let of = format!("results/2d/CONSUME/{TENANT_A}/{key}/");
    let listed = s3.list_objects_v2().bucket(variable("RESULTS_BUCKET")).prefix(of).send().await.unwrap();
    let [object] = listed.contents() else { panic!("one object of {key}: {:?}", listed.contents()) };
    object.key().unwrap().to_owned()
}

#[tokio::test]
async fn a_message_that_no_answer_can_carry_is_stored_and_what_lies_behind_it_comes_next() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let body = large(6_000_000);
    let queue = queue_with(&broker, &[b"first", &body, b"last"]).await;
    let before = gateway.consume(Uuid::new_v4(), &store(&queue)).await.expect(200).json();
    assert_eq!((&before["count"], &before["truncated"]), (&json!(1), &json!(true)));
    assert_eq!(before["messages"][0]["bodyText"], "first");
    let refused = gateway.consume(Uuid::new_v4(), &queue.target()).await;
    refused.expect_problem(422, "MESSAGE_TOO_LARGE");
    ready_becomes(&broker, &queue, 2).await;

    let key = Uuid::new_v4();
    let answer = gateway.consume(key, &store(&queue)).await.expect(200);
    let message = stored(&answer, &body);
    assert_eq!((&answer.json()["truncated"], &message["redelivered"]), (&json!(true), &json!(true)));
    assert_eq!(broker.ready(&queue).await, 1, "it has left the queue");
    let got = downloaded(&gateway, &path(&message)).await;
    assert!(got == body, "{} bytes came", got.len());

    let replay = gateway.consume(key, &store(&queue)).await.expect(200);
    assert_eq!((replay.header("idempotent-replay"), &replay.bytes), (Some("true"), &answer.bytes));
    let got = downloaded(&gateway, &path(&message)).await;
    assert!(got == body, "{} bytes came again", got.len());

    let after = gateway.consume(Uuid::new_v4(), &store(&queue)).await.expect(200).json();
    assert_eq!((&after["count"], &after["truncated"]), (&json!(1), &json!(false)));
    assert_eq!(after["messages"][0]["bodyText"], "last");
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_body_of_many_megabytes_is_stored_from_every_kind_of_queue() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let body = large(24 * 1024 * 1024);
    for kind in ["classic", "quorum"] {
        let queue = broker.queue_with(&[("x-queue-type", FieldValue::S(kind.try_into().unwrap()))]).await;
        put(&broker, &queue, &[&body]).await;
        let one = queue.request(json!({"waitSeconds": 5, "large": "store"}));
        let answer = gateway.consume(Uuid::new_v4(), &one).await.expect(200);
        let message = stored(&answer, &body);
        assert_eq!((&answer.json()["truncated"], &message["redelivered"]), (&json!(false), &json!(false)));
        let got = downloaded(&gateway, &path(&message)).await;
        assert!(got == body, "{kind}: {} bytes came", got.len());
        ready_becomes(&broker, &queue, 0).await;
        broker.delete(&queue).await;
    }
}

#[tokio::test]
async fn what_fits_is_answered_as_ever() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = queue_with(&broker, &[b"1", b"2", b"3"]).await;
    let answer = gateway.consume(Uuid::new_v4(), &store(&queue)).await.expect(200).json();
    let texts = answer["messages"].as_array().unwrap().iter().map(|it| it["bodyText"].as_str().unwrap());
    assert_eq!(texts.collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(answer["truncated"], false);
    assert!(answer["messages"][0].get("bodyUrl").is_none());
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_rollback_stores_the_body_and_leaves_the_message() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let body = large(4_300_000);
    let queue = queue_with(&broker, &[&body]).await;
    let look = queue.request(json!({"ack": "rollback", "waitSeconds": 0, "large": "store"}));
    let answer = gateway.consume(Uuid::new_v4(), &look).await.expect(200);
    let got = downloaded(&gateway, &path(&stored(&answer, &body))).await;
    assert!(got == body, "{} bytes came", got.len());
    ready_becomes(&broker, &queue, 1).await;
    broker.delete(&queue).await;
}

#[tokio::test]
async fn without_a_record_beforehand_nothing_is_stored() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = queue_with(&broker, &[b"stays"]).await;
    for members in [json!({"large": "store", "ack": "none"}), json!({"large": "store", "browseOnly": true})] {
        let refused = gateway.consume(Uuid::new_v4(), &queue.request(members)).await;
        let refused = refused.expect_problem(400, "SCHEMA_VIOLATION").json();
        assert_eq!(refused["errors"][0]["pointer"], "/large", "{refused}");
    }
    assert_eq!(broker.ready(&queue).await, 1);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn the_redirect_is_for_the_caller_alone_and_its_url_needs_no_key() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (_, path) = consumed(&gateway, &broker).await;
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

#[tokio::test]
async fn nobody_else_gets_a_stored_body() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (key, path) = consumed(&gateway, &broker).await;
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

#[tokio::test]
async fn a_stored_body_lives_as_long_as_its_record() {
    let (gateway, broker, records) = (Gateway::new(), Broker::connect().await, Records::open().await);
    let (key, path) = consumed(&gateway, &broker).await;
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

#[tokio::test]
async fn a_stored_body_that_is_missing_is_an_error_and_not_a_redirect_to_nothing() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let (key, path) = consumed(&gateway, &broker).await;
    let sdk = aws::Sdk::from_environment().await;
    let s3 = aws_sdk_s3::Client::new(&sdk.objects());
    let (bucket, name) = (variable("RESULTS_BUCKET"), object(&s3, key).await);
    s3.delete_object().bucket(&bucket).key(&name).send().await.unwrap();
    gateway.get(&path).await.expect_problem(503, "STORE_UNAVAILABLE");
    gateway.get(&format!("{path}0")).await.expect_problem(404, "BODY_NOT_FOUND");
    let body = ByteStream::from_static(b"again");
    s3.put_object().bucket(&bucket).key(&name).body(body).send().await.unwrap();
    gateway.get(&path).await.expect(303);
}
