//! Tests of profiles with a client channel definition table (`ccdtUrl`).

use end_to_end::{Access, Gateway, QueueManager, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{bodies, refused, taking, texts};

/// Returns `target` with the channel table at `url` in place of its channel and address.
fn by(url: &str, target: &Value) -> Value {
    let mut target = target.clone();
    let members = target.as_object_mut().unwrap();
    members.retain(|name, _| name != "channel" && name != "connName");
    members.insert("ccdtUrl".to_owned(), json!(url));
    target
}

fn on(profile: &str, mut members: Value) -> Value {
    members["targetRef"] = json!(profile);
    members
}

#[tokio::test]
async fn a_profile_may_name_a_table_of_channels() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let access = Access::open().await;
    let target = manager.target("DEV.QUEUE.1");
    let (host, port) = target["connName"].as_str().unwrap().rsplit_once(':').unwrap();
    let connection =
        |port: u16| json!({"connection": [{"host": host, "port": port}], "queueManager": manager.name});
    let table = tempfile::NamedTempFile::new().unwrap();
    let channels = json!({"channel": [
        {"name": "A.CHANNEL", "type": "clientConnection", "clientConnection": connection(9)},
        {"name": "DEV.APP.SVRCONN", "type": "clientConnection", "clientConnection": connection(port.parse().unwrap())},
    ]});
    std::fs::write(table.path(), channels.to_string()).unwrap();
    let url = format!("file://{}", table.path().display());
    let profile = access.profile_of(TENANT_A, &by(&url, &target)).await;

    let put = gateway.produce(Uuid::new_v4(), &on(&profile, texts(&["one", "two"]))).await.expect(201).json();
    assert_eq!((&put["enqueued"], manager.depth("DEV.QUEUE.1")), (&json!(2), 2));
    let got = gateway.consume(Uuid::new_v4(), &on(&profile, taking(json!({})))).await.expect(200).json();
    assert_eq!((bodies(&got), manager.depth("DEV.QUEUE.1")), (vec!["one", "two"], 0));
    let tested = gateway.post("/connections/test", &on(&profile, json!({}))).await.expect(200).json();
    assert_eq!(tested["ok"], true, "{tested}");
}

#[tokio::test]
async fn a_table_that_is_missing_or_does_not_name_the_queue_manager_is_said() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let access = Access::open().await;
    let table = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(table.path(), r#"{"channel": []}"#).unwrap();
    let empty = format!("file://{}", table.path().display());
    for (url, code) in [("file:///no/such/ccdt.json", 2600), (empty.as_str(), 2058)] {
        let target = by(url, &manager.target("DEV.QUEUE.1"));
        let profile = access.profile_of(TENANT_A, &target).await;
        let answer = gateway.produce(Uuid::new_v4(), &on(&profile, texts(&["one"]))).await;
        refused(answer, 502, "BROKER_REJECTED", code);
        let tested = gateway.post("/connections/test", &on(&profile, json!({}))).await.expect(200).json();
        let (resolve, connect) = (&tested["steps"][0], &tested["steps"][1]);
        assert_eq!((&resolve["skipped"], &connect["ok"]), (&json!(true), &json!(false)), "{tested}");
    }
    assert_eq!(manager.depth("DEV.QUEUE.1"), 0);
}
