//! Server of an API: receives requests, invokes functions and responds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::SdkError;
use aws_sdk_lambda::operation::invoke::InvokeError;
use aws_sdk_lambda::primitives::Blob;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response, header};
use http_body_util::BodyExt as _;
use runtime::Sdk;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::answer::{Answer, Gateway, from_function, unrouted};
use super::event::{Origin, event};
use super::log::Log;
use super::rest::{inflated, rest_event};
use super::routes::Routes;
use super::{Door, Kind};
use crate::deploy::Deployment;
use crate::failure::{Explain as _, Failure, chain};

/// API Gateway's limit for a request's body, in bytes.
pub(super) const MAX_BODY: usize = 10 * 1024 * 1024;
/// Lambda's limit for an event and for a response, in bytes.
const MAX_EVENT: usize = 6 * 1024 * 1024;
/// Maximum number of bytes of a too large body that are still read. Without reading them, the
/// client would not get to read the error response.
const MAX_DRAINED: usize = 64 * 1024 * 1024;
/// Time after which API Gateway no longer waits for a function.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of functions that may start at once for each core. AWS has no such limit. On one
/// machine, too many starts slow each other down until stores seem to be unavailable.
const STARTS_PER_CORE: usize = 4;
/// Time for which an invocation counts as a start of its function.
const STARTING: Duration = Duration::from_secs(1);

/// Stand-in for API Gateway, serving one HTTP or REST API with its routes.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    lambda: Client,
    starts: Arc<Semaphore>,
    log: Arc<Log>,
    kind: Kind,
    routes: Arc<Routes>,
    port: u16,
    /// Body of the response to a request without a route; empty for an HTTP API, which has a fixed
    /// response.
    unrouted: Arc<str>,
}

impl Front {
    /// Returns the HTTP API and the REST API, which share their functions.
    ///
    /// # Errors
    /// If the local stack does not support a route of the template.
    pub(crate) fn both(sdk: &Sdk, deployment: &Deployment, log: Log) -> Result<[Self; 2], Failure> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let http = Self {
            lambda: Client::new(&sdk.single_attempt(TIMEOUT)),
            starts: Arc::new(Semaphore::new(cores * STARTS_PER_CORE)),
            log: Arc::new(log),
            kind: Kind::Http,
            routes: Arc::new(Routes::of(deployment, &deployment.routes)?),
            port: 0,
            unrouted: "".into(),
        };
        let rest = Self {
            kind: Kind::Rest,
            routes: Arc::new(Routes::of(deployment, &deployment.rest_routes)?),
            unrouted: deployment.rest_unrouted.as_str().into(),
            ..http.clone()
        };
        Ok([http, rest])
    }

    /// Serves the API on a bound port until the future is dropped.
    pub(crate) async fn serve(&self, door: Door) -> Result<(), Failure> {
        let port = door.address.port();
        let front = Arc::new(Self { port, ..self.clone() });
        let app = Router::new().fallback(handle).with_state(front);
        axum::serve(door.listener, app.into_make_service_with_connect_info::<SocketAddr>())
            .await
            .or_explain(|| format!("serve at port {port}"))
    }
}

async fn handle(
    State(front): State<Arc<Front>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let id = Uuid::new_v4().simple().to_string();
    let begin = Instant::now();
    let line = format!("{id} {} {}", request.method(), request.uri().path());
    let mut answer = front.answer(client, &id, request).await;
    front.log.line(format_args!("{line} {} {} ms", answer.status().as_u16(), begin.elapsed().as_millis()));
    let name = match front.kind {
        Kind::Http => "apigw-requestid",
        Kind::Rest => "x-amzn-requestid",
    };
    if let Ok(id) = HeaderValue::try_from(id) {
        answer.headers_mut().insert(name, id);
    }
    answer.map(Body::from)
}

impl Front {
    async fn answer(&self, client: SocketAddr, id: &str, request: Request) -> Answer {
        let (parts, body) = request.into_parts();
        if !is_of_this_machine(&parts.headers) {
            return Gateway::Forbidden.answer(self.kind);
        }
        // Another stage is not there.
        let Some(path) = parts.uri.path().strip_prefix(self.kind.base_path()) else {
            return Gateway::Forbidden.answer(self.kind);
        };
        let Some(found) = self.routes.find(parts.method.as_str(), path) else {
            return match self.kind {
                Kind::Http => Gateway::NotFound.answer(self.kind),
                Kind::Rest => unrouted(&self.unrouted, id),
            };
        };
        let body = match read(body, declared_length(&parts.headers)).await {
            Ok(body) => body,
            Err(refusal) => return refusal.answer(self.kind),
        };
        let origin = Origin { client: client.ip(), port: self.port };
        let event = match self.kind {
            Kind::Http => event(&parts, &body, &found, id, origin),
            Kind::Rest => match inflated(&parts.headers, body) {
                Ok(body) => rest_event(&parts, path, &body, &found, id, origin),
                Err(refusal) => return refusal.answer(self.kind),
            },
        };
        let event = event.to_string();
        if event.len() > MAX_EVENT {
            return Gateway::RequestEntityTooLarge.answer(self.kind);
        }
        self.invoke(found.function, id, event).await
    }

    async fn invoke(&self, function: &str, id: &str, event: String) -> Answer {
        let starting = Arc::clone(&self.starts).acquire_owned().await;
        // Aborted when the invocation ends before it; either way the place becomes free.
        let started = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(STARTING).await;
            drop(starting);
        }));
        let invoked = self.lambda.invoke().function_name(function).payload(Blob::new(event)).send().await;
        drop(started);
        match invoked {
            Ok(output) => {
                let payload = output.payload.map(Blob::into_inner).unwrap_or_default();
                if let Some(error) = output.function_error {
                    let detail = String::from_utf8_lossy(&payload);
                    self.log.line(format_args!("{id} {function} failed, {error}: {detail}"));
                    return Gateway::InternalServerError.answer(self.kind);
                }
                if payload.len() > MAX_EVENT {
                    self.log.line(format_args!(
                        "{id} {function} answered {} bytes, over Lambda's limit",
                        payload.len()
                    ));
                    return Gateway::InternalServerError.answer(self.kind);
                }
                from_function(self.kind, &payload)
            }
            Err(error) => {
                self.log.line(format_args!("{id} {function} could not be invoked: {}", chain(&error)));
                refusal(&error).answer(self.kind)
            }
        }
    }
}

fn refusal(error: &SdkError<InvokeError>) -> Gateway {
    match error {
        SdkError::TimeoutError(_) => Gateway::ServiceUnavailable,
        SdkError::ServiceError(service) if service.err().is_too_many_requests_exception() => {
            Gateway::ServiceUnavailable
        }
        _ => Gateway::InternalServerError,
    }
}

/// Returns true if the request's header `Host` names this machine. The local API keys are public. A
/// web page whose host name resolves to this machine (DNS rebinding) could use them, but its
/// requests have the page's host name in `Host`.
fn is_of_this_machine(headers: &http::HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost")
}

fn declared_length(headers: &http::HeaderMap) -> usize {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// Reads the whole body. A body that is too large is read and discarded up to a bound, and is an
/// error.
async fn read(mut body: Body, declared: usize) -> Result<Bytes, Gateway> {
    if declared > MAX_DRAINED {
        return Err(Gateway::TooLong);
    }
    let mut collected = BytesMut::new();
    let mut total = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Gateway::BadRequest)?.into_data() else { continue };
        total = total.saturating_add(data.len());
        if total > MAX_DRAINED {
            break;
        }
        if total <= MAX_BODY {
            collected.extend_from_slice(&data);
        }
    }
    if total > MAX_BODY { Err(Gateway::TooLong) } else { Ok(collected.freeze()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_of_this_machine_are_refused() {
        let is_taken = |host: &str| {
            let mut headers = http::HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::try_from(host).unwrap());
            is_of_this_machine(&headers)
        };
        assert!(
            ["127.0.0.1", "127.0.0.1:8080", "localhost:8080", "LOCALHOST"].iter().all(|host| is_taken(host))
        );
        for host in
            ["rebound.attacker.example", "127.0.0.1.nip.io:8080", "localhost.example", "localhost.", ""]
        {
            assert!(!is_taken(host), "{host}");
        }
        assert!(!is_of_this_machine(&http::HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_body_of_ten_megabytes_passes_and_one_byte_more_does_not() {
        let body = |length: usize| Body::from(vec![b'x'; length]);
        assert_eq!(read(body(MAX_BODY), MAX_BODY).await.unwrap().len(), MAX_BODY);
        assert_eq!(read(body(MAX_BODY + 1), 0).await.unwrap_err(), Gateway::TooLong);
        assert_eq!(read(body(0), usize::MAX).await.unwrap_err(), Gateway::TooLong);
    }
}
