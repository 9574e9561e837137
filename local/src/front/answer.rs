//! Answers of API Gateway, from what functions returned.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::Kind;

/// Name that a REST API gives to a function's header `WWW-Authenticate`.
const REMAPPED: &str = "x-amzn-remapped-www-authenticate";

/// HTTP response with its whole body.
pub(super) type Answer = Response<Bytes>;

/// Response of the gateway itself, with API Gateway's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gateway {
    NotFound,
    Forbidden,
    RequestEntityTooLarge,
    BadRequest,
    InternalServerError,
    ServiceUnavailable,
    /// The body cannot be inflated as `Content-Encoding` says.
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

    /// Answers of a REST API, with the statuses that the template's gateway responses give them.
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

/// Returns the template's response of a REST API to a request without a route.
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

/// The function's answer: with `statusCode` it is an HTTP answer. Anything else is the body of a
/// 200 for an HTTP API, and no answer for a REST API.
pub(super) fn from_function(kind: Kind, payload: &[u8]) -> Answer {
    let refusal = || Gateway::InternalServerError.answer(kind);
    let Ok(value) = serde_json::from_slice::<Value>(payload) else {
        return refusal();
    };
    match (kind, value) {
        (_, Value::Object(members)) if members.contains_key("statusCode") => {
            full(&members).map_or_else(refusal, |answer| remapped(kind, answer))
        }
        (Kind::Rest, _) => refusal(),
        (Kind::Http, Value::String(text)) => bare(text),
        (Kind::Http, other) => bare(other.to_string()),
    }
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

fn bare(body: String) -> Answer {
    let mut answer = Response::new(Bytes::from(body));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// An answer with a status, or `None` if the gateway cannot make one of the members.
fn full(members: &Map<String, Value>) -> Option<Answer> {
    let mut answer = Response::new(body(members)?);
    *answer.status_mut() = status(members.get("statusCode")?)?;
    let headers = answer.headers_mut();
    for (name, value) in members.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let name = HeaderName::try_from(name).ok()?;
        if is_of_the_connection(&name) {
            continue;
        }
        headers.insert(name, HeaderValue::try_from(scalar(value)?).ok()?);
    }
    // The format of a REST API's answers has them all here.
    for (name, values) in members.get("multiValueHeaders").and_then(Value::as_object).into_iter().flatten() {
        let name = HeaderName::try_from(name).ok()?;
        for value in values.as_array()?.iter().filter(|_| !is_of_the_connection(&name)) {
            headers.append(&name, HeaderValue::try_from(scalar(value)?).ok()?);
        }
    }
    for cookie in members.get("cookies").and_then(Value::as_array).into_iter().flatten() {
        headers.append(header::SET_COOKIE, HeaderValue::try_from(cookie.as_str()?).ok()?);
    }
    headers
        .entry(header::CONTENT_TYPE)
        .or_insert_with(|| HeaderValue::from_static("text/plain;charset=UTF-8"));
    Some(answer)
}

fn status(value: &Value) -> Option<StatusCode> {
    let code = match value {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    StatusCode::from_u16(code).ok().filter(|status| status.as_u16() >= 200)
}

fn body(members: &Map<String, Value>) -> Option<Bytes> {
    let text = match members.get("body") {
        None | Some(Value::Null) => return Some(Bytes::new()),
        Some(Value::String(text)) => text,
        Some(_) => return None,
    };
    if members.get("isBase64Encoded").and_then(Value::as_bool).unwrap_or(false) {
        return STANDARD.decode(text).ok().map(Bytes::from);
    }
    Some(Bytes::from(text.clone()))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// True for headers about the connection, which the server sets itself.
fn is_of_the_connection(name: &HeaderName) -> bool {
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION].contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(value: &Value) -> Answer {
        from_function(Kind::Http, value.to_string().as_bytes())
    }

    #[test]
    fn a_full_answer_is_taken_as_it_is() {
        let answer = answer(&json!({
            "statusCode": 201,
            "headers": {"Content-Type": "application/json", "X-Number": 7, "Content-Length": "99"},
            "cookies": ["a=1", "b=2; Path=/"],
            "body": "{}",
        }));
        assert_eq!(answer.status(), 201);
        assert_eq!(answer.headers()["x-number"], "7");
        assert!(!answer.headers().contains_key("content-length"));
        let cookies: Vec<_> = answer.headers().get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a=1", "b=2; Path=/"]);
        assert_eq!(answer.body(), "{}");
    }

    #[test]
    fn base64_bodies_are_decoded() {
        let answer = answer(&json!({"statusCode": 200, "isBase64Encoded": true, "body": "H4s="}));
        assert_eq!(answer.body().as_ref(), b"\x1f\x8b");
    }

    #[test]
    fn an_answer_without_a_status_is_the_body_of_a_200() {
        for (value, body) in [(json!({"a": 1}), "{\"a\":1}"), (json!("text"), "text"), (json!([1]), "[1]")] {
            let answer = answer(&value);
            assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (200, body.as_bytes()));
            assert_eq!(answer.headers()["content-type"], "application/json");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_internal_error() {
        for value in [
            json!({"statusCode": "x"}),
            json!({"statusCode": 99}),
            json!({"statusCode": 200, "body": {}}),
            json!({"statusCode": 200, "headers": {"a b": "c"}}),
            json!({"statusCode": 200, "isBase64Encoded": true, "body": "%"}),
        ] {
            assert_eq!(answer(&value).status(), 500, "{value}");
        }
        let not_json = from_function(Kind::Http, b"not json");
        assert_eq!(not_json.body(), "{\"message\":\"Internal Server Error\"}");
        assert_eq!(from_function(Kind::Rest, b"{\"a\":1}").status(), 500, "a REST API needs a status");
    }

    #[test]
    fn a_rest_api_s_answer_has_several_values_of_a_header() {
        let answer = json!({
            "statusCode": 200,
            "headers": {},
            "multiValueHeaders": {"x-one": ["a", "b"], "content-length": ["99"]},
            "body": "{}",
        });
        let answer = from_function(Kind::Rest, answer.to_string().as_bytes());
        let values: Vec<_> = answer.headers().get_all("x-one").iter().collect();
        assert_eq!(answer.status(), 200);
        assert_eq!(values, ["a", "b"]);
        assert!(!answer.headers().contains_key("content-length"));
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

    #[test]
    fn what_no_route_takes_is_a_problem_with_the_request_s_id() {
        let answer = unrouted("{\"traceId\":\"$context.requestId\"}", "id-1");
        assert_eq!(
            (answer.status().as_u16(), answer.body().as_ref()),
            (404, b"{\"traceId\":\"id-1\"}".as_slice())
        );
        assert_eq!(answer.headers()["x-trace-id"], "id-1");
    }
}
