//! Tests of mistakes that are common in a client's first requests. Each response must name the
//! problem, where it is, the wrong value and the next step; each [`Row`] lists words for all of
//! that.

use std::fmt::Write as _;

use end_to_end::{Answer, Broker, Gateway, Ingest, KEY_A, KEY_B, Load, READONLY_KEY, variable};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use crate::batches::{accept, without_payload};

const PRODUCE: &str = "/messages/produce";
const CONSUME: &str = "/messages/consume";
const DEPTH: &str = "/queue/depth";
const PRODUCTS: &str = "/v1/inovafarma/products";
const BATCHES: &str = "/v1/inovafarma/batches";

/// Request with a mistake, and the response that the client must get.
struct Row {
    method: &'static str,
    path: String,
    /// Header names and values that differ from those of a correct request. An empty value removes
    /// the header.
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
    status: u16,
    reason: &'static str,
    /// JSON pointers that the response must have, to the mistakes in the request's body.
    pointers: Vec<&'static str>,
    /// Texts that the response must contain: the problem, the wrong value if the response may
    /// repeat it, and the next step.
    says: Vec<String>,
}

impl Row {
    fn post(path: &str, body: &Value, status: u16, reason: &'static str) -> Self {
        let (path, body) = (path.to_owned(), body.to_string().into_bytes());
        let (headers, pointers, says) = (Vec::new(), Vec::new(), Vec::new());
        Self { method: "POST", path, headers, body, status, reason, pointers, says }
    }

    fn text(path: &str, body: &str, status: u16, reason: &'static str) -> Self {
        Self { body: body.as_bytes().to_vec(), ..Self::post(path, &Value::Null, status, reason) }
    }

    fn get(path: &str, status: u16, reason: &'static str) -> Self {
        Self { method: "GET", body: Vec::new(), ..Self::post(path, &Value::Null, status, reason) }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn at(mut self, pointers: &[&'static str]) -> Self {
        self.pointers = pointers.to_vec();
        self
    }

    fn says(mut self, words: &[&str]) -> Self {
        self.says.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    async fn send(&self, gateway: &Gateway) -> Answer {
        let key = Uuid::new_v4().to_string();
        let mut headers = vec![
            ("x-api-key", KEY_A),
            ("content-type", "application/json"),
            ("idempotency-key", key.as_str()),
            ("x-inova-load-type", "delta"),
        ];
        for &(name, value) in &self.headers {
            headers.retain(|(other, _)| *other != name);
            if !value.is_empty() {
                headers.push((name, value));
            }
        }
        gateway.send(self.method, &self.path, &headers, self.body.clone()).await
    }

    /// Returns the difference between the response and this row as text, or `None` if there is
    /// none.
    fn missing(&self, answer: &Answer) -> Option<String> {
        let problem = answer.json();
        let detail = problem["detail"].as_str().unwrap_or_default();
        let faults = problem["errors"].as_array().cloned().unwrap_or_default();
        let pointers: Vec<_> = faults.iter().map(|fault| fault["pointer"].as_str().unwrap()).collect();
        let details = faults.iter().map(|fault| fault["detail"].as_str().unwrap());
        let texts: Vec<_> = details.chain([detail]).collect();
        let unsaid: Vec<_> =
            self.says.iter().filter(|word| !texts.iter().any(|text| text.contains(word.as_str()))).collect();
        let found = (answer.status, problem["reason"].as_str().unwrap_or_default(), pointers);
        let is_right = found == (self.status, self.reason, self.pointers.clone()) && unsaid.is_empty();
        (!is_right).then(|| format!("{} {}: {unsaid:?} of {problem:#}", self.method, self.path))
    }
}

/// Returns requests with mistakes in the API key, the scope or the idempotency key.
fn of_callers() -> Vec<Row> {
    let depth = json!({"targetRef": "local-rabbit"});
    vec![
        Row::post(DEPTH, &depth, 401, "API_KEY_REQUIRED").with("x-api-key", "").says(&["header X-Api-Key"]),
        Row::post(DEPTH, &depth, 401, "API_KEY_REQUIRED")
            .with("x-api-key", "")
            .with("authorization", "Bearer local-dev-key-a")
            .says(&["header X-Api-Key", "Authorization is not read"]),
        Row::post(DEPTH, &depth, 401, "API_KEY_REQUIRED")
            .with("x-api-key", "")
            .with("x-inova-api-key", KEY_A)
            .says(&["header X-Api-Key", "X-Inova-Api-Key is for the routes of products only"]),
        Row::post(DEPTH, &depth, 401, "API_KEY_INVALID")
            .with("x-api-key", "local-dev-key")
            .says(&["does not work here", "is it complete, of this deployment"]),
        Row::post(PRODUCE, &depth, 403, "SCOPE_REQUIRED")
            .with("x-api-key", READONLY_KEY)
            .says(&["needs the scope mq:write"]),
        Row::post(PRODUCE, &depth, 400, "IDEMPOTENCY_KEY_REQUIRED")
            .with("idempotency-key", "")
            .says(&["send a key in the header Idempotency-Key", "one UUID"]),
        Row::post(PRODUCE, &depth, 400, "IDEMPOTENCY_KEY_MALFORMED")
            .with("idempotency-key", "order-17")
            .says(&["must be one UUID", "only the routes of products take a name of your own"]),
    ]
}

/// Returns requests with mistakes in their target.
fn of_targets() -> Vec<Row> {
    let atomic =
        json!({"targetRef": "local-rabbit", "batch": {"transaction": {"enabled": true, "atomic": true}}});
    let inline = |more: Value| {
        let mut target = json!({"broker": "rabbitmq", "queue": "Q", "connName": "127.0.0.1:1"});
        target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "target": target })
    };
    vec![
        Row::post(DEPTH, &json!({"targetRef": "local-rabit"}), 404, "TARGET_REF_NOT_FOUND")
            .says(&["no target profile `local-rabit`", "GET /targets"]),
        Row::post(
            DEPTH,
            &json!({"targetRef": "local-rabbit", "target": {"queue": "DEV.QUEU.1"}}),
            404,
            "QUEUE_NOT_FOUND",
        )
        .says(&["the queue `DEV.QUEU.1` does not exist in the virtual host `/`", "check the name"]),
        Row::post(
            DEPTH,
            &json!({"targetRef": "local-rabbit", "queue": "DEV.QUEUE.2"}),
            400,
            "SCHEMA_VIOLATION",
        )
        .at(&["/queue"])
        .says(&["goes into `target`", r#"{"target": {"queue": …}}"#]),
        Row::post(
            DEPTH,
            &json!({"target": {"queue": "Q", "connName": "127.0.0.1:1"}}),
            400,
            "SCHEMA_VIOLATION",
        )
        .at(&["/target/queueManager"])
        .says(&["is required for ibmmq", "unless `broker` says rabbitmq"]),
        Row::post(DEPTH, &inline(json!({"connName": "broker.example.com:5672"})), 403, "TARGET_NOT_ALLOWED")
            .says(&["no allowed inline target covers", "name a profile (targetRef)", "InlineTargets"]),
        Row::post(DEPTH, &inline(json!({})), 503, "BROKER_UNREACHABLE")
            .says(&["127.0.0.1:1 refuses connections"]),
        Row::post(PRODUCE, &atomic, 422, "UNSUPPORTED_BY_BROKER")
            .at(&["/batch/transaction/atomic"])
            .says(&["RabbitMQ"]),
    ]
}

/// Returns requests with mistakes in the parameters of the connection to a broker.
fn of_connections() -> Vec<Row> {
    let user = Url::parse(&variable("AMQP_URL")).unwrap().username().to_owned();
    let connection = variable("RABBIT_CONN_NAME");
    let inline = |password: &str, tls: bool| {
        json!({"target": {
            "broker": "rabbitmq", "queueManager": "/", "queue": "DEV.QUEUE.1", "connName": connection,
            "ssl": {"enabled": tls}, "auth": {"user": user, "passwordRef": password},
        }})
    };
    let plain = format!("what listens at {connection} does not speak TLS");
    vec![
        // Without Retry-After: the same request fails again.
        Row::post(DEPTH, &inline("secret://local/rabbit", true), 502, "BROKER_REJECTED").says(&[
            plain.as_str(),
            "name the port for TLS (5671",
            "or leave ssl.enabled away",
        ]),
        Row::post(DEPTH, &inline("secret://local/wrong", false), 502, "AUTHENTICATION_FAILED")
            .says(&["RabbitMQ refused", "the password of `secret://local/wrong`, which /target/auth names"]),
    ]
}

/// Returns requests with mistakes in their body.
fn of_bodies() -> Vec<Row> {
    let misspelt = json!({"targetRef": "local-rabbit", "maxMesages": 1, "waitSeconds": "0", "browse": true});
    let unfit = json!({"targetRef": "local-rabbit", "batch": {"count": "10", "messageSizeBytes": -1}});
    vec![
        Row::text(
            PRODUCE,
            "{\"targetRef\": \"local-rabbit\",\n \"batch\": {\"count\": 1},}",
            400,
            "MALFORMED_JSON",
        )
        .at(&[""])
        .says(&["trailing comma at line 2"]),
        Row::post(PRODUCE, &unfit, 400, "SCHEMA_VIOLATION")
            .at(&["/batch/count", "/batch/messageSizeBytes"])
            .says(&[
                "must be an integer, not a string",
                "must be between 0 and 4194304, not -1",
                "one of 2 faults",
            ]),
        Row::post(CONSUME, &misspelt, 400, "SCHEMA_VIOLATION")
            .at(&["/browse", "/maxMesages", "/waitSeconds"])
            .says(&[
                "which takes `target`, `targetRef`",
                "did you mean `maxMessages`?",
                "must be an integer, not a string",
            ]),
        Row::post(PRODUCE, &json!({}), 400, "SCHEMA_VIOLATION")
            .at(&["/target"])
            .says(&["name a target or a targetRef"]),
    ]
}

/// Returns requests with mistakes for catalogues and batches.
fn of_products() -> Vec<Row> {
    let large = format!("[{}]", " ".repeat(4_600_000));
    vec![
        Row::text(PRODUCTS, "[]", 400, "LOAD_TYPE_REQUIRED")
            .with("x-inova-load-type", "")
            .says(&["send delta or full in the header X-Inova-Load-Type"]),
        Row::text(PRODUCTS, "[]", 400, "LOAD_TYPE_INVALID")
            .with("x-inova-load-type", "Delta")
            .says(&["must be delta or full", "in lower case, not `Delta`"]),
        Row::text(PRODUCTS, "[]", 400, "CONTENT_CORRUPT")
            .with("content-encoding", "gzip")
            .says(&["the headers say gzip, but the body does not begin like one"]),
        Row::text(PRODUCTS, &large, 413, "USE_UPLOAD").says(&[
            "4600002 bytes",
            "4500000",
            "POST /v1/inovafarma/products/uploads",
        ]),
        Row::text(PRODUCTS, "a,b", 415, "CONTENT_TYPE")
            .with("content-type", "text/csv")
            .says(&["send products as `Content-Type: application/json` (an array)"]),
        Row::post(
            &format!("{PRODUCTS}/uploads"),
            &json!({"content_type": "application/gzip", "content_length": 17, "sha256": "ab".repeat(32)}),
            400,
            "SCHEMA_VIOLATION",
        )
        .at(&["/content_type"])
        .says(&["application/json", "for gzip, say so in `content_encoding`"]),
        Row::get(&format!("{BATCHES}?limt=10"), 400, "INVALID_PARAMETER")
            .says(&["limt", "did you mean `limit`?"]),
        Row::get(&format!("{BATCHES}?page=2"), 400, "INVALID_PARAMETER")
            .says(&["page", "which takes `status`"]),
        Row::get(&format!("{BATCHES}?status=DONE"), 400, "INVALID_PARAMETER")
            .says(&["must be one of", "COMPLETED"]),
        Row::get(&format!("{BATCHES}/17"), 400, "INVALID_PARAMETER").says(&["must be a UUID"]),
    ]
}

#[tokio::test]
async fn each_mistake_is_answered_with_what_is_wrong_where_and_what_to_do() {
    let gateway = Gateway::new();
    let mut wrong = String::new();
    let rows = [of_callers(), of_targets(), of_connections(), of_bodies(), of_products()];
    for row in rows.into_iter().flatten() {
        let answer = row.send(&gateway).await;
        assert!(row.status != 502 || answer.header("retry-after").is_none(), "{answer:?}");
        if let Some(missing) = row.missing(&answer) {
            writeln!(wrong, "{missing}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn a_key_of_another_body_and_a_body_for_no_function_say_what_to_do() {
    let (gateway, broker) = (Gateway::new(), Broker::connect().await);
    let queue = broker.queue().await;
    let key = Uuid::new_v4();
    let mut body = queue.target();
    gateway.produce(key, &body).await.expect(201);
    body["batch"] = json!({"count": 2});
    let problem = gateway.produce(key, &body).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    assert!(problem.json()["detail"].as_str().unwrap().contains("use a new key for a new request"));
    broker.delete(&queue).await;

    let headers = [("x-api-key", KEY_A), ("content-type", "application/json")];
    let answer = gateway.send("POST", PRODUCTS, &headers, vec![b' '; 12_000_000]).await.expect(413);
    assert_eq!(answer.json(), json!({"message": "Request Entity Too Large"}), "API Gateway's own words");
}

/// Checks that a batch's errors name the member at fault and the required form, for items with
/// mistakes. Each error also has the item's position and key.
#[tokio::test]
async fn the_mistakes_of_an_item_name_the_member_and_the_form_that_it_takes() {
    let ingest = Ingest::new();
    let item = |id: u32, member: &str, value: Value| {
        let mut item = json!({"CNPJ": "11444777000161", "SHOPID": 1, "PRODUCTID": id, "TITLE": "x"});
        item[member] = value;
        item
    };
    let rows = [
        (
            item(1, "CNPJ", json!("11222333000182")),
            "CNPJ_INVALID",
            "CNPJ",
            vec!["`11222333000182`: the check digits do not match", "correct it", "send the item again"],
        ),
        (item(2, "PRICE", json!("12,90")), "FIELD_INVALID", "PRICE", vec!["write 6.50 for 6,50"]),
        (item(3, "PRICE", json!(true)), "FIELD_INVALID", "PRICE", vec!["must be a number"]),
        (item(4, "SHOPID", json!("a")), "FIELD_INVALID", "SHOPID", vec!["not a number"]),
        (
            item(5, "DATAATUALIZACAOPRODUTO", json!("2026-13-21")),
            "FIELD_INVALID",
            "DATAATUALIZACAOPRODUTO",
            vec![
                "`2026-13-21`: it is no date",
                "write 2026-11-21 10:30:00",
                "local time of America/Sao_Paulo",
            ],
        ),
    ];
    let payload = json!(rows.iter().map(|(item, ..)| item).collect::<Vec<_>>()).to_string();
    let batch = ingest.load(Load::delta(payload.as_bytes())).await;
    assert!(batch["warnings"].to_string().contains("nothing was loaded"), "{batch}");
    let errors = ingest.errors(batch["batch_id"].as_str().unwrap()).await;
    assert_eq!(errors.len(), rows.len(), "{errors:?}");
    for ((index, (_, code, field, says)), error) in rows.iter().enumerate().zip(&errors) {
        let found = (&error["item_index"], &error["code"], &error["field"]);
        assert_eq!(found, (&json!(index), &json!(code), &json!(field)), "{error}");
        let detail = error["detail"].as_str().unwrap();
        assert!(says.iter().all(|words| detail.contains(words)), "{error}");
    }
}

/// Checks that the batch of an expired upload says how to get another URL, since S3's own response
/// to a late PUT does not mention the batch.
#[tokio::test]
async fn an_upload_that_expired_says_how_to_get_another_url() {
    let expired = without_payload(Some(-1));
    accept(std::slice::from_ref(&expired)).await;
    let path = format!("{BATCHES}/{}", expired.metadata.batch_id);
    let batch = Gateway::new().with_key(KEY_B).get(&path).await.expect(200).json();
    assert_eq!(batch["status"], "EXPIRED");
    let warning = batch["warnings"][0].as_str().unwrap();
    for words in ["before the URL expired", "POST …/products/uploads again", "same Idempotency-Key"] {
        assert!(warning.contains(words), "{warning}");
    }
}
