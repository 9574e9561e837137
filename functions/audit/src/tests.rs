//! Tests of the function against a server in place of CloudWatch Logs.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Request;
use runtime::Sdk;
use serde_json::json;
use test_support::http_server::{self, Server};

use super::*;

type Seen = Arc<Mutex<Vec<Request<Bytes>>>>;

/// Starts a fake AWS server that returns these responses in order, and a function that calls it.
async fn audit(answers: &[(u16, Value)]) -> (Audit, Seen, Server) {
    started(answers, false).await
}

/// Starts a fake AWS server and the function as [`audit()`] does. If `counts` is true, the function
/// also counts usage, in a table on the same server.
async fn started(answers: &[(u16, Value)], counts: bool) -> (Audit, Seen, Server) {
    let seen = Seen::default();
    let (requests, answers) = (Arc::clone(&seen), Arc::new(Mutex::new(answers.to_vec())));
    let server = Server::start(move |request| {
        let (requests, answers) = (Arc::clone(&requests), Arc::clone(&answers));
        async move {
            requests.lock().unwrap().push(request);
            let (status, body) = answers.lock().unwrap().remove(0);
            Some(http_server::response(status, body.to_string()))
        }
    })
    .await;
    let sdk = Sdk::at(&server.url(), "sa-east-1", "AKIDEXAMPLE", "secret").await;
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
    let usage = counts.then(|| UsageTable::new(dynamodb, "usage".to_owned()));
    (Audit::new(LogGroup::new(&sdk, "audit".to_owned(), "stream".to_owned()), usage), seen, server)
}

fn event(delivery: &Value) -> Value {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(delivery.to_string().as_bytes()).unwrap();
    json!({"awslogs": {"data": STANDARD.encode(gzip.finish().unwrap())}})
}

fn delivery(kind: &str) -> Value {
    json!({
        "messageType": kind, "owner": "123456789012", "logGroup": "/aws/lambda/produce", "logStream": "s",
        "subscriptionFilters": ["f"],
        "logEvents": [
            {"id": "2", "timestamp": 20, "message": "{\"event_type\":\"request.completed\"}\n"},
            {"id": "1", "timestamp": 10, "message": "{\"event_type\":\"request.completed\",\"context\":{}}"},
            {"id": "3", "timestamp": 30, "message": "START RequestId: 7"},
        ],
    })
}

fn bodies(seen: &Seen) -> Vec<(String, Value)> {
    let seen = seen.lock().unwrap();
    let body = |request: &Request<Bytes>| {
        let target = request.headers()["x-amz-target"].to_str().unwrap().to_owned();
        (target, serde_json::from_slice(request.body()).unwrap())
    };
    seen.iter().map(body).collect()
}

#[tokio::test]
async fn events_are_written_in_their_order_with_their_ids_and_where_they_come_from() {
    let made = json!({});
    let (audit, seen, _server) = audit(&[(200, made.clone()), (200, made.clone()), (200, made)]).await;
    audit.handle(event(&delivery("DATA_MESSAGE"))).await.unwrap();
    // The stream is made once.
    audit.handle(event(&delivery("DATA_MESSAGE"))).await.unwrap();
    let bodies = bodies(&seen);
    let targets: Vec<_> = bodies.iter().map(|(target, _)| target.as_str()).collect();
    let [create, put] = ["Logs_20140328.CreateLogStream", "Logs_20140328.PutLogEvents"];
    assert_eq!(targets, [create, put, put]);
    assert_eq!(bodies[0].1, json!({"logGroupName": "audit", "logStreamName": "stream"}));
    assert_eq!(bodies[1].1["logGroupName"], "audit");
    let events = bodies[1].1["logEvents"].as_array().unwrap();
    let lines: Vec<Value> = events
        .iter()
        .map(|event| serde_json::from_str(event["message"].as_str().unwrap()).unwrap())
        .collect();
    let group = "/aws/lambda/produce";
    let first =
        json!({"event_id": "1", "log_group": group, "event_type": "request.completed", "context": {}});
    let second = json!({"event_id": "2", "log_group": group, "event_type": "request.completed"});
    assert_eq!((lines, &events[0]["timestamp"]), (vec![first, second], &json!(10)));
    let authorization = seen.lock().unwrap()[1].headers()["authorization"].to_str().unwrap().to_owned();
    assert!(authorization.contains("/sa-east-1/logs/aws4_request"), "{authorization}");
}

#[tokio::test]
async fn a_stream_that_exists_is_used() {
    let exists = json!({"__type": "com.amazonaws#ResourceAlreadyExistsException", "message": "there"});
    let (audit, seen, _server) = audit(&[(400, exists), (200, json!({}))]).await;
    audit.handle(event(&delivery("DATA_MESSAGE"))).await.unwrap();
    assert_eq!(bodies(&seen).len(), 2);
}

#[tokio::test]
async fn a_stream_that_was_removed_is_made_again() {
    let missing = json!({"__type": "ResourceNotFoundException", "message": "no such stream"});
    let made = json!({});
    let (audit, seen, _server) =
        audit(&[(200, made.clone()), (400, missing), (200, made.clone()), (200, made)]).await;
    audit.handle(event(&delivery("DATA_MESSAGE"))).await.unwrap();
    let targets: Vec<_> = bodies(&seen).into_iter().map(|(target, _)| target).collect();
    let [create, put] = ["Logs_20140328.CreateLogStream", "Logs_20140328.PutLogEvents"];
    assert_eq!(targets, [create, put, create, put]);
}

#[tokio::test]
async fn a_call_that_fails_for_a_while_is_repeated_and_another_failure_fails_the_invocation() {
    let throttled = json!({"__type": "ThrottlingException"});
    let denied = json!({"__type": "AccessDeniedException", "message": "not you"});
    let (audit, seen, _server) =
        audit(&[(200, json!({})), (400, throttled), (503, json!({})), (200, json!({})), (400, denied)]).await;
    audit.handle(event(&delivery("DATA_MESSAGE"))).await.unwrap();
    assert_eq!(bodies(&seen).len(), 4);
    let error = audit.handle(event(&delivery("DATA_MESSAGE"))).await.unwrap_err();
    let AuditError::Write(ActionError::Refused { status: 400, code, .. }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!((code.as_str(), bodies(&seen).len()), ("AccessDeniedException", 5));
}

#[tokio::test]
async fn replays_and_refusals_are_counted_after_the_events_are_written() {
    let denied = json!({"__type": "AccessDeniedException", "message": "not you"});
    let answers = [(200, json!({})), (200, json!({})), (200, json!({})), (200, json!({})), (400, denied)];
    let (audit, seen, _server) = started(&answers, true).await;
    let context = json!({"operation": "POST /messages/produce", "tenant": "acme", "key_name": "till",
        "outcome": "replayed"});
    let message = json!({"event_type": "request.completed", "context": context}).to_string();
    let mut delivery = delivery("DATA_MESSAGE");
    delivery["logEvents"] = json!([{"id": "1", "timestamp": 1_795_780_800_000_i64, "message": message},
        {"id": "2", "timestamp": 1_795_780_800_001_i64, "message": message}]);
    audit.handle(event(&delivery)).await.unwrap();
    let targets: Vec<_> = bodies(&seen).into_iter().map(|(target, _)| target).collect();
    assert_eq!(targets[1..], ["Logs_20140328.PutLogEvents", "DynamoDB_20120810.UpdateItem"]);
    let (_, update) = bodies(&seen).remove(2);
    assert_eq!(
        (&update["TableName"], &update["Key"]["pk"]),
        (&json!("usage"), &json!({"S": "DAY#2026-11-27"}))
    );
    assert_eq!(update["ExpressionAttributeValues"][":replays"], json!({"N": "2"}));
    // A failure to count fails no delivery.
    audit.handle(event(&delivery)).await.unwrap();
    assert_eq!(bodies(&seen).len(), 5);
}

#[tokio::test]
async fn the_sample_events_are_those_of_a_subscription() {
    let sample = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    let (audit, seen, _server) = audit(&[(200, json!({})), (200, json!({}))]).await;
    let control = sample(include_str!("../../../events/audit/control-message.json"));
    audit.handle(control).await.unwrap();
    assert!(bodies(&seen).is_empty());
    audit.handle(sample(include_str!("../../../events/audit/requests.json"))).await.unwrap();
    let (_, put) = bodies(&seen).remove(1);
    let line: Value = sample(put["logEvents"][1]["message"].as_str().unwrap());
    assert_eq!(
        (&line["context"]["outcome"], &line["context"]["queue"]),
        (&json!("refused"), &json!("PAYROLL"))
    );
}

#[tokio::test]
async fn a_test_of_the_subscription_writes_nothing_and_nonsense_is_refused() {
    let (audit, seen, _server) = audit(&[]).await;
    audit.handle(event(&delivery("CONTROL_MESSAGE"))).await.unwrap();
    for (wrong, expected) in [
        (json!({"Records": []}), "the event is not one of a subscription filter"),
        (json!({"awslogs": {"data": "?"}}), "the data of the event cannot be unpacked"),
        (
            json!({"awslogs": {"data": STANDARD.encode("no gzip")}}),
            "the data of the event cannot be unpacked",
        ),
        (event(&json!({"messageType": 7})), "the data of the event are malformed"),
    ] {
        assert_eq!(audit.handle(wrong).await.unwrap_err().to_string(), expected);
    }
    assert!(bodies(&seen).is_empty());
}
