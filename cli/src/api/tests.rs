//! Tests of the API client against a server that returns prepared responses and failures.

use std::sync::{Arc, Mutex};

use serde_json::json;
use test_support::http_server::{self, Server};

use super::*;

const FAST: Schedule = Schedule {
    first: Duration::from_millis(1),
    longest: Duration::from_millis(5),
    total: Duration::from_secs(20),
};

type Planned = Option<(u16, &'static [(&'static str, &'static str)], Value)>;
type Seen = Arc<Mutex<Vec<::http::Request<Bytes>>>>;

/// Starts a server that returns the planned responses in order, and then repeats the last one.
/// `None` closes the connection without a response. Also returns a client for it, and the requests
/// that the server received.
async fn serve(plan: Vec<Planned>) -> (Api, Seen, Server) {
    let seen = Seen::default();
    let requests = Arc::clone(&seen);
    let server = Server::start(move |request| {
        let mut requests = requests.lock().unwrap();
        let planned = plan[requests.len().min(plan.len() - 1)].clone();
        requests.push(request);
        let answer = planned.map(|(status, headers, body)| {
            let mut answer = http_server::response(status, body.to_string());
            for &(name, value) in headers {
                answer.headers_mut().append(name, HeaderValue::from_static(value));
            }
            answer
        });
        async move { answer }
    })
    .await;
    let key = SecretString::from("ihub_key");
    let api = Api::at(&server.url().parse().unwrap(), Some(&key), FAST).unwrap();
    (api, seen, server)
}

fn busy(after: &'static [(&'static str, &'static str)]) -> Planned {
    Some((503, after, json!({"title": "Busy", "reason": "BUSY", "traceId": "t"})))
}

fn done() -> Planned {
    Some((201, &[("idempotent-replay", "true")], json!({"enqueued": 1})))
}

#[tokio::test]
async fn the_same_request_is_sent_until_it_succeeds() {
    let (api, seen, _server) = serve(vec![None, busy(&[("retry-after", "0")]), done()]).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&told);
    let api = api.telling(Box::new(move |what, _| notes.lock().unwrap().push(what.to_owned())));
    let call = Call::change("/messages/produce", "key-1", &json!({"a": 1}));
    let answer = api.send(&call).await.unwrap();
    assert_eq!((answer.status, answer.attempts, answer.json().unwrap()), (201, 3, json!({"enqueued": 1})));
    assert!(!answer.is_replay(), "an earlier attempt may have done it");
    assert_eq!(told.lock().unwrap()[1], "503 BUSY");

    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    for request in seen.iter() {
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/messages/produce"));
        assert_eq!(request.headers()["idempotency-key"], "key-1");
        assert_eq!(request.headers()["x-api-key"], "ihub_key");
        assert_eq!(request.headers()["x-trace-id"], seen[0].headers()["x-trace-id"]);
        assert_eq!(request.body(), &Bytes::from_static(b"{\"a\":1}"));
    }
}

#[tokio::test]
async fn a_first_answer_may_be_a_replay() {
    let (api, _seen, _server) = serve(vec![done()]).await;
    assert!(api.send(&Call::change("/p", "k", &json!({}))).await.unwrap().is_replay());
}

#[tokio::test]
async fn what_must_not_be_repeated_is_sent_once() {
    let (api, seen, _server) = serve(vec![busy(&[]), done()]).await;
    let refusal = api.send(&Call::read("/p", &json!({})).once()).await.unwrap_err();
    assert_eq!((refusal.status, refusal.failure.exit.code()), (Some(503), 5));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_not_tried_again() {
    let problem =
        json!({"title": "No", "reason": "SCOPE_REQUIRED", "traceId": "t-9", "detail": "needs mq:write"});
    let (api, seen, _server) = serve(vec![Some((403, &[], problem))]).await;
    let refusal = api.send(&Call::get("/p")).await.unwrap_err();
    assert!(refusal.is("SCOPE_REQUIRED"));
    assert_eq!(refusal.failure.why.as_deref(), Some("needs mq:write (403 SCOPE_REQUIRED, trace id t-9)"));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_pause_beyond_the_time_ends_it_at_once() {
    let (api, seen, _server) = serve(vec![busy(&[("retry-after", "3600")])]).await;
    assert_eq!(api.send(&Call::get("/p")).await.unwrap_err().failure.exit.code(), 5);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn a_date_to_try_again_counts_by_the_clock_of_the_server() {
    let after = |headers: &[(&'static str, &'static str)]| {
        let headers = headers
            .iter()
            .map(|&(name, value)| (::http::HeaderName::from_static(name), HeaderValue::from_static(value)));
        Answer { status: 503, headers: headers.collect(), body: Bytes::new(), attempts: 1 }.retry_after()
    };
    let date = ("date", "Fri, 27 Nov 2026 10:00:00 GMT");
    let later = ("retry-after", "Fri, 27 Nov 2026 10:00:30 GMT");
    assert_eq!(after(&[date, later]), Some(Duration::from_secs(30)));
    assert_eq!(after(&[("retry-after", "Fri, 27 Nov 2020 10:00:00 GMT")]), Some(Duration::ZERO));
    assert_eq!(after(&[date, ("retry-after", "7")]), Some(Duration::from_secs(7)));
    assert_eq!(after(&[("retry-after", "soon")]), None);
}

#[tokio::test]
async fn nobody_at_the_address_is_a_temporary_failure_with_a_trace_id() {
    let (api, _, server) = serve(vec![done()]).await;
    server.stop();
    drop(server);
    let api = Api { schedule: Schedule { total: Duration::ZERO, ..FAST }, ..api };
    let failure = api.send(&Call::get("/p")).await.unwrap_err().failure;
    assert_eq!(failure.exit.code(), 5);
    assert!(failure.what.starts_with("http://127.0.0.1:"), "{failure}");
    assert!(failure.why.unwrap().contains("trace id"));
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_a_mistake_of_the_caller() {
    let (api, seen, _server) = serve(vec![done()]).await;
    let refusal = api.send(&Call::get("/p").header("x", "a\nb")).await.unwrap_err();
    assert_eq!(refusal.failure.exit.code(), 2);
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn without_a_key_nothing_is_sent() {
    let (api, seen, _server) = serve(vec![done()]).await;
    let api = Api { key: None, ..api };
    assert_eq!(api.send(&Call::get("/p")).await.unwrap_err().failure.exit.code(), 2);
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(api.exchange(&Call::get("/health/ready")).await.unwrap().status, 201);
    assert!(api.with_key().unwrap_err().what.contains("no API key"));
}

#[test]
fn parameters_are_encoded() {
    assert_eq!(with_query("/p", &[]), "/p");
    assert_eq!(with_query("/p", &[("a", "1"), ("key", "x/ü&y=z")]), "/p?a=1&key=x%2F%C3%BC%26y%3Dz");
}
