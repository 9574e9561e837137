//! Stand of a crash test: the gateway's own programs, run as Lambda runs them, between networks and
//! stores that fail when the test wants it.

pub(crate) mod environment;
pub(crate) mod faults;
pub(crate) mod function;
pub(crate) mod lambda;
pub(crate) mod network;
pub(crate) mod store;

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Answer, KEY_A, On, Queue, Records, Site, contract, variable};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use test_support::template::{Deployed, Template};
use tokio::task::JoinHandle;
use url::Url;
use uuid::Uuid;

use faults::Faults;
use function::{Function, Invoked};
use lambda::Lambda;
use network::AmqpProxy;
use store::StoreProxy;

pub(crate) type Record = HashMap<String, AttributeValue>;

/// Operation of the gateway that a crash test requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Produce,
    Consume,
    Move,
}

impl Operation {
    /// Returns the first part of the keys of this operation's idempotency records.
    pub(crate) fn record(self) -> &'static str {
        match self {
            Self::Produce => "PRODUCE",
            Self::Consume => "CONSUME",
            Self::Move => "MOVE",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Produce => "/messages/produce",
            Self::Consume => "/messages/consume",
            Self::Move => "/messages/move",
        }
    }
}

/// Request of a crash test with its idempotency key. It can be sent repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    pub(crate) key: Uuid,
    pub(crate) body: Value,
}

/// Response to a client, and the time from the request until it came.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    pub(crate) took: Duration,
}

/// Functions that execute a changing operation, with the broker, the stores, and the proxies in
/// between.
#[derive(Debug)]
pub(crate) struct Stand {
    /// Faults of requests to DynamoDB and S3, and of invocations of `mq-access`.
    pub(crate) faults: Faults,
    /// Proxy between `mq-access` and RabbitMQ.
    pub(crate) network: AmqpProxy,
    pub(crate) lambda: Lambda,
    pub(crate) produce: Function,
    pub(crate) consume: Function,
    pub(crate) move_messages: Function,
    pub(crate) mq_access: Function,
    /// Client of the broker that shares no code with the gateway, with the queue manager if it is
    /// IBM MQ.
    pub(crate) broker: Site,
    pub(crate) records: Records,
    pub(crate) stores: StoreProxy,
}

impl Stand {
    pub(crate) async fn start() -> Self {
        Self::start_on(On::RabbitMq).await
    }

    pub(crate) async fn start_on(on: On) -> Self {
        Self::start_with(on, None).await
    }

    /// Starts a stand with RabbitMQ, in which the clock of `mq-access` is `ahead` seconds ahead of
    /// all others.
    pub(crate) async fn start_with_clock(ahead: f64) -> Self {
        Self::start_with(On::RabbitMq, Some(ahead)).await
    }

    async fn start_with(on: On, ahead: Option<f64>) -> Self {
        let broker = Url::parse(&variable("AMQP_URL")).unwrap();
        let broker = (broker.host_str().unwrap().to_owned(), broker.port().unwrap());
        let (faults, network) = (Faults::default(), AmqpProxy::start(broker).await);
        let stores = StoreProxy::start(faults.clone()).await;
        let mut variables = store_variables(&stores);
        let mut of_mq_access = variables.clone();
        of_mq_access.push(("IBM_MQ_LIBRARY", format!("{}/libmqm_r.so", variable("IBM_MQ_DIRECTORY"))));
        of_mq_access.push(("MQM_STANDIN_DIR", variable("IBM_MQ_DIRECTORY")));
        of_mq_access.extend(ahead.into_iter().flat_map(shifted));
        let mq_access = Function::new(deployed("MqAccessFunction", &[]), &of_mq_access);
        let lambda = Lambda::start(mq_access.clone(), faults.clone()).await;
        variables.push(("AWS_ENDPOINT_URL_LAMBDA", lambda.url()));
        let this = Self {
            faults,
            network,
            lambda,
            produce: Function::new(deployed("ProduceFunction", &[]), &variables),
            consume: Function::new(deployed("ConsumeFunction", &[]), &variables),
            move_messages: Function::new(deployed("MoveMessagesFunction", &[]), &variables),
            mq_access,
            broker: Site::start(on).await,
            records: Records::open().await,
            stores,
        };
        this.warm().await;
        this
    }

    /// Builds a request about a queue, with a new idempotency key. Its target leads through the
    /// proxy that can break connections.
    pub(crate) fn request(&self, operation: Operation, queue: &Queue, members: Value) -> Asked {
        let named = json!({ "target": self.target(queue) });
        let mut body = if operation == Operation::Move { json!({ "from": named }) } else { named };
        let Value::Object(members) = members else { panic!("members are an object") };
        body.as_object_mut().unwrap().extend(members);
        Asked { operation, key: Uuid::new_v4(), body }
    }

    fn target(&self, queue: &Queue) -> Value {
        if let Site::IbmMq(manager, _) = &self.broker {
            return manager.target(&queue.name);
        }
        let user = Url::parse(&variable("AMQP_URL")).unwrap().username().to_owned();
        json!({
            "broker": "rabbitmq", "queue": queue.name, "connName": format!("127.0.0.1:{}", self.network.port),
            "auth": {"user": user, "passwordRef": "secret://local/rabbit"},
        })
    }

    /// Makes the broker refuse connections, and breaks the open ones.
    pub(crate) async fn stop_broker(&mut self) {
        match &self.broker {
            Site::RabbitMq(_) => self.network.stop().await,
            Site::IbmMq(manager, _) => drop(manager.control(&json!("stop"))),
        }
    }

    pub(crate) async fn heal_broker(&mut self) {
        match &self.broker {
            Site::RabbitMq(_) => self.network.heal().await,
            Site::IbmMq(manager, _) => drop(manager.control(&json!("reset"))),
        }
    }

    pub(crate) fn front(&self, operation: Operation) -> &Function {
        match operation {
            Operation::Produce => &self.produce,
            Operation::Consume => &self.consume,
            Operation::Move => &self.move_messages,
        }
    }

    /// Sends a request, as API Gateway passes it to the HTTP function, and waits for the response.
    pub(crate) async fn ask(&self, asked: &Asked) -> Reply {
        self.ask_later(asked).await.unwrap()
    }

    /// Sends a request, and returns a task that waits for the response.
    pub(crate) fn ask_later(&self, asked: &Asked) -> JoinHandle<Reply> {
        let (function, event) = (self.front(asked.operation).clone(), event(asked));
        tokio::spawn(async move {
            let started = Instant::now();
            let invoked = function.invoke(event.to_string().into()).await;
            Reply { answer: answer(&event, &invoked), took: started.elapsed() }
        })
    }

    /// Sends a GET request for this path to the function `consume`, and returns the response.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        let headers = json!({"x-api-key": KEY_A, "x-forwarded-proto": "http"});
        let event = http_event("GET", path, headers, b"");
        answer(&event, &self.consume.invoke(event.to_string().into()).await)
    }

    /// Ends all faults, waits until no invocation is in progress, and starts processes in place of
    /// those that ended.
    pub(crate) async fn heal(&mut self) {
        self.faults.clear();
        self.lambda.heal();
        self.heal_broker().await;
        self.warm().await;
    }

    async fn warm(&self) {
        for function in [&self.produce, &self.consume, &self.move_messages, &self.mq_access] {
            function.settled().await;
            function.warm().await;
        }
    }

    /// Returns the attributes of the request's idempotency record, or `None` if there is none.
    pub(crate) async fn record(&self, asked: &Asked) -> Option<Record> {
        self.records.find(asked.operation.record(), asked.key).await
    }

    /// Removes attributes from the request's idempotency record.
    pub(crate) async fn forget(&self, asked: &Asked, attributes: &[&str]) {
        self.records.remove(asked.operation.record(), asked.key, attributes).await;
    }

    /// Ends the lease in the request's idempotency record, if there is one, as if its time were
    /// over.
    pub(crate) async fn age(&self, asked: &Asked) {
        if self.record(asked).await.is_none() {
            return;
        }
        let over = AttributeValue::N("1".to_owned());
        self.records.set(asked.operation.record(), asked.key, &[("leaseExpiresAt", over)]).await;
    }
}

/// Returns the environment variables that set a process's clock ahead by `ahead` seconds, or back
/// if negative. The process's timers are not changed.
fn shifted(ahead: f64) -> [(&'static str, String); 3] {
    let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH);
    assert!(std::path::Path::new(&library).is_file(), "{library} is missing: `make test` installs it");
    [
        ("LD_PRELOAD", library),
        ("FAKETIME", format!("{ahead:+}s")),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
}

/// Returns the environment variables by which a function reaches the AWS stand-in, and the stores
/// through the proxy.
pub(crate) fn store_variables(stores: &StoreProxy) -> Vec<(&'static str, String)> {
    let stores_at = stores.url();
    let mut variables: Vec<_> =
        ["AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
            .into_iter()
            .map(|name| (name, variable(name)))
            .collect();
    variables.push(("AWS_EC2_METADATA_DISABLED", "true".to_owned()));
    variables.push(("AWS_ENDPOINT_URL_DYNAMODB", stores_at.clone()));
    variables.push(("AWS_ENDPOINT_URL_S3", stores_at.clone()));
    variables.push(("AWS_ENDPOINT_URL_SQS", stores_at));
    variables
}

static TEMPLATE: LazyLock<Template> = LazyLock::new(|| Template::read(references()));

/// Returns a function as the template deploys it. Leaves out the variables of the database and
/// those in `given`, whose values in the template need not be resolvable.
pub(crate) fn deployed(logical_id: &str, given: &[(&str, String)]) -> Deployed {
    TEMPLATE.function(logical_id, |name| {
        !name.starts_with("DATABASE_") && !given.iter().any(|(known, _)| *known == name)
    })
}

/// Returns the values to which the template's `!Ref`s resolve in the crash tests: the local stack's
/// tables and buckets, and parameters.
fn references() -> [(&'static str, String); 8] {
    let inline = "rabbitmq://127.0.0.1:*/*?tenant=*&tls=optional&secrets=secret://local/* \
                  ibmmq://127.0.0.1:*/*?tenant=*&tls=optional&secrets=secret://mq/app&channel=*";
    [
        ("AccessTable", variable("ACCESS_TABLE")),
        ("IdempotencyTable", variable("IDEMPOTENCY_TABLE")),
        ("LimitsTable", variable("LIMITS_TABLE")),
        ("ResultsBucket", variable("RESULTS_BUCKET")),
        ("BatchesTable", variable("BATCHES_TABLE")),
        ("PayloadBucket", variable("PAYLOAD_BUCKET")),
        ("MqAccessFunction", "mq-access".to_owned()),
        ("InlineTargets", inline.to_owned()),
    ]
}

fn event(asked: &Asked) -> Value {
    let key = asked.key.to_string();
    let headers = json!({"content-type": "application/json", "idempotency-key": key, "x-api-key": KEY_A, "x-forwarded-proto": "http"});
    http_event("POST", asked.operation.path(), headers, asked.body.to_string().as_bytes())
}

/// Builds the event of an HTTP request, as API Gateway passes it to a function in payload format
/// 2.0.
pub(crate) fn http_event(method: &str, path: &str, mut headers: Value, body: &[u8]) -> Value {
    headers["host"] = json!("127.0.0.1");
    let route = format!("{method} {path}");
    json!({
        "version": "2.0",
        "routeKey": route,
        "rawPath": path,
        "rawQueryString": "",
        "headers": headers,
        "requestContext": {
            "accountId": "000000000000",
            "apiId": "local",
            "domainName": "127.0.0.1",
            "domainPrefix": "local",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "crash"},
            "requestId": Uuid::new_v4().to_string(),
            "routeKey": route,
            "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000",
            "timeEpoch": 1_767_225_600_000_u64,
        },
        "body": STANDARD.encode(body),
        "isBase64Encoded": true,
    })
}

/// Turns the outcome of an invocation into the client's response, as API Gateway does: 500 for a
/// function that failed, and 503 for one that took too long. Checks it against the contract.
pub(crate) fn answer(event: &Value, invoked: &Invoked) -> Answer {
    let answer = of_invocation(invoked);
    let http = &event["requestContext"]["http"];
    contract::hold(http["method"].as_str().unwrap(), http["path"].as_str().unwrap(), &answer);
    answer
}

/// Turns the outcome of an invocation into a response like [`answer`], but does not check it
/// against the contract, for responses that no client gets.
pub(crate) fn of_invocation(invoked: &Invoked) -> Answer {
    let own = |status, message: &str| Answer {
        status,
        headers: HeaderMap::new(),
        bytes: json!({ "message": message }).to_string().into_bytes(),
    };
    let payload = match invoked {
        Invoked::Answered(payload) => payload,
        Invoked::Failed(_) => return own(500, "Internal Server Error"),
        Invoked::TimedOut(_) => return own(503, "Service Unavailable"),
    };
    let payload: Map<String, Value> = serde_json::from_slice(payload).unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in payload["headers"].as_object().unwrap() {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.insert(name, HeaderValue::from_str(value.as_str().unwrap()).unwrap());
    }
    let body = payload["body"].as_str().unwrap_or_default();
    let bytes = match payload["isBase64Encoded"].as_bool() {
        Some(true) => STANDARD.decode(body).unwrap(),
        _ => body.as_bytes().to_vec(),
    };
    let status = u16::try_from(payload["statusCode"].as_u64().unwrap()).unwrap();
    Answer { status, headers, bytes }
}
