//! A response that is finished but for the headers of the request that it answers.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lambda_http::{Body, Response};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::trace::TraceId;

/// Status, headers (lower-case names) and a body of text, as records keep it and replays send it, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Reply {
    pub fn new(status: u16, content_type: &str, body: String) -> Self {
        let headers = BTreeMap::from([("content-type".to_owned(), content_type.to_owned())]);
        Self { status, headers, body }
    }

    /// A JSON response.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    pub fn set_header(&mut self, name: &str, value: impl Into<String>) {
        self.headers.insert(name.to_owned(), value.into());
    }

    /// The value of `Content-Digest` for the body (RFC 9530).
    pub fn content_digest(&self) -> String {
        format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(self.body.as_bytes())))
    }

    pub fn into_response(mut self, trace_id: &TraceId) -> Response<Body> {
        self.set_header(TraceId::HEADER, trace_id.as_str());
        let mut response = Response::new(Body::Text(self.body));
        *response.status_mut() =
            http::StatusCode::from_u16(self.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) =
                (http::HeaderName::try_from(name), http::HeaderValue::try_from(value))
            {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}
