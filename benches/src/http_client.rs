//! HTTP client of the benchmarks' callers, with one connection pool for all.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::time::sleep;
use uuid::Uuid;

use crate::error::Error;

/// Time limit of a request. API Gateway answers within 30 s.
const PATIENCE: Duration = Duration::from_secs(45);
const ATTEMPTS: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: reqwest::Client,
    base_url: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Http {
    pub(crate) fn new(base_url: &str) -> Result<Self, Error> {
        let client = reqwest::Client::builder().timeout(PATIENCE).build()?;
        Ok(Self { client, base_url: base_url.to_owned() })
    }

    /// Sends a request once. Returns `None` if there was no response.
    pub(crate) async fn send(&self, call: &Call) -> Option<Answer> {
        // A signed URL is whole.
        let base_url = if call.path.starts_with('/') { self.base_url.as_str() } else { "" };
        let request = self.client.request(call.method.clone(), format!("{base_url}{}", call.path));
        let response = request.headers(call.headers.clone()).body(call.body.clone()).send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Answer { status, headers, body: response.bytes().await.ok()? })
    }

    /// Sends a request until it gets a final response, as `openapi.yaml` says: again after
    /// `Retry-After`, and again if there was no response. `hear` gets the outcome of each attempt.
    ///
    /// # Errors
    /// If the final response has another status, which the error shows, or if there was none.
    pub(crate) async fn insist(
        &self,
        call: &Call,
        status: u16,
        mut hear: impl FnMut(String),
    ) -> Result<Answer, String> {
        let mut attempt = 1;
        loop {
            let answer = self.send(call).await;
            hear(answer.as_ref().map_or("no answer".to_owned(), Answer::outcome));
            match answer {
                Some(answer) if answer.status == status => return Ok(answer),
                Some(answer) if answer.header("retry-after").is_none() || attempt == ATTEMPTS => {
                    return Err(format!("{} instead of {status}", answer.describe()));
                }
                None if attempt == ATTEMPTS => return Err("no answer".to_owned()),
                answer => sleep(pause(answer.as_ref())).await,
            }
            attempt += 1;
        }
    }
}

fn pause(answer: Option<&Answer>) -> Duration {
    let seconds = answer.and_then(|answer| answer.header("retry-after")?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1)).min(LONGEST_PAUSE)
}

impl Call {
    pub(crate) fn get(path: impl Into<String>, api_key: &str) -> Self {
        Self::new(Method::GET, path, Bytes::new()).with("x-api-key", api_key)
    }

    /// Builds a `POST` request with this API key. The body is sent unchanged, as JSON.
    pub(crate) fn post(path: impl Into<String>, api_key: &str, body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, path, body.into())
            .with("x-api-key", api_key)
            .with("content-type", "application/json")
    }

    /// Builds a `PUT` request to a signed URL. The caller must add the headers that were signed.
    pub(crate) fn put(url: impl Into<String>, body: Bytes) -> Self {
        Self::new(Method::PUT, url, body)
    }

    fn new(method: Method, path: impl Into<String>, body: Bytes) -> Self {
        Self { method, path: path.into(), headers: HeaderMap::new(), body }
    }

    /// Adds a new, unique idempotency key.
    #[must_use]
    pub(crate) fn with_new_key(self) -> Self {
        self.with("idempotency-key", &Uuid::new_v4().to_string())
    }

    /// Adds a header. A name or value that HTTP does not allow is skipped.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            self.headers.insert(name, value);
        }
        self
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the status and the beginning of the body, for messages.
    pub(crate) fn describe(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        format!("{} {}", self.status, body.chars().take(300).collect::<String>())
    }

    /// Returns the status and, if the response is a problem, its reason, such as `409 BUSY`.
    pub(crate) fn outcome(&self) -> String {
        match self.json().get("reason").and_then(Value::as_str) {
            Some(reason) if self.status >= 400 => format!("{} {reason}", self.status),
            _ => self.status.to_string(),
        }
    }
}
