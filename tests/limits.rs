//! Tests of the limits per second of a tenant and of its targets. The rates are so low that no
//! tokens are refilled during a test.

use std::sync::Arc;
use std::time::Duration;

use access::{DefaultLimits, Month};
use aws_sdk_dynamodb::Client;
use bytes::Bytes;
use end_to_end::{Access, Answer, Broker, Gateway, Ingest, Load, variable};
use endpoint::limits::Limiter;
use front::{Action, Operation};
use http::{Request, Response};
use idempotency::{Execution, Outcome, Store};
use ingestion::generate::{Catalogue, Layout};
use serde_json::{Value, json};
use test_support::http_server::{Server, response};
use url::Url;
use uuid::Uuid;

use crate::{budget, routes};

const ALL: &[&str] = &["mq:read", "mq:write", "mq:admin", "products:read", "products:write", "ops:read"];

/// Routes whose requests count towards no limit.
const FREE: [&str; 12] = [
    "/health/live",
    "/health/ready",
    "/openapi.json",
    "/docs",
    "/docs/{file}",
    "/console",
    "/console/{file}",
    "/status",
    "/limits",
    "/metrics",
    "/v1/requests/{operation}/{key}",
    "/v1/usage",
];

/// Returns a limit that allows `units` requests or messages at once, and practically no further
/// ones.
fn few(units: u64) -> Value {
    json!({"perSecond": 0.001, "burst": units})
}

/// Tenant of one test, with an API key that has all scopes.
struct Tenant {
    id: String,
    api_key: String,
    gateway: Gateway,
    access: Access,
}

impl Tenant {
    async fn new() -> Self {
        let (id, access) = (Uuid::new_v4().to_string(), Access::open().await);
        let api_key = access.key(&id, ALL, json!({"allCnpjs": true})).await;
        let gateway = Gateway::new().with_key(&api_key);
        Self { id, api_key, gateway, access }
    }

    async fn limited(members: Value) -> Self {
        let tenant = Self::new().await;
        tenant.access.limits(&tenant.id, members).await;
        tenant
    }

    /// Creates a target profile of the stack's RabbitMQ that allows any queue, and returns its
    /// name.
    async fn profile(&self) -> String {
        let user = Url::parse(&variable("AMQP_URL")).unwrap().username().to_owned();
        let target = json!({
            "broker": "rabbitmq", "connName": variable("RABBIT_CONN_NAME"),
            "auth": {"user": user, "passwordRef": "secret://local/rabbit"},
        });
        self.access.profile_with(&self.id, &target, json!({"queues": ["*"]})).await
    }
}

/// Checks that a 429 says when to retry and which limit was reached, and returns its detail.
/// Response headers describe only limits of requests, not those of messages.
#[track_caller]
fn refused(answer: Answer, reason: &str) -> String {
    let answer = answer.expect_problem(429, reason);
    let retry_after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(retry_after > 0);
    let body = answer.json();
    let violated = body["violated-policies"].as_array().unwrap();
    assert_eq!(violated[0] == "tenant", reason == "TENANT_RATE_LIMIT", "{body}");
    let detail = body["detail"].as_str().unwrap().to_owned();
    for name in ["ratelimit", "ratelimit-policy"] {
        assert_eq!(answer.header(name).is_some(), !detail.contains("messages"), "{name}: {detail}");
    }
    detail
}

#[tokio::test]
async fn a_tenant_beyond_its_limit_gets_from_no_route_more_than_what_is_recorded() {
    let tenant = Tenant::limited(json!({"requests": few(2)})).await;
    let (ingest, key) = (Ingest::new().with_key(&tenant.api_key), Uuid::new_v4());
    let catalogue = |items| {
        let seed = Uuid::new_v4().as_u64_pair().0;
        Catalogue { seed, items, ..Catalogue::default() }.payload(Layout::Array)
    };
    let (products, other) = (catalogue(1), catalogue(2));
    let first = ingest.send(key, Load::delta(&products)).await.expect(202);
    let second = tenant.gateway.get("/targets").await.expect(200);
    assert!(second.header("ratelimit").is_some() && second.header("ratelimit-policy").is_some());

    let profile = tenant.profile().await;
    let batch = first.json();
    let target = json!({"targetRef": profile, "target": {"queue": "LIMITED"}});
    for row in routes::rows(&target, batch["batch_id"].as_str().unwrap()) {
        let answer = routes::send(&row, Some(&tenant.api_key)).await;
        if FREE.contains(&row.route) {
            assert_ne!(answer.status, 429, "{}", row.route);
            assert!(answer.header("ratelimit").is_none(), "{}", row.route);
        } else {
            let detail = refused(answer, "TENANT_RATE_LIMIT");
            assert!(detail.contains("requests"), "{} {}: {detail}", row.method, row.path);
        }
    }

    let again = ingest.send(key, Load::delta(&products)).await.expect(202);
    assert_eq!((again.header("idempotent-replay"), again.json()), (Some("true"), batch));
    ingest.send(key, Load::delta(&other)).await.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    let unlimited = Tenant::new().await;
    unlimited.gateway.get("/targets").await.expect(200);
}

#[tokio::test]
async fn a_target_s_limit_is_that_of_its_profile_or_of_its_queue_manager() {
    let tenant = Tenant::new().await;
    let [limited, other] = [tenant.profile().await, tenant.profile().await];
    let targets = json!({ &limited: {"requests": few(1)} });
    let limits = json!({"targets": targets, "queueManagers": {"/": {"requests": few(1)}}});
    tenant.access.limits(&tenant.id, limits).await;
    let test = async |target: Value| tenant.gateway.post("/connections/test", &target).await;

    test(json!({"targetRef": limited})).await.expect(200);
    let body = json!({"targetRef": limited, "target": {"queue": "DEV.QUEUE.1"}});
    let depth = tenant.gateway.post("/queue/depth", &body).await;
    let detail = refused(depth, "TARGET_RATE_LIMIT");
    assert!(detail.contains(&limited), "{detail}");
    for _ in 0..3 {
        test(json!({"targetRef": other})).await.expect(200);
    }

    // Without a profile the queue manager decides, whatever the address.
    let inline = |port: u16| json!({"target": {"broker": "rabbitmq", "connName": format!("127.0.0.1:{port}"), "queue": "Q"}});
    test(inline(1)).await.expect(200);
    refused(test(inline(2)).await, "TARGET_RATE_LIMIT");
    let elsewhere = json!({"target": {"broker": "rabbitmq", "connName": "127.0.0.1:1", "queueManager": "eu", "queue": "Q"}});
    test(elsewhere).await.expect(200);
}

#[tokio::test]
async fn the_messages_of_a_produce_and_the_rate_of_a_load_test_are_limited() {
    let (tenant, broker) = (Tenant::new().await, Broker::connect().await);
    let (profile, queue) = (tenant.profile().await, broker.queue().await);
    let messages = json!({ &profile: {"requests": few(100), "messages": few(10), "bytes": few(1_000)} });
    tenant.access.limits(&tenant.id, json!({"requests": few(100), "targets": messages})).await;
    let target = json!({"targetRef": profile, "target": {"queue": queue.name}});
    let with = |name: &str, value: Value| {
        let mut body = target.clone();
        body[name] = value;
        body
    };
    let produce = async |count: u64| {
        let batch = json!({"count": count, "messageSizeBytes": 1});
        tenant.gateway.produce(Uuid::new_v4(), &with("batch", batch)).await
    };
    produce(10).await.expect(201);
    let detail = refused(produce(1).await, "TARGET_RATE_LIMIT");
    assert!(detail.contains("messages"), "{detail}");
    // A look at the queue moves no messages.
    tenant.gateway.post("/queue/depth", &target).await.expect(200);

    let mut test = with("producers", json!({"ratePerSec": 1}));
    test["messages"] = json!(1);
    let answer = tenant.gateway.post_once("/tests", Uuid::new_v4(), &test).await;
    let detail = answer.expect_problem(429, "TARGET_RATE_LIMIT").json()["detail"].to_string();
    assert!(detail.contains("ratePerSec") && detail.contains("under a new key"), "{detail}");

    tenant.gateway.get("/limits?unit=bytes").await.expect_problem(400, "INVALID_PARAMETER");
    let shown = tenant.gateway.get("/limits").await.expect(200).json();
    let shown: Vec<_> =
        shown["limits"].as_array().unwrap().iter().map(|limit| limit["unit"].clone()).collect();
    assert_eq!(shown, ["requests", "requests", "messages", "bytes"]);
    broker.delete(&queue).await;
}

#[tokio::test]
async fn limits_that_cannot_be_read_let_nobody_through() {
    let tenant = Tenant::limited(json!({"requests": {"perSecond": "many"}})).await;
    for path in ["/targets", "/limits", "/v1/inovafarma/batches"] {
        tenant.gateway.get(path).await.expect_problem(503, "STORE_UNAVAILABLE");
    }
}

/// Stand-in for `mq-access` that claims to have done its work: it completes the record. A consume
/// returns five messages.
async fn mq_access(request: Request<Bytes>, store: Arc<Store>) -> Option<Response<Bytes>> {
    let order: Value = serde_json::from_slice(request.body()).unwrap();
    let change = &order["work"]["change"];
    let execution: Execution = serde_json::from_value(change["execution"].clone()).unwrap();
    let messages = vec![json!({"bodyBase64": "YQ=="}); 5];
    let reply = match change["change"].get("consume") {
        Some(_) => api::Reply::json(200, &json!({"count": 5, "messages": messages})),
        None => api::Reply::json(201, &json!({"enqueued": 1})),
    };
    store.end(&execution, &Outcome::Completed(reply.clone())).await.unwrap();
    Some(response(200, serde_json::to_string(&reply).unwrap()))
}

/// Execution environment of a gateway function, which runs in this process. It has its own shares
/// of the limits in memory.
struct Environment {
    gateway: front::Gateway,
    api_key: String,
    _server: Server,
}

impl Environment {
    async fn of(tenant: &Tenant) -> Self {
        let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
        let dynamodb = Client::new(&sdk);
        let store = Arc::new(Store::new(dynamodb.clone(), variable("IDEMPOTENCY_TABLE")));
        let server = Server::start(move |request| mq_access(request, Arc::clone(&store))).await;
        let mut gateway = budget::gateway("limits", &server.url()).await;
        gateway.front.limiter = Limiter::new(dynamodb, variable("LIMITS_TABLE"), DefaultLimits::default());
        Self { gateway, api_key: tenant.api_key.clone(), _server: server }
    }

    /// Sends a request to the function. Returns the response's status, whether it is a replay, and
    /// the reason in its problem, or an empty text.
    async fn send<O: Operation<Work = Action>>(&self, key: Uuid, body: &Value) -> (u16, bool, String) {
        let request = budget::request::<O>(&self.api_key, key, body);
        let response = self.gateway.handle::<O>(request).await;
        let is_replay = response.headers().contains_key("idempotent-replay");
        let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        (response.status().as_u16(), is_replay, body["reason"].as_str().unwrap_or_default().to_owned())
    }
}

#[tokio::test]
async fn a_replay_and_a_conflict_cost_nothing_and_are_there_beyond_the_limit() {
    let tenant = Tenant::limited(json!({"requests": few(2)})).await;
    let (profile, environment) = (tenant.profile().await, Environment::of(&tenant).await);
    let body = |text: &str| json!({"targetRef": profile, "target": {"queue": "Q"}, "messages": [{"bodyText": text}]});
    let produce = async |key, text| environment.send::<produce::ProduceRequest>(key, &body(text)).await;
    let [first, second, third] = [(); 3].map(|()| Uuid::new_v4());
    let done = |is_replay| (201, is_replay, String::new());
    let conflict = (409, false, "CONFLICTING_IDEMPOTENT_REQUEST".to_owned());
    let limited = (429, false, "TENANT_RATE_LIMIT".to_owned());
    assert_eq!(produce(first, "a").await, done(false));
    for _ in 0..4 {
        assert_eq!(produce(first, "a").await, done(true));
        assert_eq!(produce(first, "b").await, conflict);
    }
    assert_eq!(produce(second, "a").await, done(false), "the record's answers drew nothing");
    assert_eq!(produce(third, "a").await, limited);
    assert_eq!(produce(first, "a").await, done(true));
    assert_eq!(produce(second, "b").await, conflict);
    // A refusal left no record.
    assert_eq!(produce(third, "b").await, limited);
}

#[tokio::test]
async fn a_spent_budget_refuses_what_has_no_record() {
    let tenant = Tenant::new().await;
    let (profile, before) = (tenant.profile().await, Environment::of(&tenant).await);
    let body = |text: &str| json!({"targetRef": profile, "target": {"queue": "Q"}, "messages": [{"bodyText": text}]});
    let [first, second] = [(); 2].map(|()| Uuid::new_v4());
    let done = |is_replay| (201, is_replay, String::new());
    assert_eq!(before.send::<produce::ProduceRequest>(first, &body("a")).await, done(false));
    tenant.access.spent(&tenant.id, &Month::of(jiff::Timestamp::now()).to_string()).await;
    // The first environment remembers for a minute that there was no such item.
    let after = Environment::of(&tenant).await;
    let produce = async |key, text| after.send::<produce::ProduceRequest>(key, &body(text)).await;
    let spent = (429, false, "BUDGET_EXCEEDED".to_owned());
    assert_eq!(produce(second, "a").await, spent);
    assert_eq!(produce(first, "a").await, done(true));
    assert_eq!(produce(first, "b").await, (409, false, "CONFLICTING_IDEMPOTENT_REQUEST".to_owned()));
    // The budget of another month refuses nothing.
    tenant.access.spent(&tenant.id, "2026-01").await;
    let later = Environment::of(&tenant).await;
    assert_eq!(later.send::<produce::ProduceRequest>(second, &body("a")).await, done(false));
}

#[tokio::test]
async fn a_spent_budget_is_said_with_the_time_at_which_the_month_ends() {
    let tenant = Tenant::new().await;
    tenant.access.spent(&tenant.id, &Month::of(jiff::Timestamp::now()).to_string()).await;
    let answer = tenant.gateway.get("/targets").await.expect_problem(429, "BUDGET_EXCEEDED");
    let retry_after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=31 * 86_400).contains(&retry_after), "{retry_after}");
}

#[tokio::test]
async fn a_consume_is_charged_the_messages_that_it_returned() {
    let tenant = Tenant::new().await;
    let (profile, environment) = (tenant.profile().await, Environment::of(&tenant).await);
    tenant.access.limits(&tenant.id, json!({"targets": { &profile: {"messages": few(3)} }})).await;
    let body = json!({"targetRef": profile, "target": {"queue": "Q"}, "maxMessages": 5, "waitSeconds": 0});
    let consume = async |key| environment.send::<consume::ConsumeRequest>(key, &body).await;
    let key = Uuid::new_v4();
    assert_eq!(consume(key).await, (200, false, String::new()), "nobody knows how many there are");
    assert_eq!(consume(Uuid::new_v4()).await, (429, false, "TARGET_RATE_LIMIT".to_owned()));
    assert_eq!(consume(key).await, (200, true, String::new()));
}

#[tokio::test]
async fn tags_count_as_bytes() {
    let tenant = Tenant::new().await;
    let (profile, environment) = (tenant.profile().await, Environment::of(&tenant).await);
    tenant.access.limits(&tenant.id, json!({"targets": { &profile: {"bytes": few(10)} }})).await;
    let produce = async |tags: &[&str]| {
        let messages = json!([{"bodyText": "a"}]);
        let body =
            json!({"targetRef": profile, "target": {"queue": "Q"}, "messages": messages, "tags": tags});
        environment.send::<produce::ProduceRequest>(Uuid::new_v4(), &body).await
    };
    assert_eq!(produce(&["longer-than-the-burst"]).await, (201, false, String::new()), "the bucket is full");
    assert_eq!(produce(&["again"]).await, (429, false, "TARGET_RATE_LIMIT".to_owned()));
}
