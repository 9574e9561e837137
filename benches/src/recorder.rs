//! Proxy in front of DynamoDB that records the calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use reqwest::RequestBuilder;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use test_support::http_server::{Server, response};

use crate::error::Error;

/// Call to DynamoDB, as the SDK sent it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Name of the operation, such as `PutItem`.
    pub(crate) operation: String,
    pub(crate) body: Value,
    /// Time until DynamoDB answered.
    pub(crate) took: Duration,
}

/// Calls in order, each with its header `X-Amz-Target`, its body and its duration.
type Calls = Mutex<Vec<(String, Bytes, Duration)>>;

#[derive(Debug)]
pub(crate) struct Recorder {
    server: Server,
    calls: Arc<Calls>,
}

const TARGET: &str = "x-amz-target";

impl Recorder {
    pub(crate) async fn start(url: &str) -> Self {
        let (client, url, calls) = (reqwest::Client::new(), url.to_owned(), Arc::<Calls>::default());
        let recorded = Arc::clone(&calls);
        let server = Server::start(move |request| {
            let (upstream, calls) = (client.post(&url), Arc::clone(&recorded));
            async move { Some(pass_on(upstream, request, &calls).await) }
        });
        Self { server: server.await, calls }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn forget(&self) {
        lock(&self.calls).clear();
    }

    /// Returns the calls since the last [`Recorder::forget`].
    pub(crate) fn calls(&self) -> Result<Vec<Call>, Error> {
        let call = |(target, body, took): &(String, Bytes, Duration)| {
            let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
            Ok(Call { operation, body: serde_json::from_slice(body)?, took: *took })
        };
        lock(&self.calls).iter().map(call).collect()
    }

    /// Returns the total size of the request bodies since the last [`Recorder::forget`], in bytes.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.calls).iter().map(|(_, body, _)| body.len()).sum()
    }
}

fn lock(calls: &Calls) -> MutexGuard<'_, Vec<(String, Bytes, Duration)>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn pass_on(upstream: RequestBuilder, request: Request<Bytes>, calls: &Calls) -> Response<Bytes> {
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let target = headers.get(TARGET).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let begin = Instant::now();
    let answer = upstream.headers(end_to_end(headers)).body(body.clone()).send().await;
    lock(calls).push((target, body, begin.elapsed()));
    match answer {
        Ok(mut answer) => {
            let headers = end_to_end(std::mem::take(answer.headers_mut()));
            let status = answer.status().as_u16();
            let mut passed = response(status, answer.bytes().await.unwrap_or_default());
            *passed.headers_mut() = headers;
            passed
        }
        Err(error) => response(502, error.to_string()),
    }
}

/// Removes the headers that belong to one connection.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    for name in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers
}
