//! HTTP responses of API Gateway, built from the objects that functions return.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use super::Kind;

/// Name under which a REST API returns a function's header `WWW-Authenticate`.
const REMAPPED: &str = "x-amzn-remapped-www-authenticate";

/// HTTP response with its whole body.
pub(super) type Answer = Response<Bytes>;

/// Error response of API Gateway itself, with the gateway's own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gateway {
    NotFound,
    Forbidden,
    RequestEntityTooLarge,
    BadRequest,
    InternalServerError,
    ServiceUnavailable,
    /// The body cannot be decompressed as `Content-Encoding` says.
    UnsupportedMediaType,
    /// The body is longer than the gateway accepts.
    TooLong,
}

impl Gateway {
    pub(super) fn answer(self, kind: Kind) -> Answer {
        let (status, message) = match kind {
            Kind::Http => self.of_http_api(),
            Kind::Rest => self.of_rest_api(),
        };
        let mut answer = Response::new(Bytes::from(json!({ "message": message }).to_string()));
        *answer.status_mut() = status;
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }

    fn of_http_api(self) -> (StatusCode, &'static str) {
        match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "Not Found"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::BadRequest => (StatusCode::BAD_REQUEST, "Bad Request"),
            Self::RequestEntityTooLarge | Self::TooLong => {
                (StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large")
            }
            Self::InternalServerError => (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
            Self::ServiceUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable"),
            Self::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported Media Type"),
        }
    }

    /// Returns the status and the message of a REST API. The template's gateway responses set the
    /// statuses.
    fn of_rest_api(self) -> (StatusCode, &'static str) {
        match self {
            Self::NotFound | Self::Forbidden => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::BadRequest => (StatusCode::BAD_REQUEST, "Bad Request"),
            Self::RequestEntityTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "Request Too Long"),
            Self::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "HTTP content length exceeded 10485760 bytes."),
            Self::InternalServerError => (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error"),
            Self::ServiceUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "Endpoint request timed out"),
            Self::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported Media Type"),
        }
    }
}

/// Returns the response of a REST API to a request without a route. `template` is its body, with
/// variables of API Gateway.
pub(super) fn unrouted(template: &str, id: &str) -> Answer {
    let mut answer = Response::new(Bytes::from(template.replace("$context.requestId", id)));
    *answer.status_mut() = StatusCode::NOT_FOUND;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Ok(id) = HeaderValue::try_from(id) {
        headers.insert("x-trace-id", id);
    }
    answer
}

/// Response object that a function returns, in the format of an HTTP API or of a REST API.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionAnswer {
    status_code: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Headers with all their values, in the format of a REST API.
    #[serde(default)]
    multi_value_headers: BTreeMap<String, Vec<String>>,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

/// Builds the HTTP response from the object that a function returned. An object that the gateway
/// does not understand gives an internal server error.
pub(super) fn from_function(kind: Kind, payload: &[u8]) -> Answer {
    let answer = serde_json::from_slice(payload).ok().and_then(response);
    answer.map_or_else(|| Gateway::InternalServerError.answer(kind), |answer| remapped(kind, answer))
}

fn remapped(kind: Kind, mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    if kind == Kind::Rest
        && let Some(challenge) = headers.remove(header::WWW_AUTHENTICATE)
    {
        headers.insert(REMAPPED, challenge);
    }
    answer
}

fn response(answer: FunctionAnswer) -> Option<Answer> {
    let body = answer.body.unwrap_or_default();
    let body = if answer.is_base64_encoded { STANDARD.decode(body).ok()? } else { body.into_bytes() };
    let mut response = Response::new(Bytes::from(body));
    let status = StatusCode::from_u16(answer.status_code).ok();
    *response.status_mut() = status.filter(|status| !status.is_informational())?;
    let headers = response.headers_mut();
    let repeated = answer.multi_value_headers.iter();
    let repeated = repeated.flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    for (name, value) in answer.headers.iter().chain(repeated) {
        let name = HeaderName::try_from(name).ok()?;
        if !is_of_the_connection(&name) {
            headers.append(name, HeaderValue::try_from(value).ok()?);
        }
    }
    headers
        .entry(header::CONTENT_TYPE)
        .or_insert_with(|| HeaderValue::from_static("text/plain;charset=UTF-8"));
    Some(response)
}

/// Returns true for headers about the connection, which the server sets itself.
fn is_of_the_connection(name: &HeaderName) -> bool {
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION].contains(name)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn answer(value: &Value) -> Answer {
        from_function(Kind::Http, value.to_string().as_bytes())
    }

    #[test]
    fn an_answer_is_taken_as_it_is() {
        let answer = answer(&json!({
            "statusCode": 201,
            "headers": {"Content-Type": "application/json", "X-Number": "7", "Content-Length": "99"},
            "multiValueHeaders": {"x-one": ["a", "b"], "content-length": ["99"]},
            "isBase64Encoded": true,
            "body": "H4s=",
        }));
        assert_eq!(answer.status(), 201);
        assert_eq!(answer.headers()["x-number"], "7");
        assert!(!answer.headers().contains_key("content-length"));
        assert_eq!(answer.headers().get_all("x-one").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(answer.body().as_ref(), b"\x1f\x8b");
    }

    #[test]
    fn what_is_no_answer_is_an_internal_error() {
        for value in [
            json!("text"),
            json!({"body": "no status"}),
            json!({"statusCode": 99}),
            json!({"statusCode": 200, "body": {}}),
            json!({"statusCode": 200, "headers": {"a b": "c"}}),
            json!({"statusCode": 200, "isBase64Encoded": true, "body": "%"}),
        ] {
            assert_eq!(answer(&value).status(), 500, "{value}");
        }
        let not_json = from_function(Kind::Http, b"not json");
        assert_eq!(not_json.body(), "{\"message\":\"Internal Server Error\"}");
    }

    #[test]
    fn a_rest_api_renames_the_challenge() {
        let answer = json!({"statusCode": 401, "headers": {"WWW-Authenticate": "Bearer"}}).to_string();
        for (kind, name) in [(Kind::Http, "www-authenticate"), (Kind::Rest, REMAPPED)] {
            let answer = from_function(kind, answer.as_bytes());
            assert_eq!(
                (answer.headers().len(), &answer.headers()[name]),
                (2, &HeaderValue::from_static("Bearer"))
            );
        }
    }
}
