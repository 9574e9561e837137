//! Internal requests of other functions, which invoke the function `batches` directly and have no
//! API key.

use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt as _};

/// Internal request of another function, which invokes this one directly and has no API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InternalRequest {
    Readiness,
    Metrics,
    Usage,
}

impl InternalRequest {
    /// Recognizes the internal request in a request; `None` if a client sent the request.
    ///
    /// An empty API id marks an internal request. API Gateway sets the id of its API in every
    /// event, and no client can change it. Functions that invoke this one leave the id empty, also
    /// in earlier versions, which run beside this one during a deployment. The path alone would not
    /// be enough, since a public route could later have the same path.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let Some(RequestContext::ApiGatewayV2(context)) = request.request_context_ref() else { return None };
        if context.apiid.as_deref() != Some("") {
            return None;
        }
        match request.uri().path() {
            "/health/ready" => Some(Self::Readiness),
            "/metrics" => Some(Self::Metrics),
            "/usage" => Some(Self::Usage),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(api: &str, path: &str) -> Option<InternalRequest> {
        let event = json!({
            "version": "2.0",
            "rawPath": path,
            "headers": {"apiid": "", "x-amzn-apiid": ""},
            "requestContext": {
                "apiId": api,
                "http": {
                    "method": "GET", "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1",
                    "userAgent": "",
                },
                "timeEpoch": 0,
            },
            "isBase64Encoded": false,
        });
        InternalRequest::of(&lambda_http::request::from_str(&event.to_string()).unwrap())
    }

    #[test]
    fn an_internal_request_comes_from_a_function_and_never_through_an_api() {
        for (path, expected) in [
            ("/health/ready", Some(InternalRequest::Readiness)),
            ("/metrics", Some(InternalRequest::Metrics)),
            ("/usage", Some(InternalRequest::Usage)),
            ("/v1/inovafarma/batches", None),
        ] {
            assert_eq!((asked("", path), asked("abc123defg", path)), (expected, None), "{path}");
        }
        let without_context = http::Request::get("/metrics").body(lambda_http::Body::Empty).unwrap();
        assert_eq!(InternalRequest::of(&without_context), None);
    }

    #[test]
    fn what_comes_through_a_rest_api_is_no_internal_request() {
        let event = json!({
            "resource": "/metrics",
            "path": "/metrics",
            "httpMethod": "GET",
            "headers": {},
            "multiValueHeaders": {},
            "requestContext": {"apiId": "", "httpMethod": "GET", "path": "/metrics", "resourcePath": "/metrics"},
            "isBase64Encoded": false,
        });
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        assert!(matches!(request.request_context_ref(), Some(RequestContext::ApiGatewayV1(_))));
        assert_eq!(InternalRequest::of(&request), None);
    }
}
