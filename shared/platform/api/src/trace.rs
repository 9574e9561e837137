//! The id that links a request, its log lines and its response.

use std::fmt;

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Value of `X-Trace-Id`: the request's, if it is 1 to 128 visible ASCII characters, or a new UUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TraceId(String);

impl TraceId {
    /// Name of the header in requests and responses.
    pub const HEADER: &str = "x-trace-id";

    /// Returns the request's own id if it has the form, or else a new one.
    pub fn of(headers: &HeaderMap) -> Self {
        headers
            .get(Self::HEADER)
            .and_then(|value| value.to_str().ok())
            .filter(|id| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()))
            .map_or_else(Self::new, |id| Self(id.to_owned()))
    }

    /// Makes a new id: a UUID of version 7.
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::now_v7().to_string())
    }

    /// Returns the id: 1 to 128 visible ASCII characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for TraceId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
