//! Tests of commits whose answers are lost, queue managers that die, and channels without a free
//! instance. They count every message: with units of work none is lost, and none is there twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use end_to_end::{Access, Answer, Gateway, QueueManager, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{bodies, put, take, taking, texts};

const PRODUCE: &str = "/messages/produce";

/// Maximum time of all retries of one request together.
const PATIENCE: Duration = Duration::from_secs(60);

fn generated(count: u64, size: u64) -> Value {
    json!({
        "batch": {
            "count": count, "messageSizeBytes": 20,
            "transaction": {"enabled": true, "txSize": size, "atomic": true}
        },
        "payload": {"mode": "random"}
    })
}

/// Consumes all messages from a queue through the gateway, and returns their ids in base64.
async fn ids(gateway: &Gateway, manager: &QueueManager, queue: &str) -> Vec<String> {
    let got = take(gateway, manager, queue, json!({"maxMessages": 1000})).await;
    let messages = got["messages"].as_array().unwrap().iter();
    messages.map(|message| message["msgIdBase64"].as_str().unwrap().to_owned()).collect()
}

/// Repeats a request with its key until it succeeds, as the contract asks clients to. Panics after
/// [`PATIENCE`].
async fn until_done(gateway: &Gateway, path: &str, key: Uuid, body: &Value) -> Answer {
    let started = Instant::now();
    loop {
        let answer = gateway.post_once(path, key, body).await;
        if answer.status < 300 {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&answer.bytes));
        assert!(matches!(answer.status, 409 | 429 | 502 | 503 | 504), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn a_put_whose_commit_happened_is_found_and_is_no_error() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": "after"}));
    let answer = put(&gateway, &manager, "DEV.QUEUE.1", generated(30, 100)).await;
    assert_eq!((&answer["enqueued"], &answer["possibleDuplicates"]), (&json!(30), &json!(0)), "{answer}");
    assert_eq!(manager.depth("DEV.QUEUE.1"), 30);
}

#[tokio::test]
async fn a_produce_goes_on_behind_the_last_commit_that_is_certain() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    for (queue, fault, status) in [
        // Committed and found: what was put is certain.
        ("DEV.QUEUE.1", json!({"verb": "MQCMIT", "nth": 3, "cut": true, "when": "after"}), 503),
        // Not committed, which nobody can be sure of.
        ("DEV.QUEUE.2", json!({"verb": "MQCMIT", "nth": 3, "cut": true}), 502),
        // Backed out, which the queue manager says.
        ("DEV.QUEUE.3", json!({"verb": "MQCMIT", "nth": 3, "reason": 2003}), 502),
    ] {
        manager.fault(&fault);
        let (key, body) = (Uuid::new_v4(), manager.request(queue, generated(100, 10)));
        gateway.produce(key, &body).await.expect(status);
        let answer = until_done(&gateway, PRODUCE, key, &body).await.json();
        let from = answer["resumedFrom"].as_u64().unwrap();
        assert_eq!(from, if status == 503 { 30 } else { 20 }, "{answer}");
        let found = ids(&gateway, &manager, queue).await;
        assert_eq!((found.len(), BTreeSet::from_iter(&found).len()), (100, 100), "{fault}");
    }
}

#[tokio::test]
async fn a_queue_manager_that_dies_in_the_middle_loses_nothing_and_doubles_nothing() {
    let (gateway, mut manager) = (Gateway::new(), QueueManager::start());
    let (key, mut body) = (Uuid::new_v4(), manager.request("DEV.QUEUE.1", generated(200, 10)));
    body["batch"]["rateLimitPerSec"] = json!(100);
    body["mqProps"] = json!({"persistence": "persistent"});
    let sent = {
        let (gateway, body) = (gateway.clone(), body.clone());
        tokio::spawn(async move { gateway.produce(key, &body).await })
    };
    while manager.depth("DEV.QUEUE.1") < 50 {
        assert!(!sent.is_finished(), "{:?}", sent.await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    manager.kill();
    manager.run();
    assert!(matches!(sent.await.unwrap().status, 502 | 503));
    let answer = until_done(&gateway, PRODUCE, key, &body).await.json();
    assert!(answer["resumedFrom"].as_u64().unwrap() >= 40, "{answer}");
    let found = ids(&gateway, &manager, "DEV.QUEUE.1").await;
    assert_eq!((found.len(), BTreeSet::from_iter(&found).len()), (200, 200), "{answer}");
}

#[tokio::test]
async fn messages_whose_commit_did_not_happen_are_taken_by_the_next_attempt() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    put(&gateway, &manager, "DEV.QUEUE.1", texts(&["a", "b", "c"])).await;
    let (key, body) = (Uuid::new_v4(), manager.request("DEV.QUEUE.1", taking(json!({}))));
    manager.fault(&json!({"verb": "MQCMIT", "cut": true}));
    gateway.consume(key, &body).await.expect_problem(503, "BROKER_UNREACHABLE");
    assert_eq!(manager.depth("DEV.QUEUE.1"), 3);
    let got = gateway.consume(key, &body).await.expect(200);
    assert_eq!((bodies(&got.json()), manager.depth("DEV.QUEUE.1")), (vec!["a", "b", "c"], 0));
    assert_eq!(got.json()["deliveryInDoubt"], false);
    let again = gateway.consume(key, &body).await.expect(200);
    assert_eq!((again.header("idempotent-replay"), &again.bytes), (Some("true"), &got.bytes));
}

#[tokio::test]
async fn messages_whose_commit_may_have_happened_are_not_lost() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    put(&gateway, &manager, "DEV.QUEUE.1", texts(&["a", "b", "c"])).await;
    let (key, body) = (Uuid::new_v4(), manager.request("DEV.QUEUE.1", taking(json!({}))));
    manager.fault(&json!({"verb": "MQCMIT", "cut": true, "when": "after"}));
    let doubt = gateway.consume(key, &body).await.expect_problem(502, "OUTCOME_IN_DOUBT");
    assert!(doubt.header("retry-after").is_some());
    assert_eq!(manager.depth("DEV.QUEUE.1"), 0);
    // Only the execution whose lease it is may say more before that lease ends.
    let started = Instant::now();
    let got = loop {
        let answer = gateway.consume(key, &body).await;
        if answer.status == 200 {
            break answer.json();
        }
        assert!(answer.status == 409 && started.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    assert_eq!((bodies(&got), &got["deliveryInDoubt"]), (vec!["a", "b", "c"], &json!(true)));
}

#[tokio::test]
async fn a_restart_between_requests_is_not_noticed() {
    let (gateway, mut manager) = (Gateway::new(), QueueManager::start());
    let mut members = texts(&["a"]);
    members["mqProps"] = json!({"persistence": "persistent"});
    put(&gateway, &manager, "DEV.QUEUE.1", members).await;
    manager.kill();
    manager.run();
    let got = take(&gateway, &manager, "DEV.QUEUE.1", json!({})).await;
    assert_eq!(bodies(&got), ["a"]);
}

/// Removes all messages from a queue over the queue manager's control socket, and returns their
/// bodies.
fn on_queue(manager: &QueueManager, queue: &str) -> Vec<String> {
    manager.take(queue).iter().map(|message| message["body"].as_str().unwrap().to_owned()).collect()
}

/// Checks that ten callers share a channel of five instances. In the local stack each has an
/// execution environment of its own, so an idle connection kept by one would be out of reach for
/// the others.
#[tokio::test]
async fn a_channel_of_five_serves_ten_at_once() {
    let (gateway, manager, access) = (Gateway::new(), QueueManager::start(), Access::open().await);
    let bodies: Vec<_> = (0..60).map(|number| format!("message {number}")).collect();
    let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    let members = json!({"queues": ["*"], "idleConnections": "close"});
    let profile = access.profile_with(TENANT_A, &manager.target("DEV.QUEUE.2"), members).await;
    let on = |queue: &str, mut body: Value| {
        body["targetRef"] = json!(profile);
        body["target"] = json!({"queue": queue});
        body
    };
    gateway.produce(Uuid::new_v4(), &on("DEV.QUEUE.2", texts(&bodies))).await.expect(201);
    assert_eq!(manager.connections(), 0, "a response was sent before its connection had ended");

    let limit = |instances: u64| {
        manager.control(&json!({"channel_limit": {"channel": "DEV.APP.SVRCONN", "instances": instances}}))
    };
    limit(0);
    let produce = on("DEV.QUEUE.1", generated(20, 10));
    let consume = on("DEV.QUEUE.2", taking(json!({"maxMessages": 10})));
    let from = on("DEV.QUEUE.2", json!({}));
    let relocate = json!({"from": from, "to": {"queue": "DEV.QUEUE.3"}, "max": 10});
    let kinds =
        [(PRODUCE, &produce, 4), ("/messages/consume", &consume, 3), ("/messages/move", &relocate, 3)];
    let mut asked = Vec::new();
    for (path, body, times) in kinds {
        for _ in 0..times {
            let (gateway, body) = (gateway.clone(), body.clone());
            asked.push(tokio::spawn(async move {
                (path, until_done(&gateway, path, Uuid::new_v4(), &body).await.json())
            }));
        }
    }
    // All of them wait for the channel when it opens.
    while manager.since_limit().1 < 20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    limit(5);
    let mut got = Vec::new();
    for one in asked {
        let (path, answer) = one.await.unwrap();
        match path {
            "/messages/consume" => {
                assert_eq!(answer["deliveryInDoubt"], false);
                let bodies = answer["messages"].as_array().unwrap().iter();
                got.extend(bodies.map(|message| hex::encode(message["bodyText"].as_str().unwrap())));
            }
            _ => assert_eq!(answer["possibleDuplicates"], 0),
        }
    }
    let (most, _) = manager.since_limit();
    assert!((1..=5).contains(&most), "{most} connections at once");
    assert_eq!(manager.connections(), 0);
    let put = manager.take("DEV.QUEUE.1");
    let ids: BTreeSet<_> = put.iter().map(|message| message["messageId"].as_str().unwrap()).collect();
    assert_eq!((put.len(), ids.len()), (80, 80));
    let moved = on_queue(&manager, "DEV.QUEUE.3");
    assert_eq!((got.len(), moved.len(), on_queue(&manager, "DEV.QUEUE.2").len()), (30, 30, 0));
    got.extend(moved);
    let all: BTreeSet<String> = bodies.iter().map(hex::encode).collect();
    assert_eq!(BTreeSet::from_iter(got), all);
}
