//! Formats of responses.

use api::{Problem, Reason, Reply};
use http::HeaderMap;
use http::header::ACCEPT;
use serde::Serialize;

/// Formats in which a report is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Lines,
}

const LINES: &str = "application/x-ndjson";

impl Format {
    /// The format that `Accept` asks for: lines only if the client prefers them to JSON. Generated
    /// clients name every media type of a response and read JSON alone, so a tie means JSON. A
    /// range covers JSON if nothing narrower does (RFC 9110, section 12.5.1).
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let (mut lines, mut json, mut application, mut any) = (None, None, None, None);
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse);
            let weight = weight.unwrap_or(0.0);
            for (name, found) in [
                (LINES, &mut lines),
                ("application/json", &mut json),
                ("application/*", &mut application),
                ("*/*", &mut any),
            ] {
                if media_type.eq_ignore_ascii_case(name) {
                    *found = Some(weight);
                }
            }
        }
        let json: f32 = json.or(application).or(any).unwrap_or(0.0);
        if lines.is_some_and(|lines| lines > json) { Self::Lines } else { Self::Json }
    }
}

/// Makes a JSON response that must not be cached.
pub(crate) fn json(body: &impl Serialize) -> Result<Reply, Problem> {
    Ok(fresh(Reply::new(200, "application/json", text(body)?)))
}

/// Makes a response of lines that must not be cached, with a `Link` to the next page if there is
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
    use http::HeaderValue;

    use super::*;

    #[test]
    fn lines_are_for_those_who_prefer_them_to_json() {
        for (accept, expected) in [
            ("application/x-ndjson", Format::Lines),
            ("Application/X-NDJSON; q=0.5", Format::Lines),
            ("application/x-ndjson, application/json;q=0.9", Format::Lines),
            ("application/x-ndjson, */*;q=0.1", Format::Lines),
            ("application/x-ndjson, application/json;q=0.5, */*", Format::Lines),
            ("application/json, application/x-ndjson, application/problem+json", Format::Json),
            ("application/json, application/x-ndjson;q=0.9", Format::Json),
            ("application/x-ndjson;q=0.1, */*", Format::Json),
            ("application/x-ndjson;q=0.5, application/*;q=0.5", Format::Json),
            ("application/x-ndjson;q=0", Format::Json),
            ("application/x-ndjson;q=much", Format::Json),
            ("*/*", Format::Json),
            ("application/*", Format::Json),
            ("", Format::Json),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Format::of(&headers), expected, "{accept}");
        }
        assert_eq!(Format::of(&HeaderMap::new()), Format::Json);
    }

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
