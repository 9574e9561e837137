//! Tests of every kind of bad request, in the order of the table in `docs/errors.md`. No response
//! is a 500, and no request moves a message.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use end_to_end::{
    Answer, Broker, Gateway, KEY_A, On, PHARMACY_KEY, QueueManager, READONLY_KEY, Site, body_of, operations,
    targeted, variable, with_body,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use idempotency::{
    ClaimRequest, Claimed, Fingerprint, IdempotencyKey, KeyForm, OperationType, Outcome, Reply, Store,
};
use serde_json::json;
use uuid::Uuid;

const PRODUCE: &str = "/messages/produce";
/// Paths of the operations that ignore the header `Idempotency-Key`.
const UNKEYED: [&str; 2] = ["/queue/depth", "/connections/test"];

end_to_end::on_both! {
    targets_that_do_not_exist_or_do_not_answer,
    a_problem_repeats_no_secret_and_no_body,
}

/// Sends a produce with the given text or bytes as body, and a new idempotency key.
async fn produce_text(gateway: &Gateway, body: impl Into<Vec<u8>>) -> Answer {
    let key = Uuid::new_v4().to_string();
    let headers =
        [("x-api-key", KEY_A), ("content-type", "application/json"), ("idempotency-key", key.as_str())];
    gateway.send("POST", PRODUCE, &headers, body).await
}

/// Checks that every operation with a JSON body refuses bodies of the wrong media type, encoding,
/// size or syntax before it looks at their content. Two operations take larger bodies, and have
/// their own tests.
#[tokio::test]
async fn every_operation_refuses_bodies_that_it_cannot_take() {
    let gateway = Gateway::new();
    let takes_larger = |path: &str| [PRODUCE, "/v1/inovafarma/products"].contains(&path);
    for path in with_body().into_iter().filter(|path| !takes_larger(path)) {
        let path = path.replace("{batch_id}", "01a1fd8c-697b-7c4e-8d21-3f5a6b7c8d9e");
        let send = async |content_type: &str, encoding: &str, body: Vec<u8>| {
            let key = Uuid::new_v4().to_string();
            let headers = [
                ("x-api-key", KEY_A),
                ("content-type", content_type),
                ("content-encoding", encoding),
                ("idempotency-key", key.as_str()),
                ("x-inova-load-type", "delta"),
            ];
            gateway.send("POST", &path, &headers, body).await
        };
        let json = "application/json";
        send(json, "", b"{".to_vec()).await.expect_problem(400, "MALFORMED_JSON");
        send(json, "", vec![b' '; 64 * 1024 + 1]).await.expect_problem(413, "MAX_PAYLOAD_EXCEEDED");
        send("text/plain", "", b"{}".to_vec()).await.expect_problem(415, "CONTENT_TYPE");
        send(json, "br", b"{}".to_vec()).await.expect_problem(415, "CONTENT_ENCODING");
    }
}

#[tokio::test]
async fn bodies_that_are_not_strict_json() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let name = &queue.name;
    let with =
        |member: &str| format!(r#"{{"targetRef":"local-rabbit","target":{{"queue":"{name}"}},{member}}}"#);
    let bodies = [
        String::new(),
        "{\"targetRef\":".to_owned(),
        with(r#""batch":{"count":1}"#) + "{}",
        with(r#""batch":{"count":1},"batch":{"count":2}"#),
        with(r#""batch":{"count":1,"count":2}"#),
        with(r#""batch":{"count":9007199254740993}"#),
        with(r#""batch":{"count":100000000000000000000}"#),
        with(r#""batch":{"cuont":1}"#),
        with(r#""batch":{"count":0}"#),
        with(r#""batch":{"count":100001}"#),
        with(r#""batch":{"count":"10"}"#),
        with(r#""mqProps":{"priority":10}"#),
        "[]".to_owned(),
        r#"{"batch":{"count":1}}"#.to_owned(),
        r#"{"target":{"broker":"rabbitmq","queue":"Q","connName":"127.0.0.1"}}"#.to_owned(),
        r#"{"target":{"broker":"rabbitmq","queue":"Q"}}"#.to_owned(),
        r#"{"target":{"queue":"Q","connName":"127.0.0.1:1414"}}"#.to_owned(),
        r#"{"targetRef":"local-rabbit","target":{"ccdtUrl":"http://127.0.0.1/c.json"}}"#.to_owned(),
    ];
    let mut problems = String::new();
    for body in bodies {
        let answer = produce_text(&gateway, body.clone()).await;
        let status = answer.status;
        let mut problem = answer.json();
        problem.as_object_mut().unwrap().remove("traceId").expect("a trace id");
        writeln!(problems, "{body}\n{status} {problem:#}\n").unwrap();
    }
    insta::assert_snapshot!(problems.replace(name, "QUEUE"));
    assert_eq!(gateway.depth(&queue.name).await, 0);
    broker.delete(&queue).await;
}

/// Checks that a produce is refused if its messages with their headers exceed 64 MiB together,
/// since a request of a few bytes can ask for hundreds of gigabytes.
#[tokio::test]
async fn a_produce_that_would_fill_the_broker() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let headers = json!({"much": "x".repeat(30_000)});
    let long = "x".repeat(250);
    let long_texts = json!({"contentType": long, "contentEncoding": long, "appId": long});
    for members in [
        json!({"batch": {"count": 100_000, "messageSizeBytes": 4_194_304}}),
        json!({"batch": {"count": 17, "messageSizeBytes": 4_194_304}}),
        json!({"batch": {"count": 3_000, "messageSizeBytes": 0}, "headers": headers}),
        json!({"messages": vec![json!({"bodyText": ""}); 3_000], "headers": headers}),
        json!({"batch": {"count": 100_000, "messageSizeBytes": 1}, "mqProps": long_texts}),
    ] {
        let answer = gateway.produce(Uuid::new_v4(), &queue.request(members)).await;
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        answer.expect_problem(422, "EXCEEDS_VOLUME");
        assert!(detail.contains("67108864") && detail.contains("send fewer at a time"), "{detail}");
    }
    assert_eq!(gateway.depth(&queue.name).await, 0);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_consume_whose_selector_is_empty_removes_nothing() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    gateway.produce(Uuid::new_v4(), &queue.request(json!({"batch": {"count": 1}}))).await.expect(201);
    for (selector, pointer) in
        [(json!({}), "/selector"), (json!({"expression": " "}), "/selector/expression")]
    {
        let body = queue.request(json!({"selector": selector, "waitSeconds": 0}));
        let answer = gateway.consume(Uuid::new_v4(), &body).await.expect_problem(400, "SCHEMA_VIOLATION");
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer);
    }
    assert_eq!(gateway.depth(&queue.name).await, 1);
    broker.delete(&queue).await;
}

/// Checks that a retry of a produce is replayed even if its volume exceeds the limit. An earlier
/// version with a larger limit may have executed it.
#[tokio::test]
async fn what_was_put_under_another_limit_is_replayed() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let done = gateway.produce(Uuid::new_v4(), &queue.request(json!({"batch": {"count": 1}}))).await.json();
    let body = queue.request(json!({"batch": {"count": 100_000, "messageSizeBytes": 4_194_304}}));
    let key = Uuid::new_v4();
    let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
    let store = Store::new(aws_sdk_dynamodb::Client::new(&sdk), variable("IDEMPOTENCY_TABLE"));
    let claim = ClaimRequest {
        operation: OperationType::named("PRODUCE"),
        tenant: &variable("TENANT"),
        key: &IdempotencyKey::parse(&key.to_string(), KeyForm::Uuid).unwrap(),
        fingerprint: &Fingerprint::of(&body).unwrap(),
        rights: None,
        target: "",
        key_name: "",
        trace_id: "",
        retention: Duration::from_secs(600),
    };
    let Claimed::Execute(execution) = store.claim(&claim).await.unwrap() else { panic!("it was claimed") };
    store.end(&execution, &Outcome::Completed(Reply::json(201, &done))).await.unwrap();
    let replay = gateway.produce(key, &body).await;
    let seen = (replay.status, replay.header("idempotent-replay"), replay.json());
    assert_eq!(seen, (201, Some("true"), done));
    broker.delete(&queue).await;
}

/// Checks that bodies which would cost the processor, a store or the broker much are refused like
/// any other mistake, by a 400 with a short response.
#[tokio::test]
async fn bodies_that_are_out_of_all_bounds() {
    let gateway = Gateway::new();
    let gzip = |body: String| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(body.as_bytes()).unwrap();
        gzip.finish().unwrap()
    };
    let target = |member: &str, value: &str| format!(r#"{{"target":{{"{member}":"{value}"}}}}"#);
    let long_name = format!("{{\"{}\":[{}0]}}", "a".repeat(2_000_000), "0,".repeat(1_000_000));
    for (body, pointer) in [
        (long_name, "/aaa"),
        (format!("{{\"{}\":1}}", "/".repeat(3_500_000)), "/~1~1"),
        (target("connName", &"127.0.0.1:1,".repeat(180_000)), "/target/connName"),
        (target("connName", "127.0.0.1:1,127.0.0.1:1"), "/target/connName"),
        (target("queueManager", &"a".repeat(1_000_000)), "/target/queueManager"),
        (format!(r#"{{"targetRef":"{}"}}"#, "a".repeat(5_000)), "/targetRef"),
    ] {
        // A move has its target in `from`.
        for path in targeted().into_iter().filter(|path| *path != "/messages/move") {
            let key = Uuid::new_v4().to_string();
            let headers = [
                ("x-api-key", KEY_A),
                ("content-type", "application/json"),
                ("content-encoding", "gzip"),
                ("idempotency-key", key.as_str()),
            ];
            let answer = gateway.send("POST", path, &headers, gzip(body.clone())).await;
            assert!(answer.bytes.len() <= api::MAX_BODY, "{} bytes", answer.bytes.len());
            if path != PRODUCE && body.len() > api::body::MAX_COMMAND {
                answer.expect_problem(413, "MAX_PAYLOAD_EXCEEDED");
                continue;
            }
            let answer = answer.expect_problem(400, "SCHEMA_VIOLATION");
            let found = answer.json()["errors"][0]["pointer"].as_str().unwrap().to_owned();
            assert!(found.starts_with(pointer), "{found}");
        }
    }
}

#[tokio::test]
async fn media_types_compression_and_size() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let body = queue.target().to_string();
    let key = Uuid::new_v4().to_string();
    let send = async |content_type: &str, encoding: &str, body: Vec<u8>| {
        let headers = [
            ("x-api-key", KEY_A),
            ("content-type", content_type),
            ("content-encoding", encoding),
            ("idempotency-key", key.as_str()),
        ];
        gateway.send("POST", PRODUCE, &headers, body).await
    };
    send("text/plain", "identity", body.clone().into()).await.expect_problem(415, "CONTENT_TYPE");
    send("application/json", "br", body.clone().into()).await.expect_problem(415, "CONTENT_ENCODING");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&vec![b' '; 5_000_000]).unwrap();
    let bomb = gzip.finish().unwrap();
    send("application/json", "gzip", bomb.clone()).await.expect_problem(413, "MAX_PAYLOAD_EXCEEDED");
    send("application/json", "identity", vec![b' '; 4_194_305])
        .await
        .expect_problem(413, "MAX_PAYLOAD_EXCEEDED");
    send("application/json", "gzip", bomb[..bomb.len() / 2].to_vec())
        .await
        .expect_problem(400, "CONTENT_CORRUPT");
    let mangled = String::from_utf8_lossy(&bomb).into_owned();
    send("application/json", "gzip", mangled.into()).await.expect_problem(400, "CONTENT_CORRUPT");
    assert_eq!(gateway.depth(&queue.name).await, 0);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn api_keys_and_scopes() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let body = queue.target();
    let json_type = ("content-type", "application/json");
    for path in targeted() {
        gateway
            .send("POST", path, &[json_type], body.to_string())
            .await
            .expect_problem(401, "API_KEY_REQUIRED");
        gateway.with_key("no-such-key").post(path, &body).await.expect_problem(401, "API_KEY_INVALID");
        gateway.with_key(PHARMACY_KEY).post(path, &body).await.expect_problem(403, "SCOPE_REQUIRED");
    }
    let reader = gateway.with_key(READONLY_KEY);
    reader.produce(Uuid::new_v4(), &body).await.expect_problem(403, "SCOPE_REQUIRED");
    reader.consume(Uuid::new_v4(), &body).await.expect_problem(403, "SCOPE_REQUIRED");
    reader.post("/queue/depth", &body).await.expect(200);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn idempotency_headers() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let key = Uuid::new_v4().to_string();
    for path in targeted().into_iter().filter(|path| !UNKEYED.contains(path)) {
        let body = body_of(path, &queue.target());
        gateway.post(path, &body).await.expect_problem(400, "IDEMPOTENCY_KEY_REQUIRED");
        for malformed in
            ["order-17", "{5c1e0a56-4a58-4aaf-9359-83ec8f663f10}", "5c1e0a56-4a58-0aaf-9359-83ec8f663f10", ""]
        {
            let answer = gateway.post_with(path, &[("idempotency-key", malformed)], &body).await;
            answer.expect_problem(400, "IDEMPOTENCY_KEY_MALFORMED");
        }
        let twice = [("idempotency-key", key.as_str()), ("idempotency-key", key.as_str())];
        gateway.post_with(path, &twice, &body).await.expect_problem(400, "IDEMPOTENCY_KEY_MALFORMED");
        for expiry in ["0", "2592001", "soon"] {
            let headers = [("idempotency-key", key.as_str()), ("idempotency-expiry-seconds", expiry)];
            gateway
                .post_with(path, &headers, &body)
                .await
                .expect_problem(400, "IDEMPOTENCY_EXPIRY_OUT_OF_RANGE");
        }
    }
    assert_eq!(gateway.depth(&queue.name).await, 0);
    broker.delete(&queue).await;
}

async fn targets_that_do_not_exist_or_do_not_answer(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let inline = |pointer: &str, value: &str| {
        let mut target = site.inline(&queue);
        *target.pointer_mut(pointer).unwrap() = json!(value);
        json!({ "target": target })
    };
    let cases = [
        (json!({"targetRef": "nowhere"}), 404, "TARGET_REF_NOT_FOUND"),
        (site.request(&site.missing_queue(), json!({})), 404, "QUEUE_NOT_FOUND"),
        (inline("/auth/passwordRef", "secret://local/wrong"), 502, "AUTHENTICATION_FAILED"),
        (inline("/auth/passwordRef", "secret://local/absent"), 502, "AUTHENTICATION_FAILED"),
        (inline("/connName", "127.0.0.1:1"), 503, "BROKER_UNREACHABLE"),
    ];
    for (body, status, reason) in cases {
        // A test of a connection succeeds, and has the reason in its steps.
        for path in operations().into_iter().filter(|path| *path != "/connections/test") {
            let answer = gateway.operate(path, &body).await.expect_problem(status, reason);
            assert_eq!(answer.header("retry-after").is_some(), status == 503, "{reason}");
        }
    }
    assert_eq!(site.ready(&queue).await, 0);
    site.delete(&queue).await;
}

async fn a_problem_repeats_no_secret_and_no_body(on: On) {
    let (gateway, site) = (Gateway::new(), Site::start(on).await);
    let queue = site.queue().await;
    let mut wrong = json!({"target": site.inline(&queue)});
    wrong["target"]["auth"]["passwordRef"] = json!("secret://local/wrong");
    let body = site.request(&queue, json!({"batch": {"count": "hunter2"}}));
    for answer in
        [gateway.produce(Uuid::new_v4(), &wrong).await, gateway.produce(Uuid::new_v4(), &body).await]
    {
        assert!(answer.status >= 400, "{answer:?}");
        let (text, password) = (String::from_utf8(answer.bytes).unwrap(), QueueManager::password());
        for secret in [password.as_str(), "hunter2", KEY_A, &variable("IDEMPOTENCY_TABLE")] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    site.delete(&queue).await;
}

#[tokio::test]
async fn an_id_of_a_load_test_that_is_none_is_refused_and_a_key_stops_one_test() {
    let gateway = Gateway::new();
    let key = Uuid::new_v4().to_string();
    let send = async |method: &str, path: &str| {
        let headers = [("x-api-key", KEY_A), ("idempotency-key", key.as_str())];
        gateway.send(method, path, &headers, "").await
    };
    for (method, path) in [("GET", "/tests/1"), ("DELETE", "/tests/1"), ("POST", "/tests/1/stop")] {
        let problem = send(method, path).await.expect_problem(400, "INVALID_PARAMETER").json();
        assert_eq!(problem["parameter"], "test_id", "{method} {path}");
    }
    let [one, other] = [(); 2].map(|()| format!("/tests/{}/stop", Uuid::now_v7()));
    gateway
        .send("POST", &one, &[("x-api-key", KEY_A)], "")
        .await
        .expect_problem(400, "IDEMPOTENCY_KEY_REQUIRED");
    send("POST", &one).await.expect_problem(404, "TEST_NOT_FOUND");
    send("POST", &other).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    send("POST", &one).await.expect_problem(404, "TEST_NOT_FOUND");
}

#[tokio::test]
async fn paths_and_methods() {
    let gateway = Gateway::new();
    for path in ["/", "/messages", "/messages/produce/", "/v1/inovafarma/products/", "/test"] {
        let answer = gateway.send("POST", path, &[], "{}").await;
        assert_eq!(
            answer.expect_problem(404, "ROUTE_NOT_FOUND").json()["code"],
            "ERR404_NOT_FOUND",
            "{path}"
        );
    }
    for (method, path, allow) in
        [("GET", PRODUCE, "POST"), ("DELETE", "/queue/depth", "POST"), ("POST", "/status", "GET")]
    {
        let answer = gateway.send(method, path, &[], "").await.expect_problem(405, "METHOD_NOT_ALLOWED");
        assert!(answer.header("allow").is_some_and(|allowed| allowed.contains(allow)), "{method} {path}");
    }
}
