//! Tests of the function without its stores: nothing listens at the addresses of its clients.

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use runtime::Sdk;
use serde_json::Value;
use test_support::proxy::Proxy;

use super::*;

async fn cut_off() -> Status {
    let sdk = Sdk::at("http://127.0.0.1:9", "us-east-1", "none", "none").await;
    Status::new(&sdk, "access".to_owned(), "records".to_owned(), "usage".to_owned(), "mq-access".to_owned())
}

async fn send(method: &str, path: &str) -> (Response<Body>, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(format!("https://api.example.com{path}"))
        .header("x-trace-id", "trace-1")
        .body(Body::Empty)
        .unwrap();
    let response = cut_off().await.handle(request).await;
    assert_eq!(response.headers()["x-trace-id"], "trace-1", "{method} {path}");
    let body = serde_json::from_slice(response.body()).unwrap_or_default();
    (response, body)
}

#[tokio::test]
async fn live_needs_nothing_and_takes_what_monitors_add() {
    assert_eq!(send("GET", "/health/live?at=1795255200").await.0.status(), 200);
    let (response, body) = send("GET", "/health/live").await;
    assert_eq!((response.status().as_u16(), body), (200, json!({"status": "ok"})));
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
}

#[tokio::test]
async fn ready_says_which_dependencies_are_cut_off_and_names_no_table() {
    let (response, body) = send("GET", "/health/ready").await;
    assert_eq!(response.status(), 503);
    let names: Vec<_> = body["dependencies"].as_array().unwrap().iter().map(|line| &line["name"]).collect();
    assert_eq!(names, ["accessStore", "idempotencyStore", "mqAccess"]);
    assert!(body["dependencies"].as_array().unwrap().iter().all(|line| line["ok"] == false));
    assert!(!body.to_string().contains("records"));
}

#[tokio::test]
async fn who_asks_again_for_readiness_costs_no_call() {
    let hangs_up = Proxy::after_resets(usize::MAX, (String::new(), 0)).await;
    let endpoint = format!("http://127.0.0.1:{}", hangs_up.port);
    let sdk = Sdk::at(&endpoint, "us-east-1", "none", "none").await;
    let status = Status::new(
        &sdk,
        "access".to_owned(),
        "records".to_owned(),
        "usage".to_owned(),
        "mq-access".to_owned(),
    );
    let first = status.readiness().await;
    let made = hangs_up.accepted();
    assert!(first.status == 503 && made >= 3, "{made}");
    for _ in 0..10 {
        assert_eq!(status.readiness().await, first);
    }
    assert_eq!(hangs_up.accepted(), made);
}

#[tokio::test]
async fn the_contract_lists_every_route_that_is_served_here() {
    let (response, document) = send("GET", "/openapi.json").await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()[CONTENT_TYPE]),
        (200, &HeaderValue::from_static("application/json"))
    );
    for endpoint in Endpoint::ALL {
        let api::Route { method, path } = endpoint.route();
        assert!(document["paths"][path][method.to_lowercase()].is_object(), "{method} {path}");
    }
}

#[tokio::test]
async fn the_page_and_its_files_are_served() {
    let (response, _) = send("GET", "/docs").await;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    let (response, _) = send("GET", "/docs/swagger-ui.css").await;
    assert_eq!((response.status().as_u16(), matches!(response.body(), Body::Binary(_))), (200, true));
    let (response, body) = send("GET", "/docs/nothing.css").await;
    assert_eq!((response.status().as_u16(), &body["reason"]), (404, &json!("ROUTE_NOT_FOUND")));
}

#[tokio::test]
async fn the_console_is_served_unless_the_deployment_has_none() {
    let with = Status { console: Some(Console::new(None)), ..cut_off().await };
    let without = cut_off().await;
    for path in ["/console", "/console/app.js"] {
        let request = || http::Request::get(path).body(Body::Empty).unwrap();
        let response = with.handle(request()).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-cache", "{path}");
        let response = without.handle(request()).await;
        assert_eq!(response.status(), 404, "{path}");
    }
    let request = http::Request::get("/console/nothing.js").body(Body::Empty).unwrap();
    assert_eq!(with.handle(request).await.status(), 404);
}

#[tokio::test]
async fn the_status_the_limits_the_metrics_the_usage_and_a_request_need_a_key() {
    for path in ["/status", "/limits", "/metrics", "/v1/usage", "/v1/requests/produce/key"] {
        let (response, body) = send("GET", path).await;
        assert_eq!(
            (response.status().as_u16(), &body["reason"]),
            (401, &json!("API_KEY_REQUIRED")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn who_asks_again_for_its_limits_gets_the_same_response() {
    let (status, known) = (cut_off().await, Reply::json(200, &json!({"limits": ["known"]})));
    status.limits_replies.put("tenant".to_owned(), known.clone());
    assert_eq!(status.limits_reply("tenant".to_owned()).await, Ok(known));
    let other = Ok(Reply::json(200, &json!({"limits": []})));
    assert_eq!(status.limits_reply("other".to_owned()).await, other);
    assert_eq!(status.limits_replies.get("other").map(Ok), Some(other));
}

#[tokio::test]
async fn without_a_table_of_limits_nothing_is_read() {
    let status = cut_off().await;
    let limits = ::endpoint::limits_of(&status.limiter, &status.access, "tenant").await;
    assert_eq!(limits, Ok(access::LimitsItem::default()));
    assert_eq!(status.limiter.standing("tenant", &access::LimitsItem::default()).await, []);
}

#[tokio::test]
async fn what_no_route_takes_is_a_problem() {
    let (response, body) = send("POST", "/health/live").await;
    assert_eq!((response.status().as_u16(), &body["code"]), (405, &json!("ERR405_INVALID_OPERATION")));
    assert_eq!(response.headers()[ALLOW], "GET");
    let (response, _) = send("GET", "/messages/produce").await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()[ALLOW]),
        (405, &HeaderValue::from_static("POST"))
    );
    for path in ["/", "/messages", "/tests/1", "/docs/", "/health/live/"] {
        let (response, body) = send("GET", path).await;
        assert_eq!((response.status().as_u16(), &body["reason"]), (404, &json!("ROUTE_NOT_FOUND")), "{path}");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }
}

#[tokio::test]
async fn sample_events_get_the_answers_that_their_names_promise() {
    let status = Status { console: Some(Console::new(None)), ..cut_off().await };
    for (name, expected) in [
        ("live", 200),
        ("ready", 503),
        ("status", 503),
        ("status-no-api-key", 401),
        ("limits", 503),
        ("metrics", 503),
        ("request", 503),
        ("usage", 503),
        ("contract", 200),
        ("docs", 200),
        ("docs-file", 200),
        ("console", 200),
        ("console-file", 200),
        ("unknown-path", 404),
        ("wrong-method", 405),
    ] {
        let path = format!("{}/../../events/status/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let request = lambda_http::request::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(status.handle(request).await.status(), expected, "{name}");
    }
}
