//! Tests that a retry is answered, not executed, and that another body under its key is refused.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{Answer, Broker, Fact, Gateway, KEY_B, On, Records, Site};
use futures_util::future::join_all;
use runtime::metrics;
use serde_json::json;
use uuid::Uuid;

use crate::alarms::Emitted;

const PRODUCE: &str = "/messages/produce";

end_to_end::on_both! {
    fifty_identical_requests_at_once_run_once,
    of_two_bodies_under_one_key_one_wins_and_the_other_is_always_refused,
    a_replay_is_the_first_response_byte_for_byte,
    a_consume_is_replayed_with_its_messages,
    a_result_of_megabytes_is_replayed_byte_for_byte,
    tenants_and_operations_do_not_share_keys,
    after_its_retention_a_key_is_new,
    the_record_has_the_documented_attributes,
    a_running_execution_answers_409_until_its_lease_is_over,
    a_prepared_consume_answers_with_what_is_stored_and_says_that_it_is_in_doubt,
}

fn counted(answers: &[Answer]) -> BTreeMap<(u16, bool, String), usize> {
    let mut counts = BTreeMap::new();
    for answer in answers {
        let replayed = answer.header("idempotent-replay") == Some("true");
        let reason = if answer.status < 300 { String::new() } else { answer.reason() };
        *counts.entry((answer.status, replayed, reason)).or_default() += 1;
    }
    counts
}

async fn fifty_identical_requests_at_once_run_once(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    let body = broker.request(&queue, json!({"batch": {"count": 10}}));
    let answers = join_all((0..50).map(|_| gateway.produce(key, &body))).await;
    let counts = counted(&answers);
    let executed = counts.get(&(201, false, String::new())).copied().unwrap_or_default();
    let replayed = counts.get(&(201, true, String::new())).copied().unwrap_or_default();
    let refused =
        counts.get(&(409, false, "IDEMPOTENT_REQUEST_IN_PROGRESS".to_owned())).copied().unwrap_or_default();
    assert_eq!((executed, executed + replayed + refused), (1, 50), "{counts:?}");
    assert!(
        answers
            .iter()
            .filter(|answer| answer.status == 409)
            .all(|answer| answer.header("retry-after").is_some())
    );
    assert_eq!(broker.drain(&queue).await.len(), 10);
    broker.delete(&queue).await;
}

async fn of_two_bodies_under_one_key_one_wins_and_the_other_is_always_refused(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    let bodies = [
        broker.request(&queue, json!({"batch": {"count": 3}})),
        broker.request(&queue, json!({"batch": {"count": 5}})),
    ];
    let answers = join_all((0..50).map(|n| gateway.produce(key, &bodies[n % 2]))).await;
    let conflicts = |side: usize| {
        let of_side = answers.iter().skip(side).step_by(2);
        of_side
            .filter(|answer| answer.status == 409 && answer.reason() == "CONFLICTING_IDEMPOTENT_REQUEST")
            .count()
    };
    let (even, odd) = (conflicts(0), conflicts(1));
    assert!(
        (even, odd) == (25, 0) || (even, odd) == (0, 25),
        "{even} and {odd} of 25: {:?}",
        counted(&answers)
    );
    assert!(answers.iter().all(|answer| answer.status < 500), "{:?}", counted(&answers));
    assert_eq!(broker.drain(&queue).await.len(), if even == 0 { 3 } else { 5 });
    broker.delete(&queue).await;
}

async fn a_replay_is_the_first_response_byte_for_byte(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    let target = broker.request(&queue, json!({}));
    let first = gateway.produce(key, &target).await.expect(201);
    let again = gateway.produce(key, &target).await.expect(201);
    assert_eq!(first.bytes, again.bytes);
    for name in ["content-type", "content-digest", "idempotency-key"] {
        assert_eq!(first.header(name), again.header(name), "{name}");
    }
    assert_eq!((first.header("idempotent-replay"), again.header("idempotent-replay")), (None, Some("true")));
    assert!(again.header("last-modified").unwrap().ends_with(" GMT"));
    assert_ne!(first.header("x-trace-id"), again.header("x-trace-id"));
    assert_eq!(broker.drain(&queue).await.len(), 1);
    broker.delete(&queue).await;
}

async fn a_consume_is_replayed_with_its_messages(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    gateway
        .produce(Uuid::new_v4(), &broker.request(&queue, json!({"batch": {"count": 4}})))
        .await
        .expect(201);
    let body = broker.request(&queue, json!({"maxMessages": 3}));
    let first = gateway.consume(key, &body).await.expect(200);
    let again = gateway.consume(key, &body).await.expect(200);
    assert_eq!(first.bytes, again.bytes);
    assert_eq!(again.header("idempotent-replay"), Some("true"));
    assert_eq!(broker.ready(&queue).await, 1);
    broker.delete(&queue).await;
}

async fn a_result_of_megabytes_is_replayed_byte_for_byte(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    let megabytes = json!({"batch": {"count": 35, "messageSizeBytes": 100_000}});
    gateway.produce(Uuid::new_v4(), &broker.request(&queue, megabytes)).await.expect(201);
    let body = broker.request(&queue, json!({"maxMessages": 100}));
    let first = gateway.consume(key, &body).await.expect(200);
    assert_eq!(
        (first.json()["count"].as_u64(), first.json()["truncated"].as_bool()),
        (Some(35), Some(false))
    );
    let again = gateway.consume(key, &body).await.expect(200);
    assert!(first.bytes == again.bytes && again.header("idempotent-replay") == Some("true"));
    let record = Records::open().await.find("CONSUME", key).await.unwrap();
    assert!(record["responseLocation"].as_s().unwrap().starts_with("results/"));
    assert_eq!(broker.ready(&queue).await, 0);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_key_that_is_tried_with_other_bodies_too_often_is_refused_for_a_while() {
    let (gateway, broker, key) = (Gateway::new(), Broker::connect().await, Uuid::new_v4());
    let (emitted, queue) = (Emitted::from_now(), broker.queue().await);
    gateway.produce(key, &queue.target()).await.expect(201);
    // The limit is 100 a minute, and 300 requests exceed it by ten unless they take three minutes.
    let (mut counts, mut refusals) = (BTreeMap::<_, usize>::new(), 0);
    for wave in 0..30 {
        let bodies: Vec<_> =
            (0..10).map(|n| queue.request(json!({"batch": {"count": 2 + wave * 10 + n}}))).collect();
        let answers = join_all(bodies.iter().map(|body| gateway.produce(key, body))).await;
        for (count, n) in counted(&answers) {
            *counts.entry(count).or_default() += n;
        }
        if let Some(refused) = answers.iter().find(|answer| answer.status == 429) {
            let refused = refused.clone().expect_problem(429, "KEY_REUSE_ABUSE");
            let retry_after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&retry_after), "{retry_after}");
        }
        refusals = counts.get(&(429, false, "KEY_REUSE_ABUSE".to_owned())).copied().unwrap_or_default();
        if refusals >= 10 {
            break;
        }
    }
    let conflicts =
        counts.get(&(409, false, "CONFLICTING_IDEMPOTENT_REQUEST".to_owned())).copied().unwrap_or_default();
    assert!(refusals >= 10 && conflicts >= 100, "{counts:?}");
    emitted.reach("KeyAbuse", metrics::IDEMPOTENCY_KEY_REUSE_ABUSE, &[key]).await;
    gateway.produce(key, &queue.target()).await.expect(201);
    gateway.produce(Uuid::new_v4(), &queue.target()).await.expect(201);
    assert_eq!(broker.drain(&queue).await.len(), 2);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn spelling_does_not_make_another_request_but_null_does() {
    let (gateway, broker, key) = (Gateway::new(), Broker::connect().await, Uuid::new_v4());
    let queue = broker.queue().await;
    let headers = |key: String| {
        [
            ("x-api-key".to_owned(), "local-dev-key-a".to_owned()),
            ("content-type".to_owned(), "application/json".to_owned()),
            ("idempotency-key".to_owned(), key),
        ]
    };
    let send = async |key: String, body: String| {
        let headers = headers(key);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        gateway.send("POST", PRODUCE, &headers, body).await
    };
    let name = &queue.name;
    let first =
        format!(r#"{{"targetRef":"local-rabbit","target":{{"queue":"{name}"}},"batch":{{"count":2}}}}"#);
    let spelled = format!(
        "{{ \"batch\": {{\"count\": 2.0}},\n \"target\": {{\"queue\":\"{name}\"}}, \"targetRef\": \"local\\u002drabbit\" }}"
    );
    let with_null = format!(
        r#"{{"targetRef":"local-rabbit","target":{{"queue":"{name}"}},"batch":{{"count":2,"rateLimitPerSec":null}}}}"#
    );
    send(key.to_string(), first).await.expect(201);
    let replay = send(format!("\"{}\"", key.to_string().to_uppercase()), spelled).await.expect(201);
    assert_eq!(replay.header("idempotent-replay"), Some("true"));
    assert_eq!(
        replay.header("idempotency-key"),
        Some(format!("\"{}\"", key.to_string().to_uppercase()).as_str())
    );
    send(key.to_string(), with_null).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    assert_eq!(broker.drain(&queue).await.len(), 2);
    broker.delete(&queue).await;
}

async fn tenants_and_operations_do_not_share_keys(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    let target = broker.request(&queue, json!({}));
    gateway.produce(key, &target).await.expect(201);
    let other = gateway.with_key(KEY_B).produce(key, &target).await.expect(201);
    assert_eq!(other.header("idempotent-replay"), None);
    let consumed = gateway.consume(key, &target).await.expect(200);
    assert_eq!(consumed.json()["count"], 1);
    assert_eq!(broker.drain(&queue).await.len(), 1);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn what_had_no_effect_runs_again() {
    let (gateway, broker, key) = (Gateway::new(), Broker::connect().await, Uuid::new_v4());
    let queue = end_to_end::Queue { name: format!("test.{}", Uuid::new_v4()) };
    let body = queue.request(json!({"batch": {"count": 2}}));
    gateway.produce(key, &body).await.expect_problem(404, "QUEUE_NOT_FOUND");
    gateway
        .produce(key, &queue.request(json!({"batch": {"count": 3}})))
        .await
        .expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    broker.declare(&queue.name, &[]).await;
    let answer = gateway.produce(key, &body).await.expect(201);
    assert_eq!(answer.header("idempotent-replay"), None);
    assert_eq!(broker.drain(&queue).await.len(), 2);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn the_record_of_a_request_tells_its_own_tenant_what_happened() {
    let (gateway, broker, key) = (Gateway::new(), Broker::connect().await, Uuid::new_v4());
    let path = format!("/v1/requests/produce/{key}");
    gateway.get(&path).await.expect_problem(404, "REQUEST_NOT_FOUND");
    let queue = end_to_end::Queue { name: format!("test.{}", Uuid::new_v4()) };
    let body = queue.request(json!({"batch": {"count": 2}}));
    let failed = gateway.produce(key, &body).await.expect_problem(404, "QUEUE_NOT_FOUND");
    let told = gateway.get(&path).await.expect(200).json();
    assert_eq!((&told["status"], &told["reason"]), (&json!("FAILED"), &json!("QUEUE_NOT_FOUND")));
    assert_eq!((&told["attempts"], &told["httpStatus"]), (&json!(1), &json!(null)));
    broker.declare(&queue.name, &[]).await;
    let done = gateway.produce(key, &body).await.expect(201);
    let told = gateway.get(&path).await.expect(200).json();
    assert_eq!((&told["operation"], &told["idempotencyKey"]), (&json!("produce"), &json!(key.to_string())));
    assert_eq!((&told["status"], &told["httpStatus"]), (&json!("COMPLETED"), &json!(201)));
    assert_eq!((&told["attempts"], &told["reason"]), (&json!(2), &json!(null)));
    assert_eq!((&told["messages"], told["bytes"].as_u64() > Some(0)), (&json!(2), true));
    assert_eq!(told["progress"]["done"], 2, "{told}");
    let traces = json!([failed.header("x-trace-id"), done.header("x-trace-id")]);
    assert_eq!((&told["traceIds"], told["endedAt"].is_string()), (&traces, true));
    gateway.with_key(KEY_B).get(&path).await.expect_problem(404, "REQUEST_NOT_FOUND");
    gateway.get(&format!("/v1/requests/consume/{key}")).await.expect_problem(404, "REQUEST_NOT_FOUND");
    gateway.get(&format!("/v1/requests/put/{key}")).await.expect_problem(400, "INVALID_PARAMETER");
    gateway.get(&format!("{path}?verbose=1")).await.expect_problem(400, "INVALID_PARAMETER");

    let records = Records::open().await;
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let left =
        [("done", AttributeValue::N("5".to_owned())), ("inDoubt", AttributeValue::N(u64::MAX.to_string()))];
    let left = left.map(|(name, value)| (name.to_owned(), value));
    let open = [
        ("status", text("IN_PROGRESS")),
        ("leaseExpiresAt", AttributeValue::N("4102444800000".to_owned())),
        ("leftBehind", AttributeValue::L(vec![AttributeValue::M(left.into())])),
    ];
    records.set("PRODUCE", key, &open).await;
    let told = gateway.get(&path).await.expect(200).json();
    assert_eq!((&told["endedAt"], &told["leaseEndsAt"]), (&json!(null), &json!("2100-01-01T00:00:00Z")));
    let left = json!([{"place": null, "done": 5, "inDoubt": null}]);
    assert_eq!(told["progress"]["leftBehind"], left);
    records.set("PRODUCE", key, &[("status", text("PREPARED"))]).await;
    assert_eq!(gateway.get(&path).await.expect(200).json()["status"], "PREPARED");
    records.set("PRODUCE", key, &[("status", text("LOST"))]).await;
    gateway.get(&path).await.expect_problem(503, "STORE_UNAVAILABLE");
    broker.drain(&queue).await;
    broker.delete(&queue).await;
}

async fn after_its_retention_a_key_is_new(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    let target = broker.request(&queue, json!({}));
    let key_text = key.to_string();
    let headers = [("idempotency-key", key_text.as_str()), ("idempotency-expiry-seconds", "7200")];
    gateway.post_with(PRODUCE, &headers, &target).await.expect(201);
    let again = gateway.post_with(PRODUCE, &headers, &target).await.expect(201);
    assert_eq!(again.header("idempotent-replay"), Some("true"));
    let records = Records::open().await;
    let record = records.find("PRODUCE", key).await.unwrap();
    let time = |name: &str| record[name].as_s().unwrap().parse::<jiff::Timestamp>().unwrap();
    let kept = time("expiresAt").duration_since(time("createdAt"));
    assert!((7_190..=7_260).contains(&kept.as_secs()), "{kept:?}");
    // Expired, as after two hours.
    let past = AttributeValue::S("2020-01-01T00:00:00.000Z".to_owned());
    records.set("PRODUCE", key, &[("expiresAt", past)]).await;
    let other = broker.request(&queue, json!({"batch": {"count": 2}}));
    let anew = gateway.post_with(PRODUCE, &headers, &other).await.expect(201);
    assert_eq!(anew.header("idempotent-replay"), None);
    assert_eq!(broker.drain(&queue).await.len(), 3);
    broker.delete(&queue).await;
}

async fn the_record_has_the_documented_attributes(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    let target = broker.request(&queue, json!({}));
    let answer = gateway.produce(key, &target).await.expect(201);
    let records = Records::open().await;
    let record = records.find("PRODUCE", key).await.unwrap();
    let text = |name: &str| record.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
    let number =
        |name: &str| record.get(name).and_then(|value| value.as_n().ok()).and_then(|n| n.parse::<i64>().ok());
    assert_eq!((text("status").as_str(), text("operationType").as_str()), ("COMPLETED", "PRODUCE"));
    assert_eq!((text("idempotencyKey"), text("tenantId").as_str()), (key.to_string(), end_to_end::TENANT_A));
    assert_eq!(text("target"), broker.shown(&queue));
    assert!(records.of_target(&text("target")).await.contains(&text("pk")));
    assert_eq!(text("responsePayload").into_bytes(), answer.bytes);
    assert_eq!(Some(text("responseDigest").as_str()), answer.header("content-digest"));
    assert_eq!(Some(text("traceId").as_str()), answer.header("x-trace-id"));
    assert_eq!(text("requestHash").len(), 64);
    assert_eq!(
        (number("httpStatus"), number("attempt"), number("leaseExpiresAt")),
        (Some(201), Some(1), Some(0))
    );
    assert!(number("durationMs").is_some() && !text("owner").is_empty());
    assert!(!text("keyName").is_empty(), "usage is counted by it");
    let volume = (number("messages"), number("bytes"));
    assert_eq!(volume, (Some(1), answer.json()["bytes"].as_i64()));
    for time in ["createdAt", "updatedAt", "expiresAt"] {
        assert!(text(time).ends_with('Z') && text(time).len() == "2026-01-01T00:00:00.000Z".len(), "{time}");
    }
    let retention = number("ttl").unwrap()
        - i64::try_from(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(),
        )
        .unwrap();
    assert!((86_300..=86_402).contains(&retention), "{retention}");
    broker.delete(&queue).await;
}

async fn a_running_execution_answers_409_until_its_lease_is_over(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    let target = broker.request(&queue, json!({}));
    gateway.produce(key, &target).await.expect(201);
    let records = Records::open().await;
    let now = i64::try_from(
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis(),
    )
    .unwrap();
    let crashed = |lease: i64| {
        [
            ("status", AttributeValue::S("IN_PROGRESS".to_owned())),
            ("leaseExpiresAt", AttributeValue::N(lease.to_string())),
        ]
    };
    records.set("PRODUCE", key, &crashed(now + 20_000)).await;
    let refused = gateway.produce(key, &target).await.expect_problem(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
    let retry_after: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((10..=20).contains(&retry_after), "{retry_after}");
    let other = broker.request(&queue, json!({"batch": {"count": 2}}));
    gateway.produce(key, &other).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    records.set("PRODUCE", key, &crashed(now - 1)).await;
    let taken_over = gateway.produce(key, &target).await.expect(201);
    let twice = if on.has(Fact::FoundPuts) { 0 } else { 1 };
    assert_eq!(
        (taken_over.header("idempotent-replay"), taken_over.json()["possibleDuplicates"].as_u64()),
        (None, Some(twice))
    );
    assert_eq!(broker.drain(&queue).await.len(), 1 + usize::try_from(twice).unwrap());
    broker.delete(&queue).await;
}

async fn a_prepared_consume_answers_with_what_is_stored_and_says_that_it_is_in_doubt(on: On) {
    let (gateway, broker, key) = (Gateway::new(), Site::start(on).await, Uuid::new_v4());
    let queue = broker.queue().await;
    let target = broker.request(&queue, json!({}));
    gateway.produce(Uuid::new_v4(), &target).await.expect(201);
    let first = gateway.consume(key, &target).await.expect(200).json();
    let prepared = [
        ("status", AttributeValue::S("PREPARED".to_owned())),
        ("leaseExpiresAt", AttributeValue::N("1".to_owned())),
    ];
    Records::open().await.set("CONSUME", key, &prepared).await;
    let answer = gateway.consume(key, &target).await.expect(200);
    let doubtful = answer.json();
    assert_eq!((&doubtful["deliveryInDoubt"], &doubtful["messages"]), (&json!(true), &first["messages"]));
    let replay = gateway.consume(key, &target).await.expect(200);
    assert_eq!((replay.bytes, replay.headers.get("idempotent-replay").is_some()), (answer.bytes, true));
    broker.delete(&queue).await;
}
