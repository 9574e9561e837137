//! A client as a team would write one.

use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use uuid::Uuid;

use crate::failure::{Explain as _, Failure};

const TIMEOUT: Duration = Duration::from_secs(40);

/// States of batches and tests that nothing changes, the time that one may take to get there, and
/// the interval at which it is asked for.
const FINAL: [&str; 4] = ["COMPLETED", "PARTIAL_FAIL", "STOPPED", "FAILED"];
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    base_url: String,
    api_key: String,
}

/// An answer, and what was asked.
#[derive(Debug)]
pub(super) struct Reply {
    request: String,
    pub(super) status: u16,
    headers: HeaderMap,
    pub(super) text: String,
    /// `text` as JSON, null where it is none.
    pub(super) body: Value,
    pub(super) milliseconds: u128,
}

impl Client {
    pub(super) fn new(base_url: &str, api_key: &str) -> Self {
        Self { http: reqwest::Client::new(), base_url: base_url.to_owned(), api_key: api_key.to_owned() }
    }

    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(super) async fn post(&self, path: &str, key: Option<&Uuid>, body: &Value) -> Result<Reply, Failure> {
        let mut request = self.request(Method::POST, path).json(body);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key.to_string());
        }
        answer(format!("POST {path}"), request).await
    }

    pub(super) async fn get(&self, path: &str) -> Result<Reply, Failure> {
        answer(format!("GET {path}"), self.request(Method::GET, path)).await
    }

    /// Sends a full load, compressed.
    pub(super) async fn load(&self, path: &str, key: &Uuid, gzip: Vec<u8>) -> Result<Reply, Failure> {
        let request = self
            .request(Method::POST, path)
            .header("Idempotency-Key", key.to_string())
            .header("X-Inova-Load-Type", "full")
            .header("Content-Type", "application/gzip")
            .body(gzip);
        answer(format!("POST {path}"), request).await
    }

    /// Asks for a batch or a test until it is final. Returns it and its states, of which it had the
    /// first when it began.
    pub(super) async fn finished(
        &self,
        path: &str,
        first: String,
        begin: Instant,
    ) -> Result<(Reply, String), Failure> {
        let mut seen = first;
        loop {
            let reply = self.get(path).await?;
            reply.expect("200", reply.status == 200)?;
            let status = reply.show("status");
            if FINAL.contains(&status.as_str()) {
                let seconds = begin.elapsed().as_secs_f64();
                return Ok((reply, format!("{seen} -> {status} after {seconds:.1} s")));
            }
            if !seen.ends_with(&status) {
                seen = format!("{seen} -> {status}");
            }
            let is_in_time = begin.elapsed() < PATIENCE;
            reply.expect(&format!("a final status within {} s", PATIENCE.as_secs()), is_in_time)?;
            tokio::time::sleep(POLL).await;
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.base_url))
            .timeout(TIMEOUT)
            .header("X-Api-Key", self.api_key.as_str())
    }

    /// The command that does the same.
    pub(super) fn curl(&self, path: &str, key: &Uuid, body: &Value) -> String {
        format!(
            "   curl -i {}{path} -H 'X-Api-Key: {}' \\\n     -H 'Idempotency-Key: {key}' -H 'Content-Type: application/json' \\\n     -d '{body}'",
            self.base_url, self.api_key
        )
    }
}

async fn answer(asked: String, request: RequestBuilder) -> Result<Reply, Failure> {
    let explain = || format!("show {asked}");
    let begin = Instant::now();
    let response = request.send().await.or_explain(explain)?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.or_explain(explain)?;
    let body = serde_json::from_str(&text).unwrap_or_default();
    let milliseconds = begin.elapsed().as_millis();
    Ok(Reply { request: asked, status, headers, text, body, milliseconds })
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn number(&self, member: &str) -> Option<u64> {
        self.body.get(member).and_then(Value::as_u64)
    }

    /// A number deeper within.
    pub(super) fn number_at(&self, pointer: &str) -> Option<u64> {
        self.body.pointer(pointer).and_then(Value::as_u64)
    }

    /// A member as a person reads it.
    pub(super) fn show(&self, member: &str) -> String {
        match self.body.get(member) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => "?".to_owned(),
        }
    }

    /// # Errors
    /// The demonstration ends with the first surprise.
    pub(super) fn expect(&self, expected: &str, met: bool) -> Result<(), Failure> {
        if met {
            return Ok(());
        }
        const SHOWN: usize = 2_000;
        let text: String = self.text.chars().take(SHOWN).collect();
        Err(Failure::new(format!(
            "The demonstration failed: {} should have answered {expected}, but answered {} {text}\n\
             What the functions logged: .local/logs/functions.log",
            self.request, self.status
        )))
    }
}
