//! One request, from its headers to its response, in the order of checks of the contract.

use std::time::{Duration, Instant};

use api::access::AccessStore;
use api::auth::{self, Principal};
use api::{Problem, Reason, Reply, TraceId, body, json};
use http::HeaderMap;
use idempotency::{ClaimRequest, Fingerprint, IdempotencyKey, KeyError};
use lambda_http::{Body, Request, Response};
use mq::InlineTargets;
use serde_json::{Map, Value};
use telemetry::metrics;
use tracing::Instrument as _;

use crate::idempotent::{Granted, Idempotency, from_key};
use crate::mq_access::MqAccess;
use crate::operation::{KeyRule, Operation, Plan, PlannedWork};
use crate::protocol::WorkOrder;
use crate::target;

/// The HTTP side of the gateway, with everything that it needs injected.
#[derive(Debug)]
pub struct Gateway {
    /// The function's name, as metrics show it.
    pub service: &'static str,
    pub access: AccessStore,
    pub mq_access: MqAccess,
    pub inline_targets: InlineTargets,
    /// Absent where every operation of the function is a read.
    pub idempotency: Option<Idempotency>,
}

/// A request that passed every check but its target's.
struct Checked {
    principal: Principal,
    key: Option<IdempotencyKey>,
    retention: Duration,
    fingerprint: Fingerprint,
    plan: Plan,
}

impl Gateway {
    /// Answers a request for `O`.
    pub async fn handle<O: Operation>(&self, request: Request) -> Response<Body> {
        let trace_id = TraceId::of(request.headers());
        let span = tracing::info_span!(
            "request",
            correlation_id = %trace_id,
            route = O::ROUTE.path,
            tenant = tracing::field::Empty,
            mq_target = tracing::field::Empty,
        );
        async {
            let started = Instant::now();
            let answer = self.answer::<O>(&request, &trace_id).await;
            self.account(&answer, started.elapsed());
            let mut reply = answer.unwrap_or_else(|problem| problem.to_reply(&trace_id));
            if O::KEY != KeyRule::Ignored {
                reply.set_header("content-digest", reply.content_digest());
                if let Ok(key) = IdempotencyKey::of(request.headers()) {
                    reply.set_header(IdempotencyKey::HEADER, key.as_sent());
                }
            }
            reply.into_response(&trace_id)
        }
        .instrument(span)
        .await
    }

    async fn answer<O: Operation>(&self, request: &Request, trace_id: &TraceId) -> Result<Reply, Problem> {
        check_route::<O>(request)?;
        let Checked { principal, key, retention, fingerprint, plan } = self.check::<O>(request).await?;
        let target = target::resolve(
            &self.access,
            &self.inline_targets,
            &principal.tenant,
            plan.target_ref.as_deref(),
            plan.target.as_ref(),
            O::QUEUE,
        )
        .await?;
        let target_name = target.to_string();
        tracing::Span::current().record("mq_target", &target_name);
        let order = |work| WorkOrder { trace_id: trace_id.clone(), tenant: principal.tenant.clone(), work };
        let (operation, work) = match plan.work {
            PlannedWork::Read(work) => return self.read(&order(work(target))).await,
            PlannedWork::Change(operation, work) => (operation, work),
        };
        let (Some(idempotency), Some(key)) = (&self.idempotency, &key) else {
            return Err(from_key(KeyError::Missing));
        };
        let claim = ClaimRequest {
            operation,
            tenant: &principal.tenant,
            key,
            fingerprint: &fingerprint,
            target: &target_name,
            trace_id: trace_id.as_str(),
            retention,
        };
        match idempotency.claim(&claim).await? {
            Granted::Answer(reply) => Ok(reply),
            Granted::Execution(execution) => {
                let order = order(work(target, execution.clone()));
                idempotency.execute(&self.mq_access, &order, &execution).await
            }
        }
    }

    /// Everything that the request itself decides, in the order of the contract.
    async fn check<O: Operation>(&self, request: &Request) -> Result<Checked, Problem> {
        let headers = request.headers();
        let principal = auth::authenticate(&self.access, headers).await?;
        tracing::Span::current().record("tenant", &principal.tenant);
        principal.require_any(O::SCOPES)?;
        let (key, retention) = self.idempotency_headers::<O>(headers)?;
        let value = json::parse(&body::json(headers, request.body())?)?;
        let fingerprint = Fingerprint::of(&value)
            .map_err(|error| Problem::new(Reason::MalformedJson, error.to_string()))?;
        let plan = json::read::<O>(value)?.plan()?;
        principal.require_any(&[plan.scope])?;
        if matches!(plan.work, PlannedWork::Change(..)) && key.is_none() {
            return Err(from_key(KeyError::Missing));
        }
        Ok(Checked { principal, key, retention, fingerprint, plan })
    }

    fn idempotency_headers<O: Operation>(
        &self,
        headers: &HeaderMap,
    ) -> Result<(Option<IdempotencyKey>, Duration), Problem> {
        let (Some(idempotency), false) = (&self.idempotency, O::KEY == KeyRule::Ignored) else {
            return Ok((None, Duration::ZERO));
        };
        let key = match (IdempotencyKey::of(headers), O::KEY) {
            (Ok(key), _) => Some(key),
            (Err(KeyError::Missing), KeyRule::RequiredUnlessRead) => None,
            (Err(error), _) => return Err(from_key(error)),
        };
        let retention = idempotency
            .expiry
            .of(headers)
            .map_err(|error| Problem::new(Reason::IdempotencyExpiryOutOfRange, error.to_string()))?;
        Ok((key, retention))
    }

    async fn read(&self, order: &WorkOrder) -> Result<Reply, Problem> {
        self.mq_access.execute(order).await.map_err(|unanswered| {
            tracing::error!(event_type = "mq_access.unanswered", error = %unanswered, "a read got no answer");
            unanswered.as_problem()
        })
    }

    /// Logs and counts a request once it is answered.
    fn account(&self, answer: &Result<Reply, Problem>, took: Duration) {
        let (status, reason) = match answer {
            Ok(reply) => (reply.status, None),
            Err(problem) => (problem.reason.status(), Some(problem.reason.as_str())),
        };
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            event_type = "request.completed",
            status,
            reason,
            duration_ms,
            "answered with {status}"
        );
        let properties = Map::from_iter([
            ("status".to_owned(), Value::from(status)),
            ("reason".to_owned(), Value::from(reason)),
        ]);
        metrics::count(self.service, &[metrics::REQUESTS], properties);
    }
}

/// API Gateway routes by the template; a function that is invoked directly routes here.
fn check_route<O: Operation>(request: &Request) -> Result<(), Problem> {
    if request.uri().path() != O::ROUTE.path {
        return Err(Problem::new(Reason::RouteNotFound, "there is nothing at this path"));
    }
    if request.method() != O::ROUTE.method {
        let detail = format!("this path takes {} only", O::ROUTE.method);
        return Err(Problem::new(Reason::MethodNotAllowed, detail).header("allow", O::ROUTE.method));
    }
    Ok(())
}
