//! Passes requests on to DynamoDB and keeps what they asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use test_support::http_server::{Server, response};

use crate::error::Error;

/// A call as the SDK sent it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Name without that of the service and its version.
    pub(crate) operation: String,
    pub(crate) body: Value,
    /// Time until DynamoDB had answered.
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    server: Server,
    upstream: Arc<Upstream>,
}

#[derive(Debug)]
struct Upstream {
    url: String,
    client: reqwest::Client,
    calls: Mutex<Vec<(String, Bytes, Duration)>>,
}

const TARGET: &str = "x-amz-target";

impl Recorder {
    pub(crate) async fn start(url: &str) -> Self {
        let upstream = Arc::new(Upstream {
            url: url.to_owned(),
            client: reqwest::Client::new(),
            calls: Mutex::default(),
        });
        let served = Arc::clone(&upstream);
        let server = Server::start(move |request| {
            let upstream = Arc::clone(&served);
            async move { Some(pass_on(&upstream, request).await) }
        });
        Self { server: server.await, upstream }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn forget(&self) {
        self.upstream.calls.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the calls since the recorder last forgot.
    pub(crate) fn calls(&self) -> Result<Vec<Call>, Error> {
        let calls = self.upstream.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let call = |(target, body, took): &(String, Bytes, Duration)| {
            let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
            Ok(Call { operation, body: serde_json::from_slice(body)?, took: *took })
        };
        calls.iter().map(call).collect()
    }

    /// The size of what was asked since it last forgot, without headers.
    pub(crate) fn bytes(&self) -> usize {
        let calls = self.upstream.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().map(|(_, body, _)| body.len()).sum()
    }
}

async fn pass_on(upstream: &Upstream, request: Request<Bytes>) -> Response<Bytes> {
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let target = headers.get(TARGET).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let begin = Instant::now();
    let request = upstream.client.post(&upstream.url).headers(end_to_end(headers)).body(body.clone());
    let answer = request.send().await;
    upstream.calls.lock().unwrap_or_else(PoisonError::into_inner).push((target, body, begin.elapsed()));
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

/// Headers without those that belong to one connection.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    for name in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers
}
