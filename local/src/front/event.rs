//! Event that Lambda gets for a request to an HTTP API: payload format 2.0, without cookies, which
//! no function reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::{HeaderMap, header};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::routes::Match;

/// Values of headers or query parameters by name, in the order in which they were sent.
pub(super) type Grouped = BTreeMap<String, Vec<String>>;

/// Origin of a request: the client's IP address, and the port of this machine that the request came
/// in on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) client: IpAddr,
    pub(super) port: u16,
}

impl Origin {
    /// Returns all values of each header, by lower-case name. The gateway replaces headers about
    /// the connection, such as `Host`.
    pub(super) fn headers(self, sent: &HeaderMap) -> Grouped {
        let sent = sent.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let mut headers = grouped(sent);
        for (name, value) in [
            ("host", format!("127.0.0.1:{}", self.port)),
            ("x-forwarded-port", self.port.to_string()),
            ("x-forwarded-proto", "http".to_owned()),
        ] {
            headers.insert(name.to_owned(), vec![value]);
        }
        headers.entry("x-forwarded-for".to_owned()).or_default().push(self.client.to_string());
        headers
    }
}

/// Builds the event of an HTTP API for one request, in the payload format 2.0. `id` is the
/// gateway's own request id.
pub(super) fn event(parts: &Parts, body: &[u8], found: &Match<'_>, id: &str, origin: Origin) -> Value {
    let headers = joined(origin.headers(&parts.headers));
    let mut event = json!({
        "version": "2.0",
        "routeKey": found.key,
        "rawPath": decoded_path(parts),
        "rawQueryString": parts.uri.query().unwrap_or_default(),
        "requestContext": context(parts, &headers, found.key, id, origin),
        "headers": headers,
        "isBase64Encoded": false,
    });
    if let Some(members) = event.as_object_mut() {
        insert_if_any(members, "queryStringParameters", &joined(query_parameters(parts)));
        insert_if_any(members, "pathParameters", &found.parameters);
        if !body.is_empty() {
            insert_body(members, &parts.headers, body);
        }
    }
    event
}

/// Returns the decoded path. HTTP APIs decode the path even in the event's member `rawPath`.
fn decoded_path(parts: &Parts) -> Cow<'_, str> {
    percent_decode_str(parts.uri.path()).decode_utf8_lossy()
}

fn context(parts: &Parts, headers: &BTreeMap<String, String>, key: &str, id: &str, origin: Origin) -> Value {
    let now = Timestamp::now();
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    json!({
        "accountId": "000000000000",
        "apiId": "local",
        "domainName": header("host"),
        "domainPrefix": "local",
        "http": {
            "method": parts.method.as_str(),
            "path": decoded_path(parts),
            "protocol": "HTTP/1.1",
            "sourceIp": origin.client.to_string(),
            "userAgent": header("user-agent"),
        },
        "requestId": id,
        "routeKey": key,
        "stage": "$default",
        "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string(),
        "timeEpoch": now.as_millisecond(),
    })
}

fn grouped(pairs: impl Iterator<Item = (String, String)>) -> Grouped {
    let mut grouped = Grouped::new();
    for (name, value) in pairs {
        grouped.entry(name).or_default().push(value);
    }
    grouped
}

/// Returns the decoded query parameters.
pub(super) fn query_parameters(parts: &Parts) -> Grouped {
    let query = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
    grouped(query.into_owned())
}

fn joined(grouped: Grouped) -> BTreeMap<String, String> {
    grouped.into_iter().map(|(name, values)| (name, values.join(","))).collect()
}

fn insert_if_any(members: &mut Map<String, Value>, name: &str, values: &BTreeMap<String, String>) {
    if !values.is_empty() {
        members.insert(name.to_owned(), json!(values));
    }
}

/// Inserts the request's body into the event: as text if the media type is textual and the body is
/// UTF-8, and otherwise in base64.
fn insert_body(members: &mut Map<String, Value>, headers: &HeaderMap, body: &[u8]) {
    let (body, encoded) = match std::str::from_utf8(body) {
        Ok(text) if is_textual(headers) => (text.to_owned(), false),
        _ => (STANDARD.encode(body), true),
    };
    members.insert("body".to_owned(), Value::String(body));
    members.insert("isBase64Encoded".to_owned(), Value::Bool(encoded));
}

fn is_textual(headers: &HeaderMap) -> bool {
    let media_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || matches!(essence.as_str(), "application/json" | "application/xml" | "application/javascript")
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const ORIGIN: Origin = Origin { client: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port: 8080 };

    fn translate(request: http::request::Builder, body: &[u8]) -> Value {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let parameters = BTreeMap::from([("file".to_owned(), "a b".to_owned())]);
        event(&parts, body, &Match { key: "GET /docs/{file}", function: "f", parameters }, "id-1", ORIGIN)
    }

    fn json_request() -> http::request::Builder {
        Request::post("/x").header("content-type", "application/json; charset=utf-8")
    }

    #[test]
    fn the_event_says_what_was_requested() {
        let request =
            Request::get("/docs/a%20b?x=1&y=%2C+z&x=2").header("Host", "h:1").header("User-Agent", "u");
        let event = translate(request, b"");
        assert_eq!(event["version"], "2.0");
        assert_eq!(event["routeKey"], "GET /docs/{file}");
        assert_eq!(event["rawPath"], "/docs/a b");
        assert_eq!(event["rawQueryString"], "x=1&y=%2C+z&x=2");
        assert_eq!(event["queryStringParameters"], json!({"x": "1,2", "y": ", z"}));
        assert_eq!(event["pathParameters"], json!({"file": "a b"}));
        assert_eq!(event["isBase64Encoded"], false);
        assert!(event.get("body").is_none());
        let context = &event["requestContext"];
        assert_eq!(context["http"]["method"], "GET");
        assert_eq!(context["http"]["userAgent"], "u");
        assert_eq!(context["domainName"], "127.0.0.1:8080", "a client does not choose the domain");
        assert_eq!(context["requestId"], "id-1");
        assert_eq!(context["stage"], "$default");
        assert!(context["time"].as_str().unwrap().ends_with(" +0000"));
        assert!(context["timeEpoch"].is_i64());
    }

    #[test]
    fn repeated_headers_are_joined() {
        let request = Request::get("/")
            .header("Idempotency-Key", "a")
            .header("idempotency-key", "b")
            .header("X-Forwarded-For", "10.0.0.1")
            .header("X-Forwarded-Proto", "gopher");
        let event = translate(request, b"");
        assert_eq!(event["headers"]["x-forwarded-proto"], "http");
        assert_eq!(event["headers"]["idempotency-key"], "a,b");
        assert_eq!(event["headers"]["x-forwarded-for"], "10.0.0.1,127.0.0.1");
    }

    #[test]
    fn json_arrives_as_text_and_other_bytes_arrive_intact() {
        let event = translate(json_request(), "{\"a\":\"ü\"}".as_bytes());
        assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("{\"a\":\"ü\"}"), &json!(false)));
        let gzip = [0x1f, 0x8b, 0x08, 0x00, 0x41];
        for (request, body) in [
            (json_request(), gzip.as_slice()),
            (json_request(), b"\xff\xfe".as_slice()),
            (Request::post("/").header("content-type", "application/octet-stream"), b"plain".as_slice()),
            (Request::post("/"), b"{}".as_slice()),
        ] {
            let event = translate(request, body);
            assert_eq!(event["isBase64Encoded"], true);
            assert_eq!(STANDARD.decode(event["body"].as_str().unwrap()).unwrap(), body);
        }
    }
}
