//! Tests of requests that must not start a load test or show one: they exceed a limit or a right,
//! or are about a test of another tenant.

use end_to_end::{Access, Gateway, KEY_A, LoadTests, On, READONLY_KEY};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{SCOPES, Stand};
use crate::products::conforms;

/// Returns the body of a load test whose broker does not exist, so that the test ends by itself.
fn nowhere() -> Value {
    json!({
        "target": {"broker": "rabbitmq", "queueManager": "/", "queue": "Q", "connName": "127.0.0.1:1",
            "auth": {"user": "u", "passwordRef": "secret://local/rabbit"}},
        "producers": {"ratePerSec": 1}, "durationSeconds": 1,
    })
}

async fn tenant(scopes: &[&str]) -> LoadTests {
    let tenant = Uuid::new_v4().to_string();
    let key = Access::open().await.key(&tenant, scopes, json!({})).await;
    LoadTests::new(Gateway::new().with_key(&key))
}

#[tokio::test]
async fn a_test_beyond_a_limit_is_refused_with_the_limit() {
    let stand = Stand::start(On::RabbitMq).await;
    let (workers, rate) = (json!({"count": 10_000}), json!({"ratePerSec": 1_000_000}));
    for (members, pointer) in [
        (json!({"producers": workers, "durationSeconds": 4}), "/producers/count"),
        (json!({"producers": {}, "consumers": workers, "durationSeconds": 4}), "/consumers/count"),
        (json!({"producers": {}, "durationSeconds": 604_800}), "/durationSeconds"),
        (json!({"producers": rate, "consumers": {}, "messages": 1_000_000_000_000_u64}), "/messages"),
        (json!({"producers": {}, "messages": 1_000_000_000_000_u64}), "/messages"),
        (json!({"producers": {}, "mode": "search", "durationSeconds": 604_800}), "/durationSeconds"),
    ] {
        let answer = stand.tests.start(Uuid::new_v4(), &stand.body(members.clone())).await;
        let problem = answer.expect_problem(422, "EXCEEDS_TEST_LIMIT").json();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{members}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains("a test may"), "{members}: {problem}");
    }
    let shown = stand.gateway.get("/tests").await.expect(200).json();
    assert_eq!((&shown["tests"], &shown["nextCursor"]), (&json!([]), &Value::Null));
    stand.end().await;
}

#[tokio::test]
async fn members_that_do_not_go_together_are_named() {
    let stand = Stand::start(On::RabbitMq).await;
    for (members, pointer) in [
        (json!({"durationSeconds": 4}), ""),
        (json!({"producers": {}}), ""),
        (json!({"producers": {}, "durationSeconds": 4, "messages": 5}), "/messages"),
        (json!({"producers": {}, "durationSeconds": 4, "warmUpSeconds": 4}), "/warmUpSeconds"),
        (json!({"consumers": {}, "durationSeconds": 4}), "/foreign"),
        (json!({"producers": {}, "durationSeconds": 4, "expect": {"lost": 0}}), "/expect/lost"),
        (json!({"producers": {"rate": 5}, "durationSeconds": 4}), "/producers/rate"),
    ] {
        let answer = stand.tests.start(Uuid::new_v4(), &stand.body(members.clone())).await;
        let problem = answer.expect_problem(400, "SCHEMA_VIOLATION").json();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{members}: {problem}");
    }
    stand.end().await;
}

/// Checks that a load test may use only queues that its profile allows: the profile's own queue,
/// and those that match its patterns.
#[tokio::test]
async fn each_queue_has_to_be_allowed() {
    let stand = Stand::start(On::RabbitMq).await;
    let mut target = stand.site.inline(&stand.queue);
    // The allow-list spells the host otherwise, and would allow any queue.
    target["connName"] = json!(target["connName"].as_str().unwrap().replace("127.0.0.1", "127.1"));
    let access = Access::open().await;
    let profile = access.profile_with(&stand.tenant, &target, json!({"queues": ["LOAD-1"]})).await;
    for (queue, queues) in [
        (json!("OTHER"), Value::Null),
        (Value::Null, json!("OTHER")),
        (Value::Null, json!({"pattern": "LOAD-%d", "from": 1, "to": 2})),
    ] {
        let body = json!({
            "targetRef": profile, "target": {"queue": queue}, "queues": queues,
            "producers": {"count": 2}, "durationSeconds": 4,
        });
        let answer = stand.tests.start(Uuid::new_v4(), &body).await;
        answer.expect_problem(403, "TARGET_NOT_ALLOWED");
    }
    let unknown = json!({"targetRef": "nowhere", "producers": {}, "durationSeconds": 4});
    stand.tests.start(Uuid::new_v4(), &unknown).await.expect_problem(404, "TARGET_REF_NOT_FOUND");
    stand.end().await;
}

#[tokio::test]
async fn a_start_or_a_stop_with_a_parameter_in_its_query_is_refused() {
    let key = Uuid::new_v4().to_string();
    let headers =
        [("x-api-key", KEY_A), ("idempotency-key", key.as_str()), ("content-type", "application/json")];
    let stop = format!("/tests/{}/stop?x=1", Uuid::now_v7());
    for (path, body) in [("/tests?x=1", nowhere().to_string()), (stop.as_str(), String::new())] {
        let answer = Gateway::new().send("POST", path, &headers, body).await;
        assert_eq!(answer.expect_problem(400, "INVALID_PARAMETER").json()["parameter"], "x", "{path}");
    }
}

#[tokio::test]
async fn a_test_takes_the_scope_of_administrators() {
    let writer = tenant(&["mq:read", "mq:write"]).await;
    let refused = writer.start(Uuid::new_v4(), &nowhere()).await.expect_problem(403, "SCOPE_REQUIRED");
    assert!(refused.json()["detail"].as_str().unwrap().contains("mq:admin"), "{refused:?}");
    let (reader, test_id) =
        (LoadTests::new(Gateway::new().with_key(READONLY_KEY)), Uuid::now_v7().to_string());
    reader.get(&test_id).await.expect_problem(403, "SCOPE_REQUIRED");
    reader.stop(&test_id, Uuid::new_v4()).await.expect_problem(403, "SCOPE_REQUIRED");
    reader.delete(&test_id).await.expect_problem(403, "SCOPE_REQUIRED");
}

#[tokio::test]
async fn another_tenant_sees_nothing_of_a_test() {
    let (owner, other) = (tenant(&SCOPES).await, tenant(&SCOPES).await);
    let test_id = owner.started(&nowhere()).await;
    let unknown = Uuid::now_v7().to_string();
    for id in [&test_id, &unknown] {
        other.get(id).await.expect_problem(404, "TEST_NOT_FOUND");
        other.stop(id, Uuid::new_v4()).await.expect_problem(404, "TEST_NOT_FOUND");
        other.delete(id).await.expect_problem(404, "TEST_NOT_FOUND");
    }
    let own = other.started(&nowhere()).await;
    owner.finished(&test_id).await;
    other.finished(&own).await;
    let path = format!("{}?baseline={test_id}", LoadTests::path(&own));
    let refused = other.at(&path).await.expect_problem(400, "INVALID_PARAMETER");
    assert_eq!(refused.json()["parameter"], "baseline", "{refused:?}");
    owner.delete(&test_id).await.expect(204);
}

#[tokio::test]
async fn the_tests_of_a_tenant_are_listed_by_page_the_newest_first() {
    let tests = tenant(&SCOPES).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.insert(0, tests.started(&nowhere()).await);
    }
    let mut listed = Vec::new();
    let mut path = "/tests?limit=2".to_owned();
    loop {
        let page = tests.at(&path).await.expect(200).json();
        conforms("LoadTestList", &page);
        let shown = page["tests"].as_array().unwrap();
        assert!(shown.len() <= 2, "{page}");
        listed.extend(shown.iter().map(|test| test["testId"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/tests?limit=2&cursor={cursor}");
    }
    assert_eq!(listed, ids);
    for query in ["limit=0", "limit=101", "limit=two", "cursor=-", "page=2"] {
        tests.at(&format!("/tests?{query}")).await.expect_problem(400, "INVALID_PARAMETER");
    }
    let path = LoadTests::path(&ids[0]);
    for query in ["format=pdf", "baseline=17", "page=2"] {
        tests.at(&format!("{path}?{query}")).await.expect_problem(400, "INVALID_PARAMETER");
    }
    tests.get("17").await.expect_problem(400, "INVALID_PARAMETER");
    for test_id in ids {
        tests.finished(&test_id).await;
        tests.delete(&test_id).await.expect(204);
    }
}
