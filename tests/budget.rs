//! Tests of the limit on a tenant's concurrent calls to `mq-access`, which leaves room for other
//! tenants.
//!
//! The gateway's HTTP side runs in this process, with the stack's tables. A stand-in for
//! `mq-access` has a reserved concurrency, and refuses further invocations as Lambda does.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use access::AccessStore;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use end_to_end::{Access, Answer, body_of, contract, operations, variable};
use endpoint::limits::Limiter;
use front::{Action, Front, Gateway, Idempotency, MqAccess, Operation, OrderLimit};
use futures_util::future::join_all;
use http::{HeaderValue, Request, Response};
use idempotency::{ExpiryBounds, Store};
use jiff::Timestamp;
use lambda_http::Body;
use mq::InlineTargets;
use serde_json::{Value, json};
use test_support::http_server::{Server, response};
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

/// Reserved concurrency of the stand-in for `mq-access`: number of invocations at the same time.
const RESERVED: usize = 3;
/// Maximum number of these invocations that one tenant may use at the same time.
const LIMIT: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// Stand-in for Lambda and its function `mq-access` with limited concurrency. Each invocation for a
/// browse waits until the test sets `go`.
struct Brokers {
    server: Server,
    browsing: Arc<Browsing>,
    go: watch::Sender<bool>,
}

/// Number of browses in progress in the stand-in for `mq-access`, and the maximum at any time.
#[derive(Default)]
struct Browsing {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Brokers {
    async fn start() -> Self {
        let (go, wait) = watch::channel(false);
        let (free, browsing) = (Arc::new(Semaphore::new(RESERVED)), Arc::new(Browsing::default()));
        let counted = Arc::clone(&browsing);
        let server = Server::start(move |request| {
            let (free, wait, counted) = (Arc::clone(&free), wait.clone(), Arc::clone(&counted));
            async move { Some(execute(&request, &free, wait, &counted).await) }
        });
        Self { server: server.await, browsing, go }
    }

    /// Waits until at least `count` browses are in progress in the stand-in.
    async fn browsing(&self, count: usize) {
        while self.browsing.now.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn execute(
    request: &Request<Bytes>,
    free: &Semaphore,
    mut wait: watch::Receiver<bool>,
    browsing: &Browsing,
) -> Response<Bytes> {
    let Ok(_execution) = free.try_acquire() else {
        let mut throttled = response(429, r#"{"Type":"User","message":"Rate Exceeded."}"#);
        let kind = HeaderValue::from_static("TooManyRequestsException");
        throttled.headers_mut().insert("x-amzn-errortype", kind);
        return throttled;
    };
    let order: Value = serde_json::from_slice(request.body()).unwrap();
    if order["work"]["read"]["read"].get("browse").is_some() {
        let now = browsing.now.fetch_add(1, Ordering::SeqCst) + 1;
        browsing.peak.fetch_max(now, Ordering::SeqCst);
        wait.wait_for(|go| *go).await.unwrap();
        browsing.now.fetch_sub(1, Ordering::SeqCst);
    }
    let reply = json!({"status": 200, "headers": {"content-type": "application/json"}, "body": "{}"});
    response(200, reply.to_string())
}

/// Makes the HTTP side of a gateway function named `service`, without rate limits. It invokes
/// `mq-access` at this URL.
pub(crate) async fn gateway(service: &'static str, mq_access: &str) -> Gateway {
    let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
    let dynamodb = Client::new(&sdk);
    let lambda = runtime::Sdk::at(mq_access, "us-east-1", "none", "none").await;
    let lambda = aws_sdk_lambda::Client::new(&lambda.single_attempt(Duration::from_secs(30)));
    let expiry = Duration::from_secs(600);
    let front = Front {
        service,
        access: AccessStore::new(dynamodb.clone(), variable("ACCESS_TABLE")),
        inline_targets: InlineTargets::default(),
        idempotency: Some(Idempotency {
            store: Store::new(dynamodb, variable("IDEMPOTENCY_TABLE")),
            expiry: ExpiryBounds { default: expiry, max: expiry },
        }),
        limiter: Limiter::off(),
    };
    Gateway {
        front,
        mq_access: MqAccess::new(lambda, "mq-access".to_owned()),
        order_limit: None,
        uploads: None,
        max_produce_bytes: u64::MAX,
        has_load_tests: false,
    }
}

/// Makes the HTTP request of an operation, as API Gateway passes it to the function.
pub(crate) fn request<O: Operation>(api_key: &str, key: Uuid, body: &Value) -> Request<Body> {
    Request::builder()
        .method(O::ROUTE.method)
        .uri(format!("https://api.example.com{}", O::ROUTE.path))
        .header("x-api-key", api_key)
        .header("content-type", "application/json")
        .header("idempotency-key", key.to_string())
        .body(Body::from(body.to_string()))
        .unwrap()
}

/// HTTP side of a gateway function for one test, with a tenant of its own.
struct Stand {
    gateway: Gateway,
    dynamodb: Client,
    /// Paths of the operations that were refused because the tenant had used up its limit.
    refused: Mutex<BTreeSet<&'static str>>,
}

impl Stand {
    async fn of(brokers: &Brokers) -> Self {
        let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
        let dynamodb = Client::new(&sdk);
        let mut gateway = gateway("budget", &brokers.server.url()).await;
        gateway.front.inline_targets = "rabbitmq://127.0.0.1:*/*".parse::<InlineTargets>().unwrap();
        gateway.order_limit = Some(OrderLimit::new(dynamodb.clone(), variable("IDEMPOTENCY_TABLE"), LIMIT));
        Self { gateway, dynamodb, refused: Mutex::default() }
    }

    async fn send<O: Operation<Work = Action>>(
        &self,
        api_key: &str,
        key: Uuid,
        members: &Value,
    ) -> (u16, String) {
        let target = json!({"target": {"broker": "rabbitmq", "connName": "127.0.0.1:1", "queue": "Q"}});
        let mut body = body_of(O::ROUTE.path, &target);
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let response = self.gateway.handle::<O>(request::<O>(api_key, key, &body)).await;
        if response.status() == 429 {
            self.refused.lock().unwrap().insert(O::ROUTE.path);
            let (headers, bytes) = (response.headers().clone(), response.body().to_vec());
            contract::hold(O::ROUTE.method, O::ROUTE.path, &Answer { status: 429, headers, bytes });
        }
        let problem: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        let is_told_when = response.headers().contains_key("retry-after");
        assert_eq!(is_told_when, response.status() == 429, "{problem}");
        (response.status().as_u16(), problem["reason"].as_str().unwrap_or_default().to_owned())
    }

    async fn browse(&self, api_key: &str) -> (u16, String) {
        let members = json!({"browseOnly": true, "waitSeconds": 20});
        self.send::<consume::ConsumeRequest>(api_key, Uuid::new_v4(), &members).await
    }

    async fn produce(&self, api_key: &str, key: Uuid) -> (u16, String) {
        self.send::<produce::ProduceRequest>(api_key, key, &json!({})).await
    }

    async fn refuses<O: Operation<Work = Action>>(&self, api_key: &str) {
        assert_eq!(self.send::<O>(api_key, Uuid::new_v4(), &json!({})).await, refused(), "{}", O::ROUTE.path);
    }

    fn item(tenant: &str) -> AttributeValue {
        AttributeValue::S(format!("BUDGET#{tenant}"))
    }

    /// Returns the tenant's leases from DynamoDB, one for each call to `mq-access` in progress.
    async fn leases(&self, tenant: &str) -> Vec<String> {
        let get =
            self.dynamodb.get_item().table_name(variable("IDEMPOTENCY_TABLE")).key("pk", Self::item(tenant));
        let item = get.consistent_read(true).send().await.unwrap().item.unwrap_or_default();
        item.get("leases").map(|leases| leases.as_ss().unwrap().clone()).unwrap_or_default()
    }
}

fn ok() -> (u16, String) {
    (200, String::new())
}

fn refused() -> (u16, String) {
    (429, "TENANT_RATE_LIMIT".to_owned())
}

async fn key(tenant: Uuid) -> String {
    Access::open().await.key(&tenant.to_string(), &["mq:read", "mq:write"], json!({})).await
}

#[tokio::test]
async fn long_browses_of_one_tenant_leave_room_for_another_s_produce() {
    let brokers = Brokers::start().await;
    let stand = Stand::of(&brokers).await;
    let (greedy, other) = (Uuid::new_v4(), Uuid::new_v4());
    let (greedy_key, other_key) = (key(greedy).await, key(other).await);
    let key = Uuid::new_v4();
    let browses = async { join_all((0..3).map(|_| stand.browse(&greedy_key))).await };
    let meanwhile = async {
        brokers.browsing(2).await;
        assert_eq!(stand.produce(&other_key, Uuid::new_v4()).await, ok());
        assert_eq!(stand.produce(&greedy_key, key).await, refused());
        stand.refuses::<depth::DepthRequest>(&greedy_key).await;
        stand.refuses::<connection_test::ConnectionTestRequest>(&greedy_key).await;
        stand.refuses::<move_messages::MoveRequest>(&greedy_key).await;
        brokers.go.send(true).unwrap();
    };
    let (mut browses, ()) = tokio::join!(browses, meanwhile);
    browses.sort();
    assert_eq!(browses, [ok(), ok(), refused()]);
    assert_eq!(*stand.refused.lock().unwrap(), operations(), "no operation escapes the limit");
    assert_eq!(stand.leases(&greedy.to_string()).await, [""; 0], "every lease was given back");
    assert_eq!(stand.produce(&greedy_key, key).await, ok(), "the same key runs later");
}

#[tokio::test]
async fn leases_of_functions_that_died_end_by_themselves() {
    let brokers = Brokers::start().await;
    let stand = Stand::of(&brokers).await;
    let tenant = Uuid::new_v4();
    let api_key = key(tenant).await;
    let lease = |seconds: i64| {
        let end = Timestamp::now().as_millisecond() + seconds * 1_000;
        format!("{end}#{}", Uuid::new_v4().simple())
    };
    let (over, under_way) = (lease(-1), lease(30));
    let put = async |leases: &[&String]| {
        let leases = leases.iter().map(|&lease| lease.clone()).collect();
        let put = stand.dynamodb.put_item().table_name(variable("IDEMPOTENCY_TABLE"));
        let put = put.item("pk", Stand::item(&tenant.to_string())).item("leases", AttributeValue::Ss(leases));
        put.send().await.unwrap();
    };
    put(&[&under_way, &lease(20)]).await;
    assert_eq!(stand.produce(&api_key, Uuid::new_v4()).await, refused());
    put(&[&under_way, &over, &lease(-100)]).await;
    assert_eq!(stand.produce(&api_key, Uuid::new_v4()).await, ok());
    assert_eq!(stand.leases(&tenant.to_string()).await, [under_way]);
}

#[tokio::test]
async fn many_orders_at_once_get_no_more_leases_than_there_are() {
    let brokers = Brokers::start().await;
    let stand = Stand::of(&brokers).await;
    let api_key = key(Uuid::new_v4()).await;
    let browses = async { join_all((0..12).map(|_| stand.browse(&api_key))).await };
    let end = async {
        brokers.browsing(2).await;
        brokers.go.send(true).unwrap();
    };
    let (browses, ()) = tokio::join!(browses, end);
    assert_eq!(brokers.browsing.peak.load(Ordering::SeqCst), 2);
    assert!(browses.iter().all(|answer| [ok(), refused()].contains(answer)), "{browses:?}");
}
