//! Tests of API keys and of the record of their last use, and of the targets that a tenant's keys
//! may see.

use end_to_end::{Access, Gateway, TENANT_A};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use uuid::Uuid;

const READ: &[&str] = &["mq:read"];

fn today() -> String {
    Timestamp::now().to_zoned(TimeZone::UTC).date().to_string()
}

/// Returns the targets that `GET /targets` shows to an API key.
async fn targets(api_key: &str) -> Vec<Value> {
    let answer = Gateway::new().with_key(api_key).get("/targets").await.expect(200);
    answer.json()["targets"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_day_of_a_key_s_use_is_noted_beside_its_item() {
    let access = Access::open().await;
    let api_key = access.key(TENANT_A, READ, json!({})).await;
    assert_eq!(access.last_used_on(&api_key).await, None);
    let (before, item) = (today(), access.key_item(&api_key).await);
    targets(&api_key).await;
    let noted = access.last_used_on(&api_key).await.unwrap();
    assert!((before..=today()).contains(&noted), "{noted}");
    // Versions without the day refuse a key's item with a member that they do not know.
    assert_eq!(access.key_item(&api_key).await, item);
    // A key that is refused was not used.
    let tenant = Uuid::new_v4().to_string();
    access.tenant(&tenant, json!({"enabled": false})).await;
    let disabled = access.key(TENANT_A, READ, json!({"disabled": true})).await;
    for api_key in [disabled, access.key(&tenant, READ, json!({})).await] {
        let refused = Gateway::new().with_key(&api_key).get("/targets").await;
        refused.expect_problem(401, "API_KEY_INVALID");
        assert_eq!(access.last_used_on(&api_key).await, None);
    }
}

#[tokio::test]
async fn two_keys_of_one_name_work_while_one_takes_the_place_of_the_other() {
    let access = Access::open().await;
    let rotated = json!({"name": "orders service", "expiresAt": "9999-01-01T00:00:00Z"});
    let old = access.key(TENANT_A, READ, rotated).await;
    let new = access.key(TENANT_A, READ, json!({"name": "orders service"})).await;
    for api_key in [old, new] {
        targets(&api_key).await;
    }
}

#[tokio::test]
async fn every_refusal_of_a_key_reads_the_same() {
    let access = Access::open().await;
    let tenant = Uuid::new_v4().to_string();
    access.tenant(&tenant, json!({"enabled": false})).await;
    let keys = [
        access.key(TENANT_A, READ, json!({"disabled": true})).await,
        access.key(TENANT_A, READ, json!({"expiresAt": "2026-01-01T00:00:00Z"})).await,
        access.key(TENANT_A, READ, json!({"version": 2, "later": true})).await,
        access.key(&tenant, READ, json!({})).await,
        // It would be the tenant `acme` with other profiles than its own.
        access.key("acme#eu", READ, json!({})).await,
        Uuid::new_v4().to_string(),
    ];
    let mut details = Vec::new();
    for api_key in keys {
        let answer = Gateway::new().with_key(&api_key).get("/targets").await;
        details.push(answer.expect_problem(401, "API_KEY_INVALID").json()["detail"].clone());
    }
    details.dedup();
    assert_eq!(details.len(), 1, "{details:?}");
}

#[tokio::test]
async fn a_tenant_is_shown_its_own_targets_without_hosts_and_secrets() {
    let access = Access::open().await;
    let [mine, theirs] = [(); 2].map(|()| Uuid::new_v4().to_string());
    let target = json!({
        "broker": "rabbitmq", "connName": "hidden.example:5671", "queue": "ORDERS",
        "auth": {"user": "hidden", "passwordRef": "secret://local/hidden"},
    });
    let orders = access.profile_with(&mine, &target, json!({"queues": ["ORDERS.*"]})).await;
    let manager = json!({"queueManager": "QM1", "channel": "C", "connName": "hidden.example:1414"});
    let stock = access.profile_with(&mine, &manager, json!({"queues": ["*"]})).await;
    let other = access.profile_of(&theirs, &target).await;
    let mut expected = vec![
        json!({"name": orders, "broker": "rabbitmq", "queueManager": "/", "queues": ["ORDERS", "ORDERS.*"]}),
        json!({"name": stock, "broker": "ibmmq", "queueManager": "QM1", "queues": ["*"]}),
    ];
    expected.sort_by_key(|target| target["name"].to_string());
    for scope in ["mq:read", "mq:write", "mq:admin"] {
        let shown = targets(&access.key(&mine, &[scope], json!({})).await).await;
        assert_eq!(shown, expected, "{scope}");
        assert!(!json!(shown).to_string().contains("hidden"), "{shown:?}");
    }
    let shown = targets(&access.key(&theirs, READ, json!({})).await).await;
    assert_eq!(shown.iter().map(|target| &target["name"]).collect::<Vec<_>>(), [&json!(other)]);
    assert_eq!(targets(&access.key(&Uuid::new_v4().to_string(), READ, json!({})).await).await, [""; 0]);
}

#[tokio::test]
async fn another_tenant_s_profile_is_none_of_the_caller_s() {
    let access = Access::open().await;
    let [mine, theirs] = [(); 2].map(|()| Uuid::new_v4().to_string());
    let target = json!({"broker": "rabbitmq", "connName": "127.0.0.1:1", "queue": "Q"});
    let name = access.profile_of(&theirs, &target).await;
    // As an item, it would be the profile `eu#orders` of the first tenant.
    access.put(&json!({"pk": format!("PROFILE#{mine}#eu#orders"), "target": target})).await;
    let gateway = Gateway::new().with_key(&access.key(&mine, READ, json!({})).await);
    for target_ref in [name.as_str(), "eu#orders", &format!("{theirs}#{name}"), &format!("#{name}")] {
        let answer = gateway.post("/queue/depth", &json!({"targetRef": target_ref})).await;
        answer.expect_problem(404, "TARGET_REF_NOT_FOUND");
    }
    assert_eq!(gateway.get("/targets").await.expect(200).json()["targets"], json!([]));
}
