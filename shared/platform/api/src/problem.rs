//! Errors as clients see them: problem details (RFC 9457) with the contract's code and reason.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::Reply;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::reason::Reason;
use crate::trace::TraceId;

/// Maximum bytes of a problem's body.
pub const MAX_BODY: usize = 4096;

/// Maximum bytes of each part of a problem's body, measured in JSON. The members that depend on the
/// reason, and the trace id, take less than 700 bytes.
mod budget {
    pub(super) const DETAIL: usize = 600;
    /// Maximum bytes of the JSON pointer of a fault.
    pub(super) const POINTER: usize = 240;
    /// Maximum bytes of the detail of one fault.
    pub(super) const FAULT: usize = 400;
    /// Maximum bytes of the list of faults, `errors`.
    pub(super) const LIST: usize = 1000;
    /// Maximum bytes of all extension members of a problem.
    pub(super) const EXTENSIONS: usize = 1000;
}

/// Fault of one member of a request body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// JSON Pointer (RFC 6901) to the member; empty for the whole body.
    pub pointer: String,
    /// Description of the fault, without the member's value.
    pub detail: String,
}

impl Fault {
    fn cut(&self) -> Self {
        let detail = cut(&self.detail, budget::FAULT).into_owned();
        Self { pointer: cut(&self.pointer, budget::POINTER).into_owned(), detail }
    }
}

/// Refusal or failure of a request, sent as a problem document (RFC 9457). `detail` is for the
/// caller, and contains no stack, secret, name of a table, text of the body or text of another
/// system. The [source](std::error::Error::source) is for the operator, and is logged only.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Reason of the problem, which determines its status, code and title.
    pub reason: Reason,
    /// Description of this occurrence, and what the caller should do next.
    pub detail: String,
    /// Faults of members of the body. Only the first ones are sent if they are too many.
    pub faults: Vec<Fault>,
    /// Seconds in the response header `Retry-After`; `None` if the response does not have this
    /// header.
    pub retry_after: Option<u32>,
    /// Further members of the problem document, such as a broker's reply, or the ids of messages of
    /// which it is unknown whether they were delivered.
    pub extensions: Map<String, Value>,
    /// Further response headers, such as `allow`.
    pub headers: Vec<(&'static str, String)>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

/// Compares what a client sees of two problems. Their causes are ignored.
impl PartialEq for Problem {
    fn eq(&self, other: &Self) -> bool {
        let Self { reason, detail, faults, retry_after, extensions, headers, cause: _ } = self;
        (reason, detail, faults) == (&other.reason, &other.detail, &other.faults)
            && (retry_after, extensions, headers) == (&other.retry_after, &other.extensions, &other.headers)
    }
}

impl Problem {
    /// Creates a problem with the `Retry-After` of its reason, and without further members.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            faults: Vec::new(),
            retry_after: reason.default_retry_after(),
            extensions: Map::new(),
            headers: Vec::new(),
            cause: None,
        }
    }

    /// Creates a problem about faults of the request body. Its `detail` describes the first fault.
    #[must_use]
    pub fn faulty(reason: Reason, faults: Vec<Fault>) -> Self {
        let first = match faults.first() {
            None => "the body is at fault".to_owned(),
            Some(Fault { pointer, detail }) if pointer.is_empty() => detail.clone(),
            Some(Fault { pointer, detail }) => format!("{}: {detail}", cut(pointer, budget::POINTER)),
        };
        let detail = match faults.len() {
            0 | 1 => first,
            number => format!("{first} (one of {number} faults, which `errors` lists)"),
        };
        Self { faults, ..Self::new(reason, detail) }
    }

    /// Creates a `SCHEMA_VIOLATION` for the member of the body at `pointer`.
    pub fn violation(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::faulty(Reason::SchemaViolation, vec![Fault { pointer: pointer.into(), detail: detail.into() }])
    }

    /// Sets the seconds of `Retry-After`, in place of the default of the reason.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Sets the cause of the problem, which only the log shows.
    #[must_use]
    pub fn caused_by(mut self, cause: Option<Arc<dyn Error + Send + Sync>>) -> Self {
        self.cause = cause;
        self
    }

    /// Adds a response header. Its name must be in lower case.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds a further member to the problem document, or replaces it. All further members together
    /// have at most 1000 bytes: members beyond that are left out, and lists are shortened.
    #[must_use]
    pub fn extension(mut self, name: &str, value: Value) -> Self {
        self.extensions.insert(name.to_owned(), value);
        self
    }

    /// Builds the response, without the headers that all responses have. Its body has at most
    /// [`MAX_BODY`] bytes: texts and lists that would exceed them are cut.
    #[must_use]
    pub fn to_reply(&self, trace_id: &TraceId) -> Reply {
        let urn = self.reason.as_str().to_ascii_lowercase().replace('_', "-");
        let mut body = Map::new();
        body.insert("type".to_owned(), json!(format!("urn:integrahub:problem:{urn}")));
        body.insert("title".to_owned(), json!(self.reason.title()));
        body.insert("status".to_owned(), json!(self.reason.status()));
        body.insert("detail".to_owned(), json!(cut(&self.detail, budget::DETAIL)));
        body.insert("code".to_owned(), json!(self.reason.code()));
        body.insert("reason".to_owned(), json!(self.reason));
        body.insert("traceId".to_owned(), json!(trace_id));
        if !self.faults.is_empty() {
            let faults = self.faults.iter().map(|fault| json!(fault.cut()));
            body.insert("errors".to_owned(), Value::Array(fitting(faults, budget::LIST)));
        }
        for (name, value) in bounded_extensions(&self.extensions) {
            body.entry(name).or_insert(value);
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

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as &(dyn Error + 'static))
    }
}

/// Returns the beginning of `text` that has at most `max` bytes in a JSON string. It ends in `…` if
/// it was cut.
#[must_use]
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    let mut taken = 0_usize;
    for (offset, character) in text.char_indices() {
        taken = taken.saturating_add(carried(character));
        if taken > max {
            let kept = text.get(..offset).unwrap_or_default();
            return Cow::Owned(format!("{kept}…"));
        }
    }
    Cow::Borrowed(text)
}

/// Returns the number of bytes of a character in a JSON string, with its escape.
const fn carried(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// Returns the first `items` that have at most `max` bytes in JSON together.
fn fitting(items: impl Iterator<Item = Value>, max: usize) -> Vec<Value> {
    let mut taken = 0_usize;
    items
        .take_while(|item| {
            taken = taken.saturating_add(item.to_string().len()).saturating_add(1);
            taken <= max
        })
        .collect()
}

/// Returns the further members that fit into 1000 bytes. Lists are shortened to the items that fit;
/// other members are left out as a whole.
fn bounded_extensions(extensions: &Map<String, Value>) -> Vec<(String, Value)> {
    let mut left = budget::EXTENSIONS;
    let mut kept = Vec::new();
    // Lists come last, so that they leave room for the rest.
    let (lists, others): (Vec<_>, Vec<_>) = extensions.iter().partition(|(_, value)| value.is_array());
    for (name, value) in others.into_iter().chain(lists) {
        let frame = name.len().saturating_add(6);
        let room = left.saturating_sub(frame);
        let value = match value {
            Value::Array(items) => Value::Array(fitting(items.iter().cloned(), room)),
            other => other.clone(),
        };
        let taken = value.to_string().len();
        if taken <= room {
            left = room.saturating_sub(taken);
            kept.push((name.clone(), value));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// Returns a trace id with the most bytes in JSON.
    fn trace_id() -> TraceId {
        let mut headers = HeaderMap::new();
        headers.insert(TraceId::HEADER, HeaderValue::from_str(&"\"".repeat(128)).unwrap());
        TraceId::of(&headers)
    }

    #[test]
    fn what_is_short_is_said_in_full() {
        let problem = Problem::violation("/batch/count", "must be between 1 and 100000, not 0");
        let body: Value = serde_json::from_str(&problem.to_reply(&TraceId::new()).body).unwrap();
        assert_eq!(body["detail"], "/batch/count: must be between 1 and 100000, not 0");
        assert_eq!(body["errors"][0]["pointer"], "/batch/count");
    }

    #[test]
    fn a_cause_is_logged_and_never_sent() {
        let problem = Problem::new(Reason::Busy, "ours");
        let caused = problem.clone().caused_by(Some(Arc::new(std::io::Error::other("theirs"))));
        assert_eq!(caused.source().map(ToString::to_string), Some("theirs".to_owned()));
        assert_eq!(caused.to_reply(&trace_id()), problem.to_reply(&trace_id()));
        assert_eq!(caused, problem);
    }

    #[test]
    fn of_ids_in_doubt_as_many_as_fit_are_listed() {
        let ids: Vec<_> = (0..100_000).map(|id| format!("{id:064}")).collect();
        let problem = Problem::new(Reason::OutcomeInDoubt, "no answer")
            .extension("messageIds", json!(ids))
            .extension("enqueued", json!(17));
        let body: Value = serde_json::from_str(&problem.to_reply(&trace_id()).body).unwrap();
        assert_eq!(body["enqueued"], 17);
        assert!((10..20).contains(&body["messageIds"].as_array().unwrap().len()), "{body}");
    }

    fn reasons() -> impl Strategy<Value = Reason> {
        (0..Reason::ALL.len()).prop_map(|index| Reason::ALL[index])
    }

    /// Generates strings of up to some thousand bytes, with escaped and with multi-byte characters.
    fn texts() -> impl Strategy<Value = String> {
        ("[\\x00-\\x1f\"\\\\/~a-zé€😀]{0,40}", 1_usize..100).prop_map(|(text, times)| text.repeat(times))
    }

    proptest! {
        #[test]
        fn a_problem_is_never_larger_than_promised(
            reason in reasons(),
            detail in texts(),
            faults in proptest::collection::vec((texts(), texts()), 0..30),
            extensions in proptest::collection::btree_map("[a-z]{1,20}", texts(), 0..5),
        ) {
            let faults: Vec<_> =
                faults.into_iter().map(|(pointer, detail)| Fault { pointer, detail }).collect();
            let mut problem = Problem::faulty(reason, faults);
            if problem.faults.is_empty() {
                problem.detail = detail;
            }
            for (name, text) in extensions {
                problem = problem.extension(&name, json!([text, text.len()]));
            }
            let reply = problem.to_reply(&trace_id());
            prop_assert!(reply.body.len() <= MAX_BODY, "{} bytes", reply.body.len());
            let body: Value = serde_json::from_str(&reply.body).unwrap();
            prop_assert_eq!(&body["reason"], &json!(reason));
            prop_assert_eq!(body.get("errors").is_some(), !problem.faults.is_empty());
        }
    }
}
