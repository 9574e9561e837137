//! Event that Lambda gets for a request to a REST API, with every media type taken for binary.

use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::request::Parts;
use http::{HeaderMap, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::Gateway;
use super::event::{Grouped, Origin, query_parameters};
use super::proxy::MAX_BODY;
use super::routes::Match;

/// Builds the event of a REST API for one request. `path` is the path without the stage, and `id`
/// the gateway's own request id.
pub(super) fn rest_event(
    parts: &Parts,
    path: &str,
    body: &[u8],
    found: &Match<'_>,
    id: &str,
    origin: Origin,
) -> Value {
    let mut headers = origin.headers(&parts.headers);
    if let Some(forwarded) = headers.get_mut("x-forwarded-for") {
        *forwarded = vec![forwarded.join(", ")];
    }
    let query = query_parameters(parts);
    let resource = found.key.split_once(' ').map_or(found.key, |(_, path)| path);
    let now = Timestamp::now();
    json!({
        "resource": resource,
        "path": path,
        "httpMethod": parts.method.as_str(),
        "headers": last(&headers),
        "multiValueHeaders": headers,
        "queryStringParameters": last(&query),
        "multiValueQueryStringParameters": or_null(&query),
        "pathParameters": or_null(&found.parameters),
        "stageVariables": null,
        "requestContext": {
            "accountId": "000000000000",
            "apiId": "local",
            "domainName": format!("127.0.0.1:{}", origin.port),
            "domainPrefix": "local",
            "httpMethod": parts.method.as_str(),
            "identity": {"sourceIp": origin.client.to_string()},
            "path": parts.uri.path(),
            "protocol": "HTTP/1.1",
            "requestId": id,
            "requestTime": now.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string(),
            "requestTimeEpoch": now.as_millisecond(),
            "resourcePath": resource,
            "stage": "live",
        },
        "body": (!body.is_empty()).then(|| STANDARD.encode(body)),
        "isBase64Encoded": !body.is_empty(),
    })
}

/// Returns the last value of each name, or null if there are no names.
fn last(grouped: &Grouped) -> Value {
    let last = grouped.iter().map(|(name, values)| (name.clone(), values.last()));
    or_null(&last.collect())
}

fn or_null<T: serde::Serialize>(members: &BTreeMap<String, T>) -> Value {
    if members.is_empty() { Value::Null } else { json!(members) }
}

/// Returns the body in the form in which the gateway passes it on: decompressed if the header
/// `Content-Encoding` names a compression. The header itself is passed on unchanged.
pub(super) fn inflated(headers: &HeaderMap, body: Bytes) -> Result<Bytes, Gateway> {
    let encoding = headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
    let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
    match encoding.as_str() {
        "" | "identity" => Ok(body),
        // `deflate` too, but no operation takes it.
        "gzip" => {
            let enough = u64::try_from(MAX_BODY).unwrap_or(u64::MAX).saturating_add(1);
            let mut inflated = Vec::new();
            let mut capped = MultiGzDecoder::new(body.as_ref()).take(enough);
            #[expect(clippy::disallowed_methods, reason = "capped by the line above")]
            capped.read_to_end(&mut inflated).map_err(|_| Gateway::UnsupportedMediaType)?;
            if inflated.len() > MAX_BODY { Err(Gateway::TooLong) } else { Ok(inflated.into()) }
        }
        _ => Err(Gateway::UnsupportedMediaType),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{IpAddr, Ipv4Addr};

    use flate2::write::GzEncoder;
    use http::{HeaderValue, Request};

    use super::*;

    const ORIGIN: Origin = Origin { client: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 8080 };

    #[test]
    fn the_event_says_what_was_requested() {
        let request = Request::get("/live/docs/a%20b?x=1&y=%2C+z&x=2")
            .header("Host", "h:1")
            .header("Idempotency-Key", "a")
            .header("Idempotency-Key", "b")
            .header("X-Forwarded-For", "10.0.0.1");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let parameters = BTreeMap::from([("file".to_owned(), "a b".to_owned())]);
        let found = Match { key: "GET /docs/{file}", function: "f", parameters };
        let event = rest_event(&parts, "/docs/a%20b", b"", &found, "id-1", ORIGIN);
        assert_eq!((&event["resource"], &event["path"]), (&json!("/docs/{file}"), &json!("/docs/a%20b")));
        assert_eq!(event["multiValueHeaders"]["idempotency-key"], json!(["a", "b"]));
        assert_eq!(event["headers"]["idempotency-key"], "b");
        assert_eq!(event["headers"]["x-forwarded-for"], "10.0.0.1, 127.0.0.1");
        assert_eq!(event["headers"]["host"], "127.0.0.1:8080", "a client does not choose the host");
        assert_eq!(event["multiValueQueryStringParameters"], json!({"x": ["1", "2"], "y": [", z"]}));
        assert_eq!(event["queryStringParameters"], json!({"x": "2", "y": ", z"}));
        assert_eq!(event["pathParameters"], json!({"file": "a b"}));
        assert_eq!((&event["body"], &event["isBase64Encoded"]), (&Value::Null, &json!(false)));
        let context = &event["requestContext"];
        assert_eq!((&context["path"], &context["stage"]), (&json!("/live/docs/a%20b"), &json!("live")));
        let event = rest_event(&parts, "/docs", b"{}", &found, "id-1", ORIGIN);
        assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("e30="), &json!(true)));
    }

    #[test]
    fn a_body_that_becomes_too_large_is_refused() {
        let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, HeaderValue::from_static("GZIP"))]);
        for (length, expected) in [(MAX_BODY, Ok(MAX_BODY)), (MAX_BODY + 1, Err(Gateway::TooLong))] {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&vec![0; length]).unwrap();
            let inflated = inflated(&headers, encoder.finish().unwrap().into());
            assert_eq!(inflated.map(|body| body.len()), expected);
        }
    }
}
