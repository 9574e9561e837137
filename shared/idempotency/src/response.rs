//! What a replay sends.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A response as it is recorded and sent again, byte for byte: status, headers (lower-case names) and a body of text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The HTTP status, or any number that tells outcomes apart.
    pub status: u16,
    /// By name.
    pub headers: BTreeMap<String, String>,
    /// At most 8 MiB.
    pub body: String,
}

impl Response {
    /// The value of `Content-Digest` for the body (RFC 9530).
    pub fn content_digest(&self) -> String {
        content_digest(self.body.as_bytes())
    }
}

pub(crate) fn content_digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)))
}
