//! Tests of requests that IBM MQ cannot carry out: the response names the member at fault, or the
//! type of the queue.

use end_to_end::{Answer, Gateway, QueueManager};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{put, taking, texts};

const UNSUPPORTED: (u16, &str) = (422, "UNSUPPORTED_BY_BROKER");
const UNKNOWN: (u16, &str) = (400, "SCHEMA_VIOLATION");

fn pointer(answer: Answer, (status, reason): (u16, &str)) -> String {
    let problem = answer.expect_problem(status, reason).json();
    problem["errors"][0]["pointer"].as_str().unwrap_or_else(|| panic!("{problem}")).to_owned()
}

#[tokio::test]
async fn properties_that_ibm_mq_cannot_carry_are_refused_with_a_pointer() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let long_id = "A".repeat(36);
    for (props, at) in [
        (json!({"replyTo": "Q".repeat(49)}), "replyTo"),
        (json!({"replyTo": "a\0b"}), "replyTo"),
        (json!({"replyTo": "a b"}), "replyTo"),
        (json!({"appId": "trail "}), "appId"),
        (json!({"group": {"id": "g\0"}}), "group"),
        (json!({"correlIdBase64": long_id}), "correlIdBase64"),
        (json!({"group": {"id": {"base64": long_id}}}), "group"),
        // The queue manager refuses this itself.
        (json!({"report": 0x0004_0000}), "report"),
        (json!({"messageType": "request"}), "replyTo"),
        (json!({"messageType": "request", "replyTo": ""}), "replyTo"),
        (json!({"group": {"id": ""}}), "group"),
        (json!({"group": {"id": {"base64": "AAAA"}}}), "group"),
        (json!({"appId": "a".repeat(29)}), "appId"),
        (json!({"timestamp": "253402300799"}), "timestamp"),
    ] {
        let mut of_all = texts(&["a", "b"]);
        of_all["mqProps"] = props.clone();
        let body = manager.request("DEV.QUEUE.1", of_all);
        let answer = gateway.produce(Uuid::new_v4(), &body).await;
        assert_eq!(pointer(answer, UNSUPPORTED), format!("/mqProps/{at}"), "{props}");
        let mut of_one = texts(&["a", "b"]);
        let one = of_one["messages"][1].as_object_mut().unwrap();
        one.extend(props.as_object().unwrap().clone());
        let body = manager.request("DEV.QUEUE.1", of_one);
        let answer = gateway.produce(Uuid::new_v4(), &body).await;
        assert_eq!(pointer(answer, UNSUPPORTED), format!("/messages/1/{at}"), "{props}");
    }
    assert_eq!(manager.depth("DEV.QUEUE.1"), 0);
}

#[tokio::test]
async fn headers_and_ids_that_ibm_mq_cannot_carry_are_refused_with_a_pointer() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let long_id = "A".repeat(36);
    let one = |more: Value| json!({"messages": [{"bodyText": "a"}, more]});
    let with = |members: Value, more: Value| {
        let mut members = members;
        members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        members
    };
    let fixed = json!({"correlIdMode": "fixed", "fixedCorrelIdBase64": long_id});
    for (body, at) in [
        (with(texts(&["a"]), json!({"mqProps": fixed})), "/mqProps/fixedCorrelIdBase64"),
        (json!({"batch": {"count": 2}, "mqProps": {"correlIdBase64": long_id}}), "/mqProps/correlIdBase64"),
        (json!({"batch": {"count": 2}, "headers": {"a/b~": [1]}}), "/headers/a~1b~0"),
        (with(texts(&["a"]), json!({"headers": {"lines": [1]}})), "/headers/lines"),
        (one(json!({"bodyText": "b", "headers": {"lines": [1]}})), "/messages/1/headers/lines"),
        (
            one(json!({"bodyText": "b", "headers": {"at": {"time": "2026-11-22T17:00:00Z"}}})),
            "/messages/1/headers/at",
        ),
    ] {
        let answer = gateway.produce(Uuid::new_v4(), &manager.request("DEV.QUEUE.1", body.clone())).await;
        assert_eq!(pointer(answer, UNSUPPORTED), at, "{body}");
    }
    assert_eq!(manager.depth("DEV.QUEUE.1"), 0);
}

#[tokio::test]
async fn a_selection_that_ibm_mq_does_not_know_is_refused_with_a_pointer() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let long_id = "A".repeat(36);
    for (selector, at) in [
        (json!({"msgIdBase64": long_id}), "msgIdBase64"),
        (json!({"msgIdBase64": "AAAA"}), "msgIdBase64"),
        (json!({"correlIdBase64": long_id}), "correlIdBase64"),
        (json!({"correlIdBase64": "AAAA"}), "correlIdBase64"),
        (json!({"expression": "colour ="}), "expression"),
    ] {
        let body = manager.request("DEV.QUEUE.1", taking(json!({"selector": selector})));
        let answer = gateway.consume(Uuid::new_v4(), &body).await;
        assert_eq!(pointer(answer, UNSUPPORTED), format!("/selector/{at}"), "{body}");
    }
    // To IBM MQ zeros are every message's id.
    put(&gateway, &manager, "DEV.QUEUE.1", texts(&["a"])).await;
    for id in [long_id.as_str(), "AAAA"] {
        let from = json!({"target": manager.target("DEV.QUEUE.1")});
        let body =
            json!({"from": from, "to": {"queue": "DEV.QUEUE.2"}, "selector": {"msgIdsBase64": ["YQ==", id]}});
        let answer = gateway.move_messages(Uuid::new_v4(), &body).await;
        assert_eq!(pointer(answer, UNSUPPORTED), "/selector/msgIdsBase64/1");
    }
    assert_eq!(manager.depth("DEV.QUEUE.1"), 1);
}

#[tokio::test]
async fn a_time_beyond_the_latest_and_a_topic_are_refused_with_a_pointer() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let mut late = texts(&["a"]);
    late["mqProps"] = json!({"timestamp": "9999-12-31T23:00:00Z"});
    let answer = gateway.produce(Uuid::new_v4(), &manager.request("DEV.QUEUE.1", late)).await;
    assert!(answer.json()["detail"].to_string().contains("must not be after 9999-12-30T22:00:00Z"));
    assert_eq!(pointer(answer, UNKNOWN), "/mqProps/timestamp");
    let mut topic = manager.request("DEV.QUEUE.1", texts(&["a"]));
    topic["target"]["topic"] = json!("prices/eur");
    let answer = gateway.produce(Uuid::new_v4(), &topic).await;
    assert_eq!(pointer(answer, UNKNOWN), "/target/topic");
}

/// Checks the response to a consume or move from a queue that holds no messages itself, such as an
/// alias or a remote queue: it names the type of the queue.
#[tokio::test]
async fn a_queue_without_messages_of_its_own_is_called_what_it_is() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let read = async |queue: &str| -> Vec<Answer> {
        let consume = |more: Value| manager.request(queue, taking(more));
        let moving = |more: Value| {
            let mut body = json!({"from": {"target": manager.target(queue)}, "to": {"queue": "DEV.QUEUE.2"}});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        vec![
            gateway.consume(Uuid::new_v4(), &consume(json!({}))).await,
            gateway.consume(Uuid::new_v4(), &consume(json!({"ack": "none"}))).await,
            gateway.post("/messages/consume", &consume(json!({"browseOnly": true}))).await,
            gateway.move_messages(Uuid::new_v4(), &moving(json!({}))).await,
            gateway.post("/messages/move", &moving(json!({"dryRun": true}))).await,
            gateway.post("/queue/depth", &manager.request(queue, json!({}))).await,
        ]
    };
    for (queue, kind) in [
        ("DEV.REMOTE", "is a definition of a remote queue"),
        ("DEV.REMOTE.ALIAS", "is an alias of a definition of a remote queue"),
        ("DEV.NOWHERE.ALIAS", "is an alias of something that is no queue here"),
    ] {
        for answer in read(queue).await {
            let problem = answer.expect_problem(422, "UNSUPPORTED_BY_BROKER").json();
            assert!(problem["detail"].to_string().contains(kind), "{queue}: {problem}");
        }
    }
}
