//! Formats of responses.

use api::{Problem, Reason, Reply};
use http::HeaderMap;
use serde::Serialize;

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Lines,
}

const LINES: &str = "application/x-ndjson";

impl Format {
    /// Returns the format that the header `Accept` asks for.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if api::prefers(headers, LINES) { Self::Lines } else { Self::Json }
    }
}

/// Builds a JSON response that must not be cached.
pub(crate) fn json(body: &impl Serialize) -> Result<Reply, Problem> {
    Ok(fresh(Reply::new(200, "application/json", text(body)?)))
}

/// Builds a response of lines that must not be cached, with a `Link` to the next page if there is
/// one.
pub(crate) fn lines(lines: &[String], next: Option<String>) -> Reply {
    let body = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    let mut reply = fresh(Reply::new(200, LINES, body));
    if let Some(next) = next {
        reply.set_header("link", format!("<{next}>; rel=\"next\""));
    }
    reply
}

/// Serializes a body as JSON.
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
