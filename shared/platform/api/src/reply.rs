//! Finished HTTP response. A handler builds it, an idempotency record stores it, and a repeated
//! request gets the stored one again.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// HTTP response: status, headers (lower-case names) and a text body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// HTTP status code. If the reply is not sent through HTTP, it is a number on which its sender
    /// and reader have agreed.
    pub status: u16,
    /// HTTP headers of the response, by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// Body of the response as it is sent.
    pub body: String,
}

impl Reply {
    /// Creates a response of any media type.
    #[must_use]
    pub fn new(status: u16, content_type: &str, body: String) -> Self {
        let headers = BTreeMap::from([("content-type".to_owned(), content_type.to_owned())]);
        Self { status, headers, body }
    }

    /// Builds a JSON response. `body` must be serializable whatever its values are, such as a
    /// [`serde_json::Value`] or a struct of strings, numbers and lists.
    #[must_use]
    pub fn json(status: u16, body: &impl Serialize) -> Self {
        Self::new(status, "application/json", serde_json::to_string(body).unwrap_or_default())
    }

    /// Sets a header of the response, or replaces it.
    pub fn set_header(&mut self, name: &str, value: impl Into<String>) {
        self.headers.insert(name.to_owned(), value.into());
    }

    /// Returns the value of `Content-Digest` for the body (RFC 9530).
    #[must_use]
    pub fn content_digest(&self) -> String {
        content_digest(self.body.as_bytes())
    }
}

/// Returns the value of `Content-Digest` for a body (RFC 9530).
#[must_use]
pub fn content_digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_the_body_as_it_is_sent() {
        let reply = Reply::json(200, &serde_json::json!({"hello": "world"}));
        assert_eq!(reply.body, r#"{"hello":"world"}"#);
        assert_eq!(reply.content_digest(), "sha-256=:k6I5cakU5erL8KjSUVTNownDwccvu5kU1Hxg88toFYg=:");
    }
}
