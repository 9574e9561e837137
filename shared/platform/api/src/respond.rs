//! Conversion of a [`Reply`] to an HTTP response.

use crate::Reply;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::trace::TraceId;

/// Converts a reply to an HTTP response with the trace id of the request.
#[must_use]
pub fn respond(mut reply: Reply, trace_id: &TraceId) -> Response<String> {
    reply.set_header(TraceId::HEADER, trace_id.as_str());
    let mut response = Response::new(reply.body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in reply.headers {
        match (HeaderName::try_from(&name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => drop(response.headers_mut().insert(name, value)),
            _ => tracing::error!(event_type = "reply.header_dropped", name, "cannot send header {name}"),
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_sent_with_its_headers_and_the_trace_id() {
        let mut reply = Reply::new(201, "application/json", "{}".to_owned());
        reply.set_header("location", "/v1/batches/7");
        reply.set_header("x-broken", "two\nlines");
        let trace_id = TraceId::new();
        let response = respond(reply, &trace_id);
        assert_eq!((response.status().as_u16(), response.body().as_str()), (201, "{}"));
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!(header("content-type"), Some("application/json"));
        assert_eq!(header("location"), Some("/v1/batches/7"));
        assert_eq!(header(TraceId::HEADER), Some(trace_id.as_str()));
        assert_eq!(header("x-broken"), None);
    }
}
