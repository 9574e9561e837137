//! The id that links a request, its log lines, its messages, its events and its response.

use std::fmt;

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Trace id of a request: the value of `X-Trace-Id` if it is 1 to 128 visible ASCII characters,
/// otherwise the request's [`Traceparent`], or a new UUID.
///
/// A trace context takes the place of the id and is not stored next to it, so that every record,
/// row and event that has the trace id has the trace context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TraceId(String);

impl TraceId {
    /// Name of the trace id's header in requests and responses.
    pub const HEADER: &str = "x-trace-id";

    /// Returns the trace id of a request: from `X-Trace-Id` if it is valid, otherwise its trace
    /// context, or a new id.
    pub fn of(headers: &HeaderMap) -> Self {
        headers
            .get(Self::HEADER)
            .and_then(|value| value.to_str().ok())
            .filter(|id| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()))
            .or_else(|| Traceparent::of(headers).map(|context| context.text))
            .map_or_else(Self::new, |id| Self(id.to_owned()))
    }

    /// Creates a new trace id: a UUID of version 7.
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

/// Trace context of a caller: the header `traceparent` of W3C Trace Context, version 00.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent<'a> {
    /// Whole value of `traceparent`, as it is passed on.
    pub text: &'a str,
    /// Id of the trace: 32 hexadecimal digits in lower case.
    pub trace_id: &'a str,
    /// Id of the caller's span: 16 hexadecimal digits in lower case.
    pub span_id: &'a str,
}

impl<'a> Traceparent<'a> {
    /// Name under which a trace context is sent: as a header of HTTP requests and of messages, and
    /// as an attribute of events.
    pub const HEADER: &'static str = "traceparent";

    /// Returns the trace context of a request; `None` if the request has no `traceparent`, several
    /// of them, or a malformed one.
    #[must_use]
    pub fn of(headers: &'a HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(Self::HEADER).iter();
        match (values.next(), values.next()) {
            (Some(one), None) => Self::parse(one.to_str().ok()?),
            _ => None,
        }
    }

    /// Parses the value of `traceparent`; `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace_id, span_id) = (parts.next()?, parts.next()?, parts.next()?);
        let flags = parts.next()?;
        let is_whole = version == "00" && is_hex(flags, 2) && parts.next().is_none();
        (is_whole && is_id(trace_id, 32) && is_id(span_id, 16)).then_some(Self { text, trace_id, span_id })
    }
}

fn is_hex(part: &str, digits: usize) -> bool {
    part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether a part of `traceparent` is an id of this number of hexadecimal digits, not all
/// of them zero.
fn is_id(part: &str, digits: usize) -> bool {
    is_hex(part, digits) && part.bytes().any(|byte| byte != b'0')
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn id(headers: &[(&'static str, &'static str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        TraceId::of(&map).as_str().to_owned()
    }

    #[test]
    fn a_trace_context_is_the_id_of_a_request_that_names_no_other() {
        assert_eq!(id(&[("traceparent", CONTEXT)]), CONTEXT);
        assert_eq!(id(&[("traceparent", CONTEXT), ("x-trace-id", "mine")]), "mine");
        assert_eq!(id(&[("traceparent", CONTEXT), ("x-trace-id", "not mine")]), CONTEXT);
    }

    #[test]
    fn a_malformed_trace_context_counts_as_none() {
        let parsed = Traceparent::parse(CONTEXT).unwrap();
        assert_eq!(parsed.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parsed.span_id, "00f067aa0ba902b7");
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Traceparent::parse(wrong), None, "{wrong}");
            assert_eq!(id(&[("traceparent", wrong)]).len(), 36, "{wrong}");
        }
        assert_eq!(id(&[("traceparent", CONTEXT), ("traceparent", CONTEXT)]).len(), 36);
    }
}
