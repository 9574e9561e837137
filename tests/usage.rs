//! Tests of `GET /v1/usage`: the usage of a tenant counts each request once. `metering` counts on
//! its schedule, so a test waits until its requests are counted.

use std::time::{Duration, Instant};

use end_to_end::{Access, Answer, Broker, Gateway, Ingest, Load, variable};
use jiff::Timestamp;
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

const USAGE: &str = "/v1/usage";
/// Maximum time until a request is counted, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const SCOPES: &[&str] = &["mq:read", "mq:write", "products:read", "products:write"];
const KEY_NAME: &str = "till \"1\", left";

/// Tenant of one test, with an API key that has a name.
struct Tenant {
    id: String,
    api_key: String,
    gateway: Gateway,
}

impl Tenant {
    async fn new() -> Self {
        let id = Uuid::new_v4().to_string();
        let api_key =
            Access::open().await.key(&id, SCOPES, json!({"allCnpjs": true, "name": KEY_NAME})).await;
        let gateway = Gateway::new().with_key(&api_key);
        Self { id, api_key, gateway }
    }

    /// Creates a target profile of the stack's RabbitMQ that allows any queue, and returns its
    /// name.
    async fn profile(&self) -> String {
        let user = Url::parse(&variable("AMQP_URL")).unwrap().username().to_owned();
        let target = json!({
            "broker": "rabbitmq", "connName": variable("RABBIT_CONN_NAME"),
            "auth": {"user": user, "passwordRef": "secret://local/rabbit"},
        });
        Access::open().await.profile_with(&self.id, &target, json!({"queues": ["*"]})).await
    }

    /// Returns the path of the usage of today and yesterday, since a test may run over midnight.
    /// `more` is appended to the query.
    fn path(&self, more: &str) -> String {
        let yesterday = Timestamp::now() - jiff::SignedDuration::from_hours(24);
        format!("{USAGE}?from={}{more}", yesterday.strftime("%Y-%m-%d"))
    }

    /// Waits until every request before this call is counted, and returns the tenant's usage by
    /// month.
    async fn usage(&self) -> Value {
        let (begin, now) = (Instant::now(), Timestamp::now());
        loop {
            let usage = self.gateway.get(&self.path("&group=month")).await.expect(200).json();
            let counted_until = usage["countedUntil"].as_str().map(|time| time.parse::<Timestamp>().unwrap());
            if counted_until.is_some_and(|counted_until| counted_until > now) {
                return usage;
            }
            assert!(begin.elapsed() < PATIENCE, "requests are not counted: {usage}");
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }

    async fn csv(&self) -> Answer {
        let headers = [("x-api-key", self.api_key.as_str()), ("accept", "text/csv")];
        self.gateway.send("GET", &self.path(""), &headers, "").await.expect(200)
    }
}

/// Returns the requests, failures, messages and bytes of an operation by the API key named `key`,
/// summed over all months: a test that runs over midnight may have two.
fn operation(usage: &Value, key: &str, operation: &str) -> [u64; 4] {
    let entries = usage["usage"].as_array().unwrap().iter().filter(|entry| entry["key"] == key);
    let operations = entries.flat_map(|entry| entry["operations"].as_array().unwrap());
    let found = operations.filter(|found| found["operation"] == operation);
    found.fold([0; 4], |sum, found| {
        let figures = ["requests", "failed", "messages", "bytes"].map(|name| found[name].as_u64().unwrap());
        std::array::from_fn(|index| sum[index] + figures[index])
    })
}

#[tokio::test]
async fn requests_with_a_record_are_counted_once_under_the_name_of_their_key() {
    let (tenant, broker) = (Tenant::new().await, Broker::connect().await);
    let (profile, queue) = (tenant.profile().await, broker.queue().await);
    let on = |queue: &str, members: Value| {
        let mut body = json!({"targetRef": profile, "target": {"queue": queue}});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        body
    };
    let batch = json!({"batch": {"count": 3, "messageSizeBytes": 10}});
    let (key, put) = (Uuid::new_v4(), on(&queue.name, batch.clone()));
    tenant.gateway.produce(key, &put).await.expect(201);
    for _ in 0..2 {
        let again = tenant.gateway.produce(key, &put).await.expect(201);
        assert_eq!(again.header("idempotent-replay"), Some("true"));
    }
    let absent = on(&format!("absent-{}", Uuid::new_v4()), batch);
    tenant.gateway.produce(Uuid::new_v4(), &absent).await.expect_problem(404, "QUEUE_NOT_FOUND");
    let take = on(&queue.name, json!({"maxMessages": 2}));
    let got = tenant.gateway.consume(Uuid::new_v4(), &take).await.expect(200).json();
    assert_eq!(got["count"], 2, "{got}");

    for _ in 0..2 {
        let usage = tenant.usage().await;
        assert_eq!(operation(&usage, KEY_NAME, "produce"), [2, 1, 3, 30], "{usage}");
        assert_eq!(operation(&usage, KEY_NAME, "consume"), [1, 0, 2, 20], "{usage}");
        assert!(
            usage["usage"].as_array().unwrap().iter().all(|entry| entry["tenant"] == tenant.id),
            "{usage}"
        );
    }
    let csv = tenant.csv().await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let text = String::from_utf8(csv.bytes).unwrap();
    let begin = format!("{},\"till \"\"1\"\", left\",", tenant.id);
    let produce = text.lines().find(|line| line.starts_with(&begin) && line.contains(",produce,2,1,3,30,"));
    assert!(text.starts_with("tenant,key,period,operation,requests,") && produce.is_some(), "{text}");
    broker.delete(&queue).await;
}

#[tokio::test]
async fn a_batch_is_counted_on_the_day_of_its_receipt_when_it_is_final() {
    let tenant = Tenant::new().await;
    let body = br#"[{"CNPJ": "no"}]"#;
    Ingest::new().with_key(&tenant.api_key).load(Load::delta(body)).await;
    let usage = tenant.usage().await;
    assert_eq!(operation(&usage, KEY_NAME, "ingest")[0], 1, "{usage}");
    let batches = usage["usage"].as_array().unwrap().iter().filter(|entry| entry["ingest"].is_object());
    let batches: Vec<_> = batches.map(|entry| (&entry["key"], &entry["ingest"])).collect();
    let ingest = json!({
        "batches": 1, "bytes": body.len(),
        "items": {"inserted": 0, "updated": 0, "unchanged": 0, "stale": 0, "failed": 1},
        // Of days that are over.
        "storedByteDays": 0,
    });
    assert_eq!(batches, [(&json!(""), &ingest)], "{usage}");
    let text = String::from_utf8(tenant.csv().await.bytes).unwrap();
    assert!(text.contains(&format!(",ingest,0,0,0,{},", body.len())), "{text}");
}

#[tokio::test]
async fn a_tenant_sees_its_own_usage_and_an_operator_that_of_all() {
    let tenant = Tenant::new().await;
    let own = tenant.gateway.get(&format!("{USAGE}?tenant={}", tenant.id)).await.expect(200);
    assert_eq!(own.header("cache-control"), Some("no-store"));
    assert_eq!((&own.json()["usage"], &own.json()["group"]), (&json!([]), &json!("day")));
    let other = format!("{USAGE}?tenant={}", Uuid::new_v4());
    tenant.gateway.get(&other).await.expect_problem(403, "SCOPE_REQUIRED");
    for operator in [Gateway::new(), Gateway::rest()] {
        assert_eq!(operator.get(&other).await.expect(200).json()["usage"], json!([]));
        operator.get(USAGE).await.expect(200);
    }
}

#[tokio::test]
async fn a_wrong_parameter_is_named() {
    let gateway = Gateway::new();
    for (query, parameter) in [
        ("from=2026-11-31", "from"),
        ("to=2026-11-30T00:00:00Z", "to"),
        ("from=2026-11-02&to=2026-11-01", "from"),
        ("from=2025-01-01&to=2026-11-01", "from"),
        ("group=week", "group"),
        ("tenant=a%23b", "tenant"),
        ("until=2026-11-01", "until"),
    ] {
        let answer = gateway.get(&format!("{USAGE}?{query}")).await;
        let problem = answer.expect_problem(400, "INVALID_PARAMETER").json();
        assert_eq!(problem["parameter"], parameter, "{query}: {problem}");
    }
}
