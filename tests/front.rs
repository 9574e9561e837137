//! What API Gateway itself does before and after a function, as the local front does it.

use std::io::{Read as _, Write as _};

use end_to_end::{Broker, Gateway, KEY_A, PHARMACY_KEY, variable};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;

#[tokio::test]
async fn a_gzip_body_arrives_intact() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(queue.target().to_string().as_bytes()).unwrap();
    let body = gzip.finish().unwrap();
    for (content_type, encoding) in [("application/gzip", "identity"), ("application/json", "gzip")] {
        let headers = [("x-api-key", KEY_A), ("content-type", content_type), ("content-encoding", encoding)];
        let answer = gateway.send("POST", "/queue/depth", &headers, body.clone()).await.expect(200).json();
        assert_eq!(answer["queue"], json!(queue.name), "{content_type}");
    }
    broker.delete(&queue).await;
}

#[tokio::test]
async fn bodies_beyond_lambdas_and_api_gateways_limits_are_413_with_its_own_body() {
    let gateway = Gateway::new();
    let headers = [("x-api-key", KEY_A), ("content-type", "application/json")];
    for path in ["/queue/depth", "/v1/inovafarma/products"] {
        for size in [6 * 1024 * 1024 + 1, 10 * 1024 * 1024 + 1] {
            let answer = gateway.send("POST", path, &headers, vec![b' '; size]).await.expect(413).json();
            assert_eq!(answer, json!({"message": "Request Entity Too Large"}), "{path} {size}");
        }
    }
}

#[tokio::test]
async fn a_trace_id_is_kept_or_made() {
    let gateway = Gateway::new();
    let answer = gateway.send("GET", "/health/live", &[("x-trace-id", "trace-17")], "").await.expect(200);
    assert_eq!(answer.header("x-trace-id"), Some("trace-17"));
    let answer = gateway.send("GET", "/health/live", &[], "").await.expect(200);
    assert_eq!(answer.header("x-trace-id").unwrap().len(), 36);
}

#[tokio::test]
async fn health_status_contract_and_docs_are_served() {
    let gateway = Gateway::new();
    let ready = gateway.send("GET", "/health/ready", &[], "").await.expect(200).json();
    assert!(ready.to_string().contains("\"ok\":true"), "{ready}");
    gateway.send("GET", "/status", &[], "").await.expect_problem(401, "API_KEY_REQUIRED");
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
    let mut inflated = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "the stack's own file")]
    GzDecoder::new(script.bytes.as_slice()).read_to_end(&mut inflated).unwrap();
    assert!(inflated.len() > 1_000_000, "{}", inflated.len());
}

#[test]
fn the_smoke_test_of_deployments_passes_here() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/smoke.sh");
    let smoke = |key: &str| {
        std::process::Command::new("bash").args([script, &variable("API"), key]).output().unwrap()
    };
    let passed = smoke(KEY_A);
    assert!(passed.status.success(), "{}", String::from_utf8_lossy(&passed.stdout));
    assert!(!smoke("no-such-key").status.success());
    // Its establishments are others than the one that the script loads.
    let limited = String::from_utf8(smoke(PHARMACY_KEY).stdout).unwrap();
    assert!(limited.contains("skip  batch: the key may not load"), "{limited}");
    assert!(!limited.contains("is in the database"), "{limited}");
}
