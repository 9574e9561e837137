//! Tests of the objects at a queue manager that a request may use in addition to its queue:
//! channels, logins and reply queues.

use end_to_end::{Access, Gateway, QueueManager, TENANT_A, targeted};
use serde_json::{Value, json};
use uuid::Uuid;

use super::texts;

/// Checks that a channel and a login are allowed or refused like a queue. The deployment's
/// allow-list has the local stack's channels at 127.0.0.1, and allows none of them without a login.
#[tokio::test]
async fn a_channel_and_a_login_are_allowed_or_not_as_a_queue_is() {
    let (gateway, manager, access) = (Gateway::new(), QueueManager::start(), Access::open().await);
    let inline = |change: &dyn Fn(&mut Value)| {
        let mut target = manager.target("DEV.QUEUE.1");
        change(&mut target);
        json!({ "target": target })
    };
    gateway.post("/queue/depth", &inline(&|_| ())).await.expect(200);
    let profile = access.profile_of(TENANT_A, &manager.target("DEV.QUEUE.1")).await;
    for refused in [
        inline(&|target| target["channel"] = json!("SYSTEM.ADMIN.SVRCONN")),
        inline(&|target| target["auth"] = Value::Null),
        inline(&|target| target["auth"] = json!({"user": "app"})),
        json!({"targetRef": profile, "target": {"channel": "SYSTEM.ADMIN.SVRCONN"}}),
    ] {
        for operation in targeted() {
            gateway.operate(operation, &refused).await.expect_problem(403, "TARGET_NOT_ALLOWED");
        }
    }
    // An operator's profile may rely on the channel's own user.
    let open = inline(&|target| target["auth"] = Value::Null)["target"].clone();
    let open = access.profile_of(TENANT_A, &open).await;
    gateway.post("/queue/depth", &json!({"targetRef": open})).await.expect(200);
}

/// Checks that a caller cannot fill the reply queue of a report unless it may name that queue. A
/// report can have the queue manager put the whole message there (MQRO_COA_WITH_FULL_DATA).
#[tokio::test]
async fn a_report_fills_no_queue_that_the_caller_may_not_name() {
    let (gateway, manager, access) = (Gateway::new(), QueueManager::start(), Access::open().await);
    // It spells the host as the allow-list does not, which would allow any queue.
    let mut target = manager.target("DEV.QUEUE.1");
    target["connName"] = json!(target["connName"].as_str().unwrap().replace("127.0.0.1", "127.1"));
    let profile = access.profile_with(TENANT_A, &target, json!({"queues": ["DEV.QUEUE.2"]})).await;
    let produce = async |of_all: Value, of_one: Value| {
        let mut body = texts(&["a", "b"]);
        body["messages"][1].as_object_mut().unwrap().extend(of_one.as_object().unwrap().clone());
        body["mqProps"] = of_all;
        body["targetRef"] = json!(profile);
        gateway.produce(Uuid::new_v4(), &body).await
    };
    let none = || json!({});
    for (report, allowed) in [
        (json!({"report": 1792, "replyTo": "DEV.QUEUE.2"}), true),
        (json!({"report": 1792, "replyTo": "DEV.QUEUE.1", "replyToQueueManager": manager.name}), true),
        (json!({"replyTo": "DEV.QUEUE.3", "replyToQueueManager": "QM9"}), true),
        (json!({"report": 64, "replyTo": "DEV.QUEUE.3"}), true),
        (json!({"report": 1792, "replyTo": "DEV.QUEUE.3"}), false),
        (json!({"report": 2_097_152, "replyTo": "DEV.QUEUE.3"}), false),
        (json!({"report": 1792, "replyTo": "DEV.QUEUE.2", "replyToQueueManager": "QM9"}), false),
    ] {
        for answer in [produce(report.clone(), none()).await, produce(none(), report.clone()).await] {
            if allowed {
                answer.expect(201);
            } else {
                let problem = answer.expect_problem(403, "TARGET_NOT_ALLOWED").json();
                assert!(problem["detail"].as_str().unwrap().contains("report"), "{problem}");
            }
        }
    }
    let mut test = json!({"targetRef": profile, "durationSeconds": 1});
    test["producers"] = json!({"ratePerSec": 1, "mqProps": {"report": 1792, "replyTo": "DEV.QUEUE.3"}});
    let refused = gateway.post_once("/tests", Uuid::new_v4(), &test).await;
    refused.expect_problem(403, "TARGET_NOT_ALLOWED");
    let away = produce(json!({"report": 1792, "replyTo": "a b"}), none()).await;
    let problem = away.expect_problem(400, "SCHEMA_VIOLATION").json();
    assert_eq!(problem["errors"][0]["pointer"], "/mqProps/replyTo");
}
