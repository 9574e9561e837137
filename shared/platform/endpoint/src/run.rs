//! Lambda runtime of an HTTP endpoint: reads requests as the two kinds of APIs send them, in
//! payload format 2.0 of an HTTP API or in the format of a REST API.

use std::fmt;

use http::header::{CONTENT_ENCODING, HOST, LOCATION};
use http::{HeaderMap, HeaderValue};
use lambda_http::aws_lambda_events::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use lambda_http::lambda_runtime::Diagnostic;
use lambda_http::request::{LambdaRequest, RequestContext};
use lambda_http::{
    Adapter, Body, Error, LambdaEvent, Request, RequestExt as _, Response, Service as _, lambda_runtime,
    service_fn,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::value::RawValue;

/// Characters that must be percent-encoded in a URL's query.
const QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');
/// Characters that must be percent-encoded in a segment of a URL's path.
const SEGMENT: &AsciiSet = &QUERY
    .add(b'%')
    .add(b'/')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Error for an event that is not a request of an HTTP or REST API. Its text repeats nothing of the
/// event, which may contain an API key.
#[derive(Debug)]
struct NoRequest;

impl fmt::Display for NoRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the event is that of no API")
    }
}

impl std::error::Error for NoRequest {}

/// Runs the function: lets `handler` respond to each request of an HTTP API or a REST API.
///
/// # Errors
/// If the Lambda runtime fails.
pub async fn run<F, A>(mut handler: F) -> Result<(), Error>
where
    F: FnMut(Request) -> A,
    A: Future<Output = Response<Body>> + Send,
{
    let mut adapter = Adapter::from(service_fn(move |request: Request| {
        let stage = stage(&request);
        let answer = handler(request);
        async move { Ok::<_, Diagnostic>(located(stage.as_deref(), answer.await)) }
    }));
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Box<RawValue>>| {
        let LambdaEvent { payload, context } = event;
        let request = runtime::answered(read(payload.get()));
        drop(payload);
        let response = request.map(|request| adapter.call(LambdaEvent::new(request, context)));
        async move { response?.await }
    }))
    .await
}

/// Parses an event of an HTTP API or a REST API. The format of an HTTP API is tried first, because
/// most deployments have one; `lambda_http` would try the format of a REST API first. No event fits
/// both formats.
fn read(event: &str) -> Result<LambdaRequest, NoRequest> {
    if let Ok(request) = serde_json::from_str(event) {
        return Ok(LambdaRequest::ApiGatewayV2(encoded(request)));
    }
    let request = serde_json::from_str(event).map_err(|_| NoRequest)?;
    Ok(LambdaRequest::ApiGatewayV1(as_sent(request)))
}

/// Percent-encodes the path of an HTTP API's event again, because API Gateway has decoded it and a
/// parameter may contain a `/`. In the query, only characters that a URL must not contain are
/// encoded.
fn encoded(mut event: ApiGatewayV2httpRequest) -> ApiGatewayV2httpRequest {
    let route = event.route_key.as_deref().and_then(|key| key.split_once(' '));
    if let Some((_, template)) = route
        && !event.path_parameters.is_empty()
    {
        let parameters = &event.path_parameters;
        let segment = |segment: &str| {
            let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            match name.and_then(|name| parameters.get(name)) {
                Some(value) => utf8_percent_encode(value, SEGMENT).to_string(),
                None => segment.to_owned(),
            }
        };
        let path = template.split('/').map(segment).collect::<Vec<_>>().join("/");
        event.raw_path = Some(path);
    }
    event.raw_path = event.raw_path.map(kept);
    event.raw_query_string =
        event.raw_query_string.map(|query| utf8_percent_encode(&query, QUERY).to_string());
    relative(&mut event.headers, &mut event.request_context.domain_name);
    event
}

/// Removes the host from an event, so that `lambda_http` builds the URL from the path alone. A host
/// that the client chose could change the path, or result in an invalid URL.
fn relative(headers: &mut HeaderMap, domain: &mut Option<String>) {
    headers.remove(HOST);
    *domain = None;
}

/// Returns a path that `lambda_http` does not change when it parses it as a URL. A path with `..`
/// or `\`, which could lead to another route, becomes a single encoded segment, which has no route.
fn kept(path: String) -> String {
    let changes = |character: char| character.is_control() || matches!(character, '\\' | '#' | '?');
    let is_step = |segment: &str| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        segment == "." || segment == ".."
    };
    if !path.starts_with('/') || path.contains(changes) || path.ends_with(' ') || path.split('/').any(is_step)
    {
        return format!("/{}", utf8_percent_encode(&path, SEGMENT));
    }
    path
}

/// Removes the parts of a REST API's event that `lambda_http` would misread: of repeated headers it
/// would keep only the last, and it would put the stage in front of the path.
fn as_sent(mut event: ApiGatewayProxyRequest) -> ApiGatewayProxyRequest {
    if !event.multi_value_headers.is_empty() {
        event.headers = HeaderMap::new();
    }
    event.request_context.stage = None;
    event.path = event.path.map(kept);
    relative(&mut event.headers, &mut event.request_context.domain_name);
    event
}

/// Returns the prefix of a REST API's paths, such as the stage `/live`. `None` for an HTTP API, and
/// for paths without a prefix, as under a custom domain.
fn stage(request: &Request) -> Option<String> {
    let Some(RequestContext::ApiGatewayV1(context)) = request.request_context_ref() else { return None };
    let stage = context.path.as_deref()?.strip_suffix(request.raw_http_path())?;
    (!stage.is_empty()).then(|| stage.to_owned())
}

/// Adds the prefix `stage` in front of a `Location` that is only a path, because it would otherwise
/// lead out of the API.
fn located(stage: Option<&str>, mut response: Response<Body>) -> Response<Body> {
    let path = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let path = path.filter(|path| path.starts_with('/'));
    let location = stage.zip(path).map(|(stage, path)| format!("{stage}{path}"));
    if let Some(location) = location.and_then(|location| HeaderValue::try_from(location).ok()) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Returns whether API Gateway may have inflated the request's body. A REST API does so for
/// `Content-Encoding`, and leaves the header as it is.
#[must_use]
pub fn may_be_inflated(request: &Request) -> bool {
    matches!(request.request_context_ref(), Some(RequestContext::ApiGatewayV1(_)))
        && request.headers().contains_key(CONTENT_ENCODING)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a REST API's event for a request to `/v1/things`. `path_of_client` is the path that
    /// the client sent, with the stage.
    fn rest(path_of_client: &str) -> Value {
        json!({
            "resource": "/v1/things",
            "path": "/v1/things",
            "httpMethod": "POST",
            "headers": {"Content-Encoding": "gzip", "Idempotency-Key": "b", "Host": "api.example.com"},
            "multiValueHeaders": {
                "Content-Encoding": ["gzip"],
                "Idempotency-Key": ["a", "b"],
                "Host": ["api.example.com"],
            },
            "queryStringParameters": {"cursor": "a b&c", "status": "FAILED"},
            "multiValueQueryStringParameters": {"cursor": ["a b&c"], "status": ["PENDING", "FAILED"]},
            "requestContext": {
                "accountId": "123456789012",
                "apiId": "abc123defg",
                "domainName": "abc123defg.execute-api.us-east-1.amazonaws.com",
                "httpMethod": "POST",
                "path": path_of_client,
                "resourcePath": "/v1/things",
                "stage": "live",
            },
            "body": "W10=",
            "isBase64Encoded": true,
        })
    }

    fn request(event: &Value) -> Request {
        read(&event.to_string()).unwrap().into()
    }

    #[test]
    fn a_rest_api_s_event_is_the_request_that_was_sent() {
        let request = request(&rest("/live/v1/things"));
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/things"));
        let keys: Vec<_> = request.headers().get_all("idempotency-key").iter().collect();
        assert_eq!(keys, ["a", "b"]);
        let query = request.uri().query().unwrap();
        assert!(query.contains("cursor=a+b%26c"), "{query}");
        assert!(query.contains("status=PENDING") && query.contains("status=FAILED"), "{query}");
        assert_eq!(request.body().to_vec(), b"[]");
        assert!(may_be_inflated(&request));
    }

    /// Returns an HTTP API's event for a request to a route.
    fn http(route: &str, path: &str, parameters: &Value, query: &str) -> Value {
        json!({
            "version": "2.0",
            "routeKey": route,
            "rawPath": path,
            "rawQueryString": query,
            "pathParameters": parameters,
            "headers": {"content-encoding": "gzip", "host": "api.example.com"},
            "requestContext": {
                "accountId": "123456789012",
                "apiId": "abc123defg",
                "http": {"method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
                "requestId": "id-1",
                "routeKey": route,
                "stage": "$default",
                "time": "21/Nov/2026:10:00:00 +0000",
                "timeEpoch": 1_795_255_200_000_u64,
            },
            "isBase64Encoded": false,
        })
    }

    #[test]
    fn a_parameter_that_was_decoded_stays_one_segment() {
        let key = "carga/2026 #%25?.json";
        let path = format!("/v1/things/{key}/errors");
        let event = http("POST /v1/things/{key}/errors", &path, &json!({"key": key}), "a=%20&b=\"<");
        let request = request(&event);
        assert_eq!(request.uri().path(), "/v1/things/carga%2F2026%20%23%2525%3F.json/errors");
        assert_eq!(request.uri().query(), Some("a=%20&b=%22%3C"));
    }

    #[test]
    fn no_path_leads_to_another_one() {
        for segment in ["..\\..\\usage", "../../usage", "..", ".", ".\t./usage"] {
            let path = format!("/v1/things/{segment}");
            let routed = http("POST /v1/things/{id}", &path, &json!({"id": segment}), "");
            let unrouted = http("$default", &path, &json!({}), "");
            let mut of_rest = rest("/live/v1/things");
            of_rest["path"] = json!(path);
            for event in [routed, unrouted, of_rest] {
                let request = request(&event);
                let path = request.uri().path();
                assert!(path.starts_with("/v1/things/.") || path.starts_with("/%2Fv1%2F"), "{path}");
            }
        }
        let mut of_rest = rest("/live/v1/things");
        of_rest["path"] = json!("/v1/things/%2E%2e");
        assert_eq!(request(&of_rest).uri().path(), "/%2Fv1%2Fthings%2F%252E%252e");
    }

    #[test]
    fn no_header_leads_to_another_path() {
        for name in ["host", "x-forwarded-proto"] {
            let value = "https://example.com/usage?";
            let mut of_http_api = http("$default", "/v1/things", &json!({}), "");
            of_http_api["headers"][name] = json!(value);
            let mut of_rest = rest("/live/v1/things");
            of_rest["multiValueQueryStringParameters"] = json!({});
            of_rest["queryStringParameters"] = json!({});
            of_rest["headers"][name] = json!(value);
            of_rest["multiValueHeaders"][name] = json!([value]);
            for mut event in [of_http_api, of_rest] {
                assert_eq!(request(&event).uri(), "/v1/things", "{name}");
                event["requestContext"]["domainName"] = json!("api.example.com:99999");
                assert_eq!(request(&event).uri(), "/v1/things", "{name}");
            }
        }
    }

    #[test]
    fn an_event_of_no_api_is_refused() {
        for event in [json!({}), json!({"requestContext": {"elb": {}}, "httpMethod": "GET"})] {
            assert!(read(&event.to_string()).is_err(), "{event}");
        }
    }

    #[test]
    fn only_a_rest_api_inflates_and_only_by_the_header() {
        let mut plain = rest("/live/v1/things");
        for headers in ["headers", "multiValueHeaders"] {
            plain[headers].as_object_mut().unwrap().remove("Content-Encoding");
        }
        assert!(!may_be_inflated(&request(&plain)));
        let of_http_api = request(&http("POST /v1/things", "/v1/things", &json!({}), ""));
        assert_eq!((of_http_api.method().as_str(), of_http_api.uri().path()), ("POST", "/v1/things"));
        assert!(!may_be_inflated(&of_http_api) && stage(&of_http_api).is_none());
    }

    #[test]
    fn a_location_leads_to_where_the_client_reaches_the_api() {
        for (path_of_client, location, expected) in [
            ("/live/v1/things", "/v1/things/7", "/live/v1/things/7"),
            ("/v1/things", "/v1/things/7", "/v1/things/7"),
            ("/live/v1/things", "https://bucket.example.com/7", "https://bucket.example.com/7"),
        ] {
            let stage = stage(&request(&rest(path_of_client)));
            let mut response = Response::new(Body::Empty);
            response.headers_mut().insert(LOCATION, HeaderValue::from_static(location));
            let response = located(stage.as_deref(), response);
            assert_eq!(response.headers()[LOCATION], expected, "{path_of_client} {location}");
        }
        let response = located(Some("/live"), Response::new(Body::Empty));
        assert!(!response.headers().contains_key(LOCATION));
    }
}
