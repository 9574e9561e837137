//! Errors as clients see them: problem details (RFC 9457) with the contract's code and reason.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::reason::Reason;
use crate::reply::Reply;
use crate::trace::TraceId;

/// What is wrong with one member of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// A JSON Pointer (RFC 6901); empty for the whole body.
    pub pointer: String,
    pub detail: String,
}

/// What the broker itself said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerStatement {
    pub product: String,
    pub code: i64,
    pub name: String,
}

/// A refusal or a failure. `detail` is written for the caller: no stack, no secret, no table name, nothing of the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub reason: Reason,
    pub detail: String,
    pub faults: Vec<Fault>,
    pub broker: Option<BrokerStatement>,
    /// Seconds.
    pub retry_after: Option<u32>,
    /// Further members, such as the ids of messages in doubt.
    pub extensions: Map<String, Value>,
    /// Further response headers, such as `allow`.
    pub headers: Vec<(&'static str, String)>,
}

impl Problem {
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            faults: Vec::new(),
            broker: None,
            retry_after: reason.default_retry_after(),
            extensions: Map::new(),
            headers: Vec::new(),
        }
    }

    /// A body that does not fit, with the members at fault.
    pub fn faulty(reason: Reason, faults: Vec<Fault>) -> Self {
        let detail = match faults.as_slice() {
            [Fault { pointer, detail }] if !pointer.is_empty() => format!("{pointer}: {detail}"),
            [Fault { detail, .. }] => detail.clone(),
            _ => format!("{} members of the body are at fault", faults.len()),
        };
        Self { faults, ..Self::new(reason, detail) }
    }

    /// A body whose member at `pointer` is at fault.
    pub fn violation(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::faulty(Reason::SchemaViolation, vec![Fault { pointer: pointer.into(), detail: detail.into() }])
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    #[must_use]
    pub fn broker(mut self, broker: Option<BrokerStatement>) -> Self {
        self.broker = broker;
        self
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    #[must_use]
    pub fn extension(mut self, name: &str, value: Value) -> Self {
        self.extensions.insert(name.to_owned(), value);
        self
    }

    /// The response, without the headers that every response has.
    pub fn to_reply(&self, trace_id: &TraceId) -> Reply {
        let mut body = self.extensions.clone();
        let urn = self.reason.as_str().to_ascii_lowercase().replace('_', "-");
        body.insert("type".to_owned(), json!(format!("urn:integrahub:problem:{urn}")));
        body.insert("title".to_owned(), json!(self.reason.title()));
        body.insert("status".to_owned(), json!(self.reason.status()));
        body.insert("detail".to_owned(), json!(self.detail));
        body.insert("code".to_owned(), json!(self.reason.code()));
        body.insert("reason".to_owned(), json!(self.reason));
        body.insert("traceId".to_owned(), json!(trace_id));
        if !self.faults.is_empty() {
            body.insert("errors".to_owned(), json!(self.faults));
        }
        if let Some(broker) = &self.broker {
            body.insert("broker".to_owned(), json!(broker));
        }
        let mut reply =
            Reply::new(self.reason.status(), "application/problem+json", Value::Object(body).to_string());
        if let Some(seconds) = self.retry_after {
            reply.set_header("retry-after", seconds.to_string());
        }
        for (name, value) in &self.headers {
            reply.set_header(name, value.clone());
        }
        reply
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.as_str(), self.detail)
    }
}

impl std::error::Error for Problem {}
