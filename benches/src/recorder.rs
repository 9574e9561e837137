//! Passes requests on to DynamoDB and keeps what they asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::lambda::Server;

/// A call as the SDK sent it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Without the service's name and version.
    pub(crate) operation: String,
    pub(crate) body: Value,
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
    calls: Mutex<Vec<(String, Bytes)>>,
}

const TARGET: &str = "x-amz-target";

impl Recorder {
    pub(crate) async fn start(url: &str) -> Result<Self, Error> {
        let upstream = Arc::new(Upstream {
            url: url.to_owned(),
            client: reqwest::Client::new(),
            calls: Mutex::default(),
        });
        let router = Router::new().fallback(pass_on).with_state(Arc::clone(&upstream));
        Ok(Self { server: Server::start(router).await?, upstream })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn forget(&self) {
        self.upstream.calls.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What was asked since it last forgot.
    pub(crate) fn calls(&self) -> Result<Vec<Call>, Error> {
        let calls = self.upstream.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls
            .iter()
            .map(|(target, body)| {
                Ok(Call { operation: operation(target).to_owned(), body: serde_json::from_slice(body)? })
            })
            .collect()
    }

    /// How often each operation was called since it last forgot.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let calls = self.upstream.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = BTreeMap::new();
        for (target, _) in calls.iter() {
            *counts.entry(operation(target).to_owned()).or_default() += 1;
        }
        counts
    }

    /// The size of what was asked since it last forgot, without headers.
    pub(crate) fn bytes(&self) -> usize {
        let calls = self.upstream.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().map(|(_, body)| body.len()).sum()
    }
}

/// Without the service's name and version.
fn operation(target: &str) -> &str {
    target.rsplit('.').next().unwrap_or_default()
}

async fn pass_on(State(upstream): State<Arc<Upstream>>, headers: HeaderMap, body: Bytes) -> Response {
    let target = headers.get(TARGET).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    upstream.calls.lock().unwrap_or_else(PoisonError::into_inner).push((target, body.clone()));
    let request = upstream.client.post(&upstream.url).headers(end_to_end(headers)).body(body);
    match request.send().await {
        Ok(mut response) => {
            let headers = end_to_end(std::mem::take(response.headers_mut()));
            (response.status(), headers, response.bytes().await.unwrap_or_default()).into_response()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// Without what belongs to one connection.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    for name in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers
}
