//! Formats of the responses of the function `batches`: JSON and NDJSON.

use api::{Problem, Reason, Reply};
use http::HeaderMap;
use serde::Serialize;

/// Format of an error list in a response: a JSON object, or NDJSON lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Lines,
}

const LINES: &str = "application/x-ndjson";

impl Format {
    /// Returns the format that the request's `Accept` header prefers; JSON by default.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if api::prefers(headers, LINES) { Self::Lines } else { Self::Json }
    }
}

/// Builds a 200 response with a JSON body and `Cache-Control: no-store`.
pub(crate) fn json(body: &impl Serialize) -> Result<Reply, Problem> {
    Ok(fresh(Reply::new(200, "application/json", text(body)?)))
}

/// Builds a 200 response with an NDJSON body and `Cache-Control: no-store`. `next` is the path and
/// query of the next page, sent in a `Link` header.
pub(crate) fn lines(lines: &[String], next: Option<String>) -> Reply {
    let body = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    let mut reply = fresh(Reply::new(200, LINES, body));
    if let Some(next) = next {
        reply.set_header("link", format!("<{next}>; rel=\"next\""));
    }
    reply
}

/// Serializes a response body as JSON; a failure is logged and becomes `STORE_UNAVAILABLE`.
pub(crate) fn text(body: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(body).map_err(|error| {
        tracing::error!(event_type = "batches.unwritable", error = %error, "cannot write a response: {error}");
        Problem::new(Reason::StoreUnavailable, "what is known of batches cannot be shown")
    })
}

fn fresh(mut reply: Reply) -> Reply {
    reply.set_header("cache-control", "no-store");
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_ends() {
        let reply = lines(&["1".to_owned(), "2".to_owned()], Some("/next".to_owned()));
        assert_eq!(
            (reply.body.as_str(), reply.headers["link"].as_str()),
            ("1\n2\n", "</next>; rel=\"next\"")
        );
        assert_eq!(lines(&[], None).body, "");
    }
}
