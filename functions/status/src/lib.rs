//! Serves health, status, limits, metrics, usage, the timelines of requests, the contract with a
//! page to read it, and the console. Also responds to requests that no route of the API takes.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod caller_limits;
mod console;
mod contract;
mod docs;
mod endpoint;
mod ingest;
mod metrics;
mod readiness;
mod requests;
mod settings;
mod usage;

pub use self::endpoint::Endpoint;
pub use contract::{DOCUMENT, ROUTES};

use std::time::Instant;

use ::endpoint::limits::Limiter;
use ::endpoint::log_completed;
use ::usage::UsageTable;
use access::{AccessStore, Scope};
use api::{Problem, Query, Reason, Reply, TraceId, cut, respond};
use attempt::Remembered;
use front::{MqAccess, OrderLimit};
use http::HeaderValue;
use idempotency::Store;
use lambda_http::{Body, Request, Response};
use mq::ConnectionCounts;
use objects::Objects;
use orders::{Work, WorkOrder};
use serde::Deserialize;
use serde_json::json;
use tracing::{Instrument as _, Span};

use crate::console::Console;
use crate::ingest::Ingest;
use crate::metrics::Metrics;

/// Maximum number of characters that are logged of the method and path of a request without a
/// route.
const LONGEST_ASKED: usize = 200;

/// State of the function `status`, with its clients and settings.
#[derive(Debug)]
pub struct Status {
    access: AccessStore,
    records: Store,
    mq_access: MqAccess,
    order_limit: Option<OrderLimit>,
    limiter: Limiter,
    /// Client of the function `batches`; `None` if the deployment has no ingest.
    ingest: Option<Ingest>,
    /// Web console; `None` if the deployment serves none.
    console: Option<Console>,
    metrics: Metrics,
    usage: UsageTable,
    /// Bucket for results that are too large for an idempotency record; `None` if the deployment
    /// has none.
    results: Option<Objects>,
    ready: Remembered<(), Reply>,
    /// Cached responses to `GET /limits`, by tenant.
    limits_replies: Remembered<String, Reply>,
    started: Instant,
}

/// Connection pools, as the function `mq-access` lists them in its response.
#[derive(Deserialize)]
struct Pools {
    pools: Vec<ConnectionCounts>,
}

impl Status {
    /// Responds to a request to the function `status`, and logs that it was completed.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let trace_id = TraceId::of(request.headers());
        let span = tracing::error_span!(
            "request",
            correlation_id = %trace_id,
            operation = tracing::field::Empty,
            tenant = tracing::field::Empty,
            key_name = tracing::field::Empty,
            key_id = tracing::field::Empty,
        );
        async {
            let started = Instant::now();
            let answer = self.answer(&request, &trace_id).await;
            let refusal = answer.as_ref().err().map(|problem| problem.reason);
            let mut response = answer
                .unwrap_or_else(|problem| respond(problem.to_reply(&trace_id), &trace_id).map(Body::Text));
            if let Ok(trace_id) = HeaderValue::try_from(trace_id.as_str()) {
                response.headers_mut().insert(TraceId::HEADER, trace_id);
            }
            let status = response.status().as_u16();
            let reason_and_action = (refusal.map(Reason::as_str), refusal.map(Reason::action));
            log_completed(status, false, reason_and_action, started.elapsed());
            response
        }
        .instrument(span)
        .await
    }

    async fn answer(&self, request: &Request, trace_id: &TraceId) -> Result<Response<Body>, Problem> {
        let (method, path) = (request.method().as_str(), request.uri().path());
        let unrouted = || {
            let asked = format!("{method} {path}");
            Span::current().record("operation", &*cut(&asked, LONGEST_ASKED));
            contract::unrouted(method, path)
        };
        let (endpoint, parameter) = Endpoint::of(method, path).ok_or_else(unrouted)?;
        Span::current().record("operation", endpoint.route().to_string());
        // The routes without an API key take any query: monitors and links add what is about caches
        // and campaigns, and no response depends on it.
        //
        // Boxed: a response takes the memory of its own route, and not of all together.
        let reply = match endpoint {
            Endpoint::Live => fresh(Reply::json(200, &json!({"status": "ok"}))),
            Endpoint::Ready => fresh(Box::pin(self.readiness()).await),
            Endpoint::Status => fresh(Box::pin(self.status(request, trace_id)).await?),
            Endpoint::Limits => fresh(Box::pin(self.limits(request)).await?),
            Endpoint::Metrics => fresh(Box::pin(self.metrics(request)).await?),
            Endpoint::Request => fresh(Box::pin(self.request(request)).await?),
            Endpoint::Usage => fresh(Box::pin(self.usage(request)).await?),
            Endpoint::Contract => {
                let mut reply = Reply::new(200, "application/json", contract::DOCUMENT.to_owned());
                reply.set_header("cache-control", "no-cache");
                reply
            }
            Endpoint::Docs => docs::page(),
            Endpoint::DocsFile => return docs::file(parameter).ok_or_else(unrouted),
            Endpoint::Console => self.console.as_ref().ok_or_else(unrouted)?.page(request.headers()),
            Endpoint::ConsoleFile => {
                let served = self.console.as_ref().and_then(|_| console::file(parameter, request.headers()));
                served.ok_or_else(unrouted)?
            }
        };
        Ok(respond(reply, trace_id).map(Body::Text))
    }

    async fn status(&self, request: &Request, trace_id: &TraceId) -> Result<Reply, Problem> {
        let principal = access::authenticate(&self.access, request.headers()).await?;
        principal.require_any(&[Scope::OpsRead])?;
        Query::parse(request.uri().query().unwrap_or_default(), &[])?;
        let order = WorkOrder { trace_id: trace_id.clone(), tenant: principal.tenant, work: Work::Pools };
        Ok(Reply::json(
            200,
            &json!({
                "version": env!("CARGO_PKG_VERSION"),
                "commit": env!("COMMIT"),
                "uptimeSeconds": self.started.elapsed().as_secs(),
                "pools": self.pools(&order).await,
            }),
        ))
    }

    /// Returns the connection pools of `mq-access`; `None`, and a warning in the log, if it does
    /// not respond. The status request does not fail then, because operators need it most during a
    /// fault.
    async fn pools(&self, order: &WorkOrder) -> Option<Vec<ConnectionCounts>> {
        match front::send(&self.mq_access, self.order_limit.as_ref(), order).await {
            Ok(reply) => serde_json::from_str(&reply.body).ok().map(|Pools { pools }| pools),
            Err(unanswered) => {
                let error: &dyn std::error::Error = &unanswered;
                tracing::warn!(
                    event_type = "mq_access.unanswered",
                    error,
                    "cannot list the connection pools: {error}"
                );
                None
            }
        }
    }
}

/// Marks a response as one that must not be cached.
fn fresh(mut reply: Reply) -> Reply {
    reply.set_header("cache-control", "no-store");
    reply
}

#[cfg(test)]
mod tests;
