//! Tests of the gateway on IBM MQ, with the stand-in's client library and queue managers.

mod bodies;
mod certainty;
mod conversion;
mod faults;
mod interoperation;
mod key_repositories;
mod members;
mod rights;
mod tables;

use end_to_end::{Access, Answer, Gateway, QueueManager, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns the members of a produce of messages with these texts.
fn texts(bodies: &[&str]) -> Value {
    let messages: Vec<_> = bodies.iter().map(|body| json!({"bodyText": body})).collect();
    json!({ "messages": messages })
}

fn bodies(answer: &Value) -> Vec<&str> {
    let messages = answer["messages"].as_array().unwrap().iter();
    messages.map(|message| message["bodyText"].as_str().unwrap_or_default()).collect()
}

/// Returns the members that the consumes of these tests have in common, changed by `more`.
fn taking(more: Value) -> Value {
    let mut members = json!({"maxMessages": 100, "waitSeconds": 0});
    let Value::Object(more) = more else { panic!("members are an object") };
    members.as_object_mut().unwrap().extend(more);
    members
}

async fn put(gateway: &Gateway, manager: &QueueManager, queue: &str, members: Value) -> Value {
    gateway.produce(Uuid::new_v4(), &manager.request(queue, members)).await.expect(201).json()
}

async fn take(gateway: &Gateway, manager: &QueueManager, queue: &str, members: Value) -> Value {
    let body = manager.request(queue, taking(members));
    gateway.consume(Uuid::new_v4(), &body).await.expect(200).json()
}

#[track_caller]
fn refused(answer: Answer, status: u16, reason: &str, code: u16) {
    let problem = answer.expect_problem(status, reason).json();
    assert_eq!((&problem["broker"]["product"], &problem["broker"]["code"]), (&json!("IBM MQ"), &json!(code)));
}

/// Checks the requests of the specification, with `localhost` in place of its host `mq.host`, which
/// does not exist here.
#[tokio::test]
async fn the_requests_of_the_specification_work_with_the_name_of_a_host() {
    let gateway = Gateway::new();
    let produce = json!({
        "target": {
            "queueManager": "QM1", "queue": "DEV.QUEUE.1", "channel": "DEV.APP.SVRCONN",
            "connName": "localhost:1414", "ccdtUrl": null, "ssl": {"enabled": false},
            "auth": {"user": "app", "passwordRef": "secret://mq/app"}
        },
        "batch": {
            "count": 1000, "messageSizeBytes": 2048, "rateLimitPerSec": null,
            "transaction": {"enabled": true, "txSize": 100}
        },
        "payload": {"mode": "random"},
        "mqProps": {"persistence": "persistent", "priority": 0, "expiryMs": 0, "correlIdMode": "none"},
        "headers": {"k1": "v1"}
    });
    let target = json!({
        "queueManager": "QM1", "queue": "DEV.QUEUE.1", "channel": "DEV.APP.SVRCONN", "connName": "localhost:1414"
    });
    let consume = json!({
        "target": target, "maxMessages": 500, "waitSeconds": 20, "browseOnly": false,
        "selector": {"correlIdBase64": null, "msgIdBase64": null},
        "transaction": {"enabled": true, "txSize": 100}, "ack": "commit"
    });
    let depth = json!({ "target": target });
    // The samples of the documentation leave messages there.
    let rest = json!({"target": target, "maxMessages": 500, "waitSeconds": 0, "ack": "commit"});
    while gateway.consume(Uuid::new_v4(), &rest).await.expect(200).json()["count"] != 0 {}
    let key = Uuid::new_v4();
    let first = gateway.produce(key, &produce).await.expect(201);
    let answer = first.json();
    assert_eq!(
        (
            &answer["target"],
            &answer["enqueued"],
            &answer["transactions"],
            &answer["atomic"],
            &answer["bytes"]
        ),
        (&json!("QM1:DEV.QUEUE.1"), &json!(1000), &json!(10), &json!(true), &json!(2_048_000))
    );
    let again = gateway.produce(key, &produce).await.expect(201);
    assert_eq!((again.header("idempotent-replay"), &again.bytes), (Some("true"), &first.bytes));
    let measured = gateway.post("/queue/depth", &depth).await.expect(200).json();
    assert_eq!(
        (&measured["currentDepth"], &measured["maxDepth"]),
        (&json!(1000), &json!(5000)),
        "{measured}"
    );
    for left in [500, 0] {
        let got = gateway.consume(Uuid::new_v4(), &consume).await.expect(200).json();
        assert_eq!((&got["count"], &got["messages"][0]["headers"]["k1"]), (&json!(500), &json!("v1")));
        assert_eq!(got["messages"][0]["persistence"], "persistent");
        let measured = gateway.post("/queue/depth", &depth).await.expect(200).json();
        assert_eq!(measured["currentDepth"], left);
    }
}

#[tokio::test]
async fn a_profile_leads_to_its_queue_and_a_request_to_another() {
    let gateway = Gateway::new();
    let on = |queue: &str| json!({"targetRef": "local-qm1", "target": {"queue": queue}});
    let with = |members: Value| {
        let mut body = on("DEV.QUEUE.3");
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        body
    };
    let answer = gateway.produce(Uuid::new_v4(), &with(texts(&["one"]))).await.expect(201).json();
    assert_eq!((&answer["target"], &answer["atomic"]), (&json!("QM1:DEV.QUEUE.3"), &json!(true)));
    let got = gateway.consume(Uuid::new_v4(), &with(taking(json!({})))).await.expect(200).json();
    assert_eq!(bodies(&got), ["one"]);
}

#[tokio::test]
async fn a_browse_changes_nothing_and_a_rollback_is_counted() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let mut members = texts(&["{\"order\":17}"]);
    members["mqProps"] = json!({"correlIdMode": "echoMsgId"});
    let put = put(&gateway, &manager, "DEV.QUEUE.1", members).await;
    let browse = manager.request("DEV.QUEUE.1", taking(json!({"browseOnly": true})));
    for _ in 0..2 {
        let shown = gateway.post("/messages/consume", &browse).await.expect(200).json();
        let message = &shown["messages"][0];
        assert_eq!((&shown["count"], &shown["warnings"]), (&json!(1), &json!([])));
        assert_eq!(message["correlIdBase64"], put["firstMsgIdBase64"]);
        let expected = json!({"format": "MQSTR", "ccsid": 1208, "userId": "app", "backoutCount": 0});
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(&message[member], value, "{member}");
        }
    }
    let back = take(&gateway, &manager, "DEV.QUEUE.1", json!({"ack": "rollback"})).await;
    assert_eq!(back["messages"][0]["backoutCount"], 0);
    let got = take(&gateway, &manager, "DEV.QUEUE.1", json!({})).await;
    assert_eq!(
        (&got["messages"][0]["backoutCount"], &got["messages"][0]["redelivered"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(manager.depth("DEV.QUEUE.1"), 0);
}

#[tokio::test]
async fn messages_are_selected_by_their_ids_and_by_an_expression() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let mut ids = Vec::new();
    for (body, amount) in [("a", 1), ("b", 20), ("c", 300)] {
        let mut members = texts(&[body]);
        members["headers"] = json!({"amount": amount});
        members["mqProps"] = json!({"correlIdMode": "echoMsgId"});
        ids.push(put(&gateway, &manager, "DEV.QUEUE.1", members).await["firstMsgIdBase64"].clone());
    }
    let by = |selector: Value| json!({"selector": selector, "ack": "rollback"});
    let got = take(&gateway, &manager, "DEV.QUEUE.1", by(json!({"correlIdBase64": ids[1]}))).await;
    assert_eq!(bodies(&got), ["b"]);
    let got = take(&gateway, &manager, "DEV.QUEUE.1", by(json!({"msgIdBase64": ids[2]}))).await;
    assert_eq!(bodies(&got), ["c"]);
    let got = take(&gateway, &manager, "DEV.QUEUE.1", by(json!({"expression": "amount > 10"}))).await;
    assert_eq!(bodies(&got), ["b", "c"]);
    let wrong = manager.request("DEV.QUEUE.1", taking(by(json!({"expression": "amount >"}))));
    refused(gateway.consume(Uuid::new_v4(), &wrong).await, 422, "UNSUPPORTED_BY_BROKER", 2459);
    assert_eq!(manager.depth("DEV.QUEUE.1"), 3);
}

#[tokio::test]
async fn refusals_say_the_reason_code() {
    let (gateway, mut manager) = (Gateway::new(), QueueManager::start());
    let one = |queue: &str| manager.request(queue, texts(&["one"]));
    let produce = async |body: &Value| gateway.produce(Uuid::new_v4(), body).await;
    refused(produce(&one("DEV.NO.SUCH.QUEUE")).await, 404, "QUEUE_NOT_FOUND", 2085);
    let mut wrong = one("DEV.QUEUE.1");
    wrong["target"]["auth"]["passwordRef"] = json!("secret://local/wrong");
    refused(produce(&wrong).await, 502, "AUTHENTICATION_FAILED", 2035);
    let full = manager.request("DEV.SMALL", texts(&["1", "2", "3", "4"]));
    refused(produce(&full).await, 502, "QUEUE_FULL", 2053);
    // All or nothing: the three that would have fitted are not there either.
    assert_eq!(manager.depth("DEV.SMALL"), 0);
    let large = manager.request("DEV.SMALL", texts(&["x".repeat(1_025).as_str()]));
    refused(produce(&large).await, 422, "MESSAGE_TOO_LARGE", 2030);
    let mut other = one("DEV.QUEUE.1");
    other["target"]["queueManager"] = json!("ANOTHER");
    refused(produce(&other).await, 502, "BROKER_REJECTED", 2058);
    let mut channel = one("DEV.QUEUE.1");
    channel["target"]["channel"] = json!("NO.SUCH.CHANNEL");
    refused(produce(&channel).await, 502, "BROKER_REJECTED", 2540);
    for name in ["", "*GROUP"] {
        let mut any = manager.request("DEV.QUEUE.1", json!({}));
        any["target"]["queueManager"] = json!(name);
        gateway.post("/queue/depth", &any).await.expect(200);
    }
    let alias =
        gateway.post("/queue/depth", &manager.request("DEV.ALIAS", json!({}))).await.expect(200).json();
    assert_eq!(alias["currentDepth"], 0);
    let remote = gateway.post("/queue/depth", &manager.request("DEV.REMOTE", json!({}))).await;
    remote.expect_problem(422, "UNSUPPORTED_BY_BROKER");
    let body = one("DEV.QUEUE.1");
    manager.kill();
    produce(&body).await.expect_problem(503, "BROKER_UNREACHABLE");
}

#[tokio::test]
async fn a_message_past_the_threshold_goes_to_the_backout_queue_unless_the_profile_says_otherwise() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let access = Access::open().await;
    let reporting =
        access.profile_with(TENANT_A, &manager.target("DEV.POISON"), json!({"backout": "report"})).await;
    put(&gateway, &manager, "DEV.POISON", texts(&["poison"])).await;
    for _ in 0..3 {
        take(&gateway, &manager, "DEV.POISON", json!({"ack": "rollback"})).await;
    }
    let mut body = taking(json!({"ack": "rollback"}));
    body["targetRef"] = json!(reporting);
    let shown = gateway.consume(Uuid::new_v4(), &body).await.expect(200).json();
    assert_eq!(bodies(&shown), ["poison"]);
    body["ack"] = json!("commit");
    body["maxMessages"] = json!(1);
    put(&gateway, &manager, "DEV.POISON", texts(&["fine"])).await;
    let got = gateway.consume(Uuid::new_v4(), &body).await.expect(200).json();
    assert_eq!((bodies(&got), manager.depth("DEV.BACKOUT")), (vec!["poison"], 0));
    assert!(got["warnings"].to_string().contains("threshold is 3"), "{got}");

    put(&gateway, &manager, "DEV.POISON", texts(&["worse"])).await;
    let fine = take(&gateway, &manager, "DEV.POISON", json!({"maxMessages": 1})).await;
    assert_eq!(bodies(&fine), ["fine"]);
    for _ in 0..3 {
        take(&gateway, &manager, "DEV.POISON", json!({"ack": "rollback"})).await;
    }
    let got = take(&gateway, &manager, "DEV.POISON", json!({})).await;
    assert_eq!((&got["count"], manager.depth("DEV.POISON"), manager.depth("DEV.BACKOUT")), (&json!(0), 0, 1));
    assert!(got["warnings"].to_string().contains("moved to `DEV.BACKOUT`"), "{got}");
}
