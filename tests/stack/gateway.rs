//! HTTP client of the API, and the responses that it gets.

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{contract, operations};

pub const TENANT_A: &str = "11111111-1111-4111-8111-111111111111";
pub const KEY_A: &str = "local-dev-key-a";
pub const KEY_B: &str = "local-dev-key-b";
pub const READONLY_KEY: &str = "local-readonly-key";
pub const PHARMACY_KEY: &str = "local-pharmacy-key";

/// HTTP client that calls the API with one API key, and checks each response against the contract.
#[derive(Clone, Debug)]
pub struct Gateway {
    http: reqwest::Client,
    base_url: String,
    api_key: String,
}

/// Response to a request, with its complete body.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
}

impl Answer {
    /// Returns the body as JSON. Panics if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", String::from_utf8_lossy(&self.bytes)))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the response. Panics if its status is another one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.bytes));
        self
    }

    /// Returns the response. Panics unless it is a problem with this status and reason, in the
    /// contract's form.
    #[track_caller]
    pub fn expect_problem(self, status: u16, reason: &str) -> Self {
        let answer = self.expect(status);
        let problem = answer.json();
        assert_eq!(problem["reason"], reason, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        for member in ["type", "title", "detail", "code", "traceId"] {
            assert!(problem[member].is_string(), "{member} of {problem}");
        }
        assert_eq!(answer.header("x-trace-id"), problem["traceId"].as_str());
        answer
    }
}

impl Gateway {
    /// Returns a client of the stack's HTTP API, with tenant A's key.
    pub fn new() -> Self {
        Self::at(crate::variable("API"))
    }

    /// Returns a client of the stack's REST API, with tenant A's key.
    pub fn rest() -> Self {
        Self::at(crate::variable("REST_API"))
    }

    fn at(base_url: String) -> Self {
        // A redirect is an answer like any other.
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { http, base_url, api_key: KEY_A.to_owned() }
    }

    /// Returns a copy of the client with another API key.
    #[must_use]
    pub fn with_key(&self, api_key: &str) -> Self {
        Self { api_key: api_key.to_owned(), ..self.clone() }
    }

    /// Sends a request with exactly these headers, and those that HTTP needs. It has no API key
    /// unless `headers` has one.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let named = Method::from_bytes(method.as_bytes()).unwrap();
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let request =
            self.http.request(named, format!("{}{path}", self.base_url)).headers(all).body(body.into());
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let answer = Answer { status, headers, bytes: response.bytes().await.unwrap().to_vec() };
        contract::hold(method, path, &answer);
        answer
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[("x-api-key", &self.api_key)], "").await
    }

    /// Sends a POST request without a body, under this idempotency key.
    pub async fn post_empty(&self, path: &str, key: Uuid) -> Answer {
        let key = key.to_string();
        self.send("POST", path, &[("x-api-key", &self.api_key), ("idempotency-key", &key)], "").await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[("x-api-key", &self.api_key)], "").await
    }

    /// Sends a POST request with a JSON body and without an idempotency key.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = [("x-api-key", self.api_key.as_str()), ("content-type", "application/json")];
        self.send("POST", path, &headers, body.to_string()).await
    }

    /// Sends a POST request with a JSON body, under this idempotency key.
    pub async fn post_once(&self, path: &str, key: Uuid, body: &Value) -> Answer {
        self.post_with(path, &[("idempotency-key", &key.to_string())], body).await
    }

    /// Sends the smallest request of an operation about this target, under a new idempotency key.
    /// `operation` is its path.
    pub async fn operate(&self, operation: &str, target: &Value) -> Answer {
        self.post_once(operation, Uuid::new_v4(), &operations::body_of(operation, target)).await
    }

    /// Sends a POST request with a JSON body and further headers.
    pub async fn post_with(&self, path: &str, more: &[(&str, &str)], body: &Value) -> Answer {
        let mut headers = vec![("x-api-key", self.api_key.as_str()), ("content-type", "application/json")];
        headers.extend_from_slice(more);
        self.send("POST", path, &headers, body.to_string()).await
    }

    pub async fn produce(&self, key: Uuid, body: &Value) -> Answer {
        self.post_once("/messages/produce", key, body).await
    }

    pub async fn consume(&self, key: Uuid, body: &Value) -> Answer {
        self.post_once("/messages/consume", key, body).await
    }

    pub async fn move_messages(&self, key: Uuid, body: &Value) -> Answer {
        self.post_once("/messages/move", key, body).await
    }

    /// Returns the number of ready messages on a queue of the stack's RabbitMQ, as the gateway
    /// reports it.
    pub async fn depth(&self, queue: &str) -> u64 {
        let body = json!({"targetRef": "local-rabbit", "target": {"queue": queue}});
        let answer = self.post("/queue/depth", &body).await.expect(200);
        answer.json()["currentDepth"].as_u64().unwrap()
    }
}

impl Default for Gateway {
    fn default() -> Self {
        Self::new()
    }
}
