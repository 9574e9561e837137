//! Passes requests on to DynamoDB and keeps what they asked.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
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
                let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
                Ok(Call { operation, body: serde_json::from_slice(body)? })
            })
            .collect()
    }
}

async fn pass_on(
    State(upstream): State<Arc<Upstream>>,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let target = headers.get(TARGET).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    upstream.calls.lock().unwrap_or_else(PoisonError::into_inner).push((target, body.clone()));
    let mut request = upstream.client.post(&upstream.url).body(body);
    for name in [TARGET, "content-type", "authorization", "x-amz-date"] {
        if let Some(value) = headers.get(name) {
            request = request.header(name, value);
        }
    }
    match request.send().await {
        Ok(response) => {
            let status = response.status();
            (status, response.bytes().await.unwrap_or_default())
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string().into()),
    }
}
