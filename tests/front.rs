//! Tests of API Gateway's own part in a request, before and after the function, as the local front
//! plays it: as an HTTP API and as a REST API.

use std::io::{Read as _, Write as _};

use end_to_end::{Broker, Gateway, KEY_A, PHARMACY_KEY, variable};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;
use uuid::Uuid;

fn both() -> [Gateway; 2] {
    [Gateway::new(), Gateway::rest()]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn a_gzip_body_is_understood() {
    let broker = Broker::connect().await;
    let queue = broker.queue().await;
    let body = gzip(queue.target().to_string().as_bytes());
    for gateway in both() {
        for (content_type, encoding) in
            [("application/gzip", "identity"), ("application/json", "gzip"), ("application/json", "identity")]
        {
            let headers =
                [("x-api-key", KEY_A), ("content-type", content_type), ("content-encoding", encoding)];
            let answer = gateway.send("POST", "/queue/depth", &headers, body.clone()).await.expect(200);
            assert_eq!(answer.json()["queue"], json!(queue.name), "{content_type} {encoding} {gateway:?}");
        }
    }
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_catalogue_that_a_rest_api_inflates_is_the_one_that_was_sent() {
    let (key, body) = (Uuid::new_v4().to_string(), gzip(b"[]"));
    let headers = [
        ("x-api-key", KEY_A),
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
        ("idempotency-key", &key),
        ("x-inova-load-type", "delta"),
    ];
    let mut batches = Vec::new();
    for (gateway, stage, replay) in [(Gateway::rest(), "/live", None), (Gateway::new(), "", Some("true"))] {
        let answer =
            gateway.send("POST", "/v1/inovafarma/products", &headers, body.clone()).await.expect(202);
        let id = answer.json()["batch_id"].as_str().unwrap().to_owned();
        assert_eq!(answer.header("idempotent-replay"), replay);
        let path = format!("{stage}/v1/inovafarma/batches/{id}");
        assert_eq!(answer.header("location"), Some(path.as_str()));
        batches.push(id);
    }
    assert_eq!(batches[0], batches[1]);
}

/// Checks that the REST API refuses bodies that it cannot decompress. The contract describes such
/// responses only in its introduction, so the test uses a client that does not check responses.
#[tokio::test]
async fn a_rest_api_refuses_what_it_cannot_inflate() {
    let truncated = gzip(b"{\"targetRef\":\"local-rabbit\"}");
    let truncated = truncated[..truncated.len() - 5].to_vec();
    for (encoding, body) in [("gzip", truncated), ("gzip", b"{}".to_vec()), ("br", b"{}".to_vec())] {
        let request = reqwest::Client::new()
            .post(format!("{}/queue/depth", variable("REST_API")))
            .header("x-api-key", KEY_A)
            .header("content-type", "application/json")
            .header("content-encoding", encoding)
            .body(body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 415, "{encoding}");
        assert_eq!(response.text().await.unwrap(), "{\"message\":\"Unsupported Media Type\"}");
    }
}

#[tokio::test]
async fn two_keys_are_not_one_whichever_api_passes_them_on() {
    let keys = [(); 2].map(|()| Uuid::new_v4().to_string());
    let headers = [
        ("x-api-key", KEY_A),
        ("content-type", "application/json"),
        ("idempotency-key", keys[0].as_str()),
        ("idempotency-key", keys[1].as_str()),
    ];
    for gateway in both() {
        let answer = gateway.send("POST", "/messages/move", &headers, "{}").await;
        answer.expect_problem(400, "IDEMPOTENCY_KEY_MALFORMED");
    }
}

#[tokio::test]
async fn no_path_leads_to_what_one_function_asks_of_another() {
    for gateway in both() {
        for inner in ["usage?from=2026-01-01&to=2026-01-31", "metrics", "health%2Fready"] {
            let path = format!("/v1/inovafarma/batches/..%2F..%2F..%2F{inner}");
            gateway.send("GET", &path, &[], "").await.expect_problem(401, "API_KEY_REQUIRED");
        }
    }
}

#[tokio::test]
async fn a_rest_api_answers_what_no_route_takes_by_itself() {
    let gateway = Gateway::rest();
    for (method, path) in [("GET", "/nothing"), ("POST", "/messages/produce/"), ("GET", "/messages")] {
        gateway.send(method, path, &[], "").await.expect_problem(404, "ROUTE_NOT_FOUND");
    }
}

#[tokio::test]
async fn bodies_beyond_lambdas_and_api_gateways_limits_are_413_with_its_own_body() {
    let headers = [("x-api-key", KEY_A), ("content-type", "application/json")];
    let messages = [
        ["Request Entity Too Large"; 2],
        ["Request Too Long", "HTTP content length exceeded 10485760 bytes."],
    ];
    for (gateway, messages) in both().iter().zip(messages) {
        for path in ["/queue/depth", "/v1/inovafarma/products"] {
            for (size, message) in [6 * 1024 * 1024 + 1, 10 * 1024 * 1024 + 1].into_iter().zip(messages) {
                let answer = gateway.send("POST", path, &headers, vec![b' '; size]).await.expect(413).json();
                assert_eq!(answer, json!({"message": message}), "{path} {size}");
            }
        }
    }
}

#[tokio::test]
async fn a_trace_id_is_kept_or_made() {
    for gateway in both() {
        let answer = gateway.send("GET", "/health/live", &[("x-trace-id", "trace-17")], "").await.expect(200);
        assert_eq!(answer.header("x-trace-id"), Some("trace-17"));
        let answer = gateway.send("GET", "/health/live", &[], "").await.expect(200);
        assert_eq!(answer.header("x-trace-id").unwrap().len(), 36);
        let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let answer = gateway.send("GET", "/health/live", &[("traceparent", context)], "").await.expect(200);
        assert_eq!(answer.header("x-trace-id"), Some(context));
    }
}

#[tokio::test]
async fn health_status_contract_and_docs_are_served() {
    for gateway in both() {
        serves_what_needs_no_target(&gateway).await;
    }
}

async fn serves_what_needs_no_target(gateway: &Gateway) {
    let ready = gateway.send("GET", "/health/ready", &[], "").await.expect(200).json();
    assert!(ready.to_string().contains("\"ok\":true"), "{ready}");
    gateway.send("GET", "/status", &[], "").await.expect_problem(401, "API_KEY_REQUIRED");
    gateway.get("/status?x=1").await.expect_problem(400, "INVALID_PARAMETER");
    let status = gateway.get("/status").await.expect(200).json();
    assert!(
        status["version"].is_string() && status["commit"].is_string() && status["pools"].is_array(),
        "{status}"
    );
    let contract = gateway.send("GET", "/openapi.json", &[], "").await.expect(200).json();
    assert_eq!(contract["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    let page = gateway.send("GET", "/docs", &[], "").await.expect(200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(
        !String::from_utf8_lossy(&page.bytes).contains("https://"),
        "the page loads nothing from elsewhere"
    );
    let script = gateway.send("GET", "/docs/swagger-ui-bundle.js", &[], "").await.expect(200);
    assert!(script.header("content-type").unwrap().contains("javascript"));
    assert_eq!(script.header("content-encoding"), Some("gzip"));
    let icon = gateway.send("GET", "/docs/favicon-32x32.png", &[], "").await.expect(200);
    assert_eq!(icon.header("content-type"), Some("image/png"));
    gateway.send("GET", "/docs/nothing.css", &[], "").await.expect_problem(404, "ROUTE_NOT_FOUND");
    serves_the_console(gateway).await;
    let mut inflated = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "the stack's own file")]
    GzDecoder::new(script.bytes.as_slice()).read_to_end(&mut inflated).unwrap();
    assert!(inflated.len() > 1_000_000, "{}", inflated.len());
}

async fn serves_the_console(gateway: &Gateway) {
    let page = gateway.send("GET", "/console", &[], "").await.expect(200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("connect-src 'self' http"), "the place of uploads: {policy}");
    let page = page.header("etag").unwrap();
    gateway.send("GET", "/console", &[("if-none-match", page)], "").await.expect(304);
    let script = gateway.send("GET", "/console/app.js", &[], "").await.expect(200);
    assert!(script.header("content-type").unwrap().contains("javascript"));
    let script = script.header("etag").unwrap();
    gateway.send("GET", "/console/app.js", &[("if-none-match", script)], "").await.expect(304);
    gateway.send("GET", "/console/nothing.js", &[], "").await.expect_problem(404, "ROUTE_NOT_FOUND");
}

#[test]
fn the_smoke_test_of_deployments_passes_here() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/smoke.sh");
    let smoke = |api: &str, key: &str| {
        std::process::Command::new("bash").args([script, &variable(api), key]).output().unwrap()
    };
    for api in ["API", "REST_API"] {
        let passed = smoke(api, KEY_A);
        assert!(passed.status.success(), "{}", String::from_utf8_lossy(&passed.stdout));
    }
    assert!(!smoke("API", "no-such-key").status.success());
    // Its establishments are others than the one that the script loads.
    let limited = String::from_utf8(smoke("API", PHARMACY_KEY).stdout).unwrap();
    assert!(limited.contains("skip  batch: the key may not load"), "{limited}");
    assert!(!limited.contains("is in the database"), "{limited}");
}
