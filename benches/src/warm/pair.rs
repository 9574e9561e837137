//! Functions `produce` and `mq-access`, with a stand-in for Lambda's API between them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use test_support::environment::repository;
use test_support::http_server::{Server, response};
use test_support::runtime_api::Invoker;

use crate::contender::Contender as _;
use crate::error::Error;
use crate::function::{self, Environment, PATIENCE};

/// Name of a fake function that at once returns the last reply of `mq-access`.
pub(crate) const ECHO: &str = "echo";
const API_KEY: &str = "local-dev-key-a";

#[derive(Debug)]
pub(crate) struct Pair {
    produce: Environment,
    mq_access: Environment,
    pub(crate) lambda: Server,
    /// Last payload with which `produce` invoked `mq-access`, and the reply.
    last: Last,
    event: Value,
}

type Last = Arc<Mutex<(Bytes, Bytes)>>;

impl Pair {
    /// Starts both functions. Each calls DynamoDB at an endpoint of its own, so that its calls can
    /// be recorded apart.
    pub(crate) async fn start(dynamodb_of_produce: &str, dynamodb_of_mq_access: &str) -> Result<Self, Error> {
        let mq_access = start("mq-access", dynamodb_of_mq_access, dynamodb_of_mq_access).await?;
        let last = Last::default();
        let called = (mq_access.api.invoker.clone(), Arc::clone(&last));
        let lambda = Server::start(move |request| {
            let (mq_access, last) = called.clone();
            async move { Some(invoke(&mq_access, &last, request).await) }
        })
        .await;
        let produce = start("produce", dynamodb_of_produce, &lambda.url()).await?;
        let event = std::fs::read(repository().join("events/gateway/produce/one-message.json"))?;
        Ok(Self { produce, mq_access, lambda, last, event: serde_json::from_slice(&event)? })
    }

    /// Sends a request that puts one random message of 1 KiB, and returns its event and the answer.
    pub(crate) async fn send(&mut self, key: &str) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let mut event = self.event.clone();
        if let Some(event) = event.as_object_mut() {
            let body = json!({"targetRef": "local-rabbit", "batch": {"count": 1, "messageSizeBytes": 1024}});
            event.insert("body".to_owned(), body.to_string().into());
            if let Some(headers) = event.get_mut("headers").and_then(Value::as_object_mut) {
                headers.insert("idempotency-key".to_owned(), key.into());
                headers.insert("x-api-key".to_owned(), API_KEY.into());
            }
        }
        let event = serde_json::to_vec(&event)?;
        // The request is over when both ask for more: what they do in between is a part of it.
        let answer = self.produce.send(&event).await?;
        self.mq_access.api.polled().await?;
        let response: Value = serde_json::from_slice(&answer.body)?;
        if response.get("statusCode").and_then(Value::as_u64) != Some(201) {
            return Err(format!("produce answered {response}").into());
        }
        Ok((event, answer.body.to_vec()))
    }

    /// Sends one request, and returns the CPU times of `produce` and of `mq-access` for it.
    pub(crate) async fn cpu_of(&mut self, key: &str) -> Result<[Duration; 2], Error> {
        let [produce, mq_access] = self.cpu()?;
        self.send(key).await?;
        let [produce_after, mq_access_after] = self.cpu()?;
        Ok([produce_after.saturating_sub(produce), mq_access_after.saturating_sub(mq_access)])
    }

    fn cpu(&self) -> Result<[Duration; 2], Error> {
        Ok([self.produce.child.cpu.so_far()?, self.mq_access.child.cpu.so_far()?])
    }

    /// Returns the last payload with which `produce` invoked `mq-access`, and the reply.
    pub(crate) fn last_order(&self) -> (Vec<u8>, Vec<u8>) {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        (last.0.to_vec(), last.1.to_vec())
    }

    pub(crate) async fn stop(self) -> Result<(), Error> {
        self.produce.stop().await?;
        self.mq_access.stop().await
    }
}

/// Environment variables of the stack that the functions need besides those of the template.
const OF_THE_STACK: [&str; 5] =
    ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "ACCESS_TABLE", "IDEMPOTENCY_TABLE"];

async fn start(name: &str, endpoint: &str, lambda: &str) -> Result<Environment, Error> {
    let mut program = function::named(name)?;
    for name in OF_THE_STACK {
        program = program.env(name, std::env::var(name).map_err(|_| format!("{name} is not set"))?);
    }
    Environment::start(&program.env("AWS_ENDPOINT_URL", endpoint).env("AWS_ENDPOINT_URL_LAMBDA", lambda))
        .await
}

/// Answers Lambda's API call `Invoke`, `POST /2015-03-31/functions/{name}/invocations`: runs
/// `mq-access`, or returns its last reply if the name is that of the fake function [`ECHO`].
async fn invoke(mq_access: &Invoker, last: &Last, request: Request<Bytes>) -> Response<Bytes> {
    let last = || last.lock().unwrap_or_else(PoisonError::into_inner);
    if request.uri().path().split('/').nth(3) == Some(ECHO) {
        return response(200, last().1.clone());
    }
    let order = request.into_body();
    match mq_access.invoke(order.clone(), PATIENCE).await {
        Ok(answer) => {
            *last() = (order, answer.body.clone());
            response(200, answer.body)
        }
        Err(error) => response(500, error.to_string()),
    }
}
