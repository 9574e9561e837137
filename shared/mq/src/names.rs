//! Names that callers give: queues and message headers.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a queue. At most 255 bytes, AMQP's limit for a short string; IBM MQ's own (48) is its broker's to refuse.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct QueueName(String);

impl QueueName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for QueueName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.is_empty() || name.len() > 255 {
            return Err(format!("must be 1 to 255 bytes long, not {}", name.len()));
        }
        if name.chars().any(char::is_control) {
            return Err("must not contain control characters".to_owned());
        }
        Ok(Self(name))
    }
}

/// Properties that every message carries and a caller may not set.
const RESERVED: [&str; 2] = ["idempotencyKey", "sequence"];

/// The name of a message property: 1 to 255 bytes, and not one that the gateway sets itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct HeaderName(String);

impl HeaderName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for HeaderName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.is_empty() || name.len() > 255 {
            return Err(format!("a header's name must be 1 to 255 bytes long, not {}", name.len()));
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(format!("`{name}` is set by the gateway on every message"));
        }
        Ok(Self(name))
    }
}

/// A message's own properties. Names and values together stay under [`Headers::MAX_BYTES`], because a broker
/// sends them in one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<HeaderName, String>", into = "BTreeMap<HeaderName, String>")]
pub struct Headers(BTreeMap<HeaderName, String>);

impl Headers {
    pub const MAX_BYTES: usize = 32 * 1024;

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These headers with `more` laid over them.
    pub fn overlaid_with(&self, more: &Self) -> Self {
        let mut all = self.0.clone();
        all.extend(more.0.clone());
        Self(all)
    }
}

impl TryFrom<BTreeMap<HeaderName, String>> for Headers {
    type Error = String;

    fn try_from(headers: BTreeMap<HeaderName, String>) -> Result<Self, String> {
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > Self::MAX_BYTES {
            return Err(format!("names and values must not exceed {} bytes, not {bytes}", Self::MAX_BYTES));
        }
        Ok(Self(headers))
    }
}

impl From<Headers> for BTreeMap<HeaderName, String> {
    fn from(headers: Headers) -> Self {
        headers.0
    }
}
