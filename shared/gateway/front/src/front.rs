//! The way of one request, from its headers to its response, in the order of checks of the
//! contract.

use std::time::Duration;

use access::{AccessStore, Principal};
use api::{Fault, Problem, Reason, Reply, TraceId, body, json};
use endpoint::{Keyed, check_route, from_key};
use http::HeaderMap;
use idempotency::{ClaimRequest, Fingerprint, IdempotencyKey, KeyError, KeyForm};
use lambda_http::{Body, Request, Response};
use mq::InlineTargets;
use objects::Objects;
use orders::{Work, WorkOrder};

use crate::budget::Budget;
use crate::idempotent::{Idempotency, outcome};
use crate::mq_access::{InvokeError, MqAccess};
use crate::operation::{Action, KeyRule, Operation, Plan};
use crate::target::{self, Queues};

/// The HTTP side of the gateway: its clients and settings, all injected.
#[derive(Debug)]
pub struct Gateway {
    /// Name of the function in metrics.
    pub service: &'static str,
    /// Store of API keys and target profiles.
    pub access: AccessStore,
    /// Client of `mq-access`, the function that does the work.
    pub mq_access: MqAccess,
    /// Limit of each tenant's orders in progress; `None` is no limit.
    pub budget: Option<Budget>,
    /// Allow-list of the deployment for inline targets.
    pub inline_targets: InlineTargets,
    /// Most bytes of messages that one request may make.
    pub max_produce_bytes: u64,
    /// Records of the function's requests; `None` if every operation of the function is a read.
    pub idempotency: Option<Idempotency>,
    /// Bucket to which clients upload bodies that no request can carry; `None` if the function
    /// takes none.
    pub uploads: Option<Objects>,
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
    /// Responds to a request for `O`.
    pub async fn handle<O: Operation>(&self, request: Request) -> Response<Body> {
        let keyed = if O::KEY == KeyRule::Ignored { Keyed::No } else { Keyed::Yes(KeyForm::Uuid) };
        endpoint::serve(self.service, O::ROUTE.path, keyed, request.headers(), async |trace_id| {
            self.answer::<O>(&request, trace_id).await
        })
        .await
    }

    async fn answer<O: Operation>(&self, request: &Request, trace_id: &TraceId) -> Result<Reply, Problem> {
        check_route(O::ROUTE, request)?;
        let Checked { principal, key, retention, fingerprint, plan } = self.check::<O>(request).await?;
        let target = target::resolve(
            &self.access,
            self.inline_targets.of(&principal.tenant),
            &principal.tenant,
            &plan.named,
            Queues { own: O::QUEUE, further: &plan.further },
        )
        .await?;
        let target_name = target.to_string();
        tracing::Span::current().record("mq_target", &target_name);
        let order = |work| WorkOrder { trace_id: trace_id.clone(), tenant: principal.tenant.clone(), work };
        let (operation, change) = match plan.action {
            Action::Read(read) => return self.read(&order(Work::Read { target, read })).await,
            Action::Change(operation, change) => (operation, change),
        };
        let (Some(idempotency), Some(key)) = (&self.idempotency, &key) else {
            return Err(from_key(KeyError::Missing(KeyForm::Uuid)));
        };
        let claim = ClaimRequest {
            operation,
            tenant: &principal.tenant,
            key,
            fingerprint: &fingerprint,
            rights: None,
            target: &target_name,
            trace_id: trace_id.as_str(),
            retention,
        };
        endpoint::once(&idempotency.store, &claim, async |execution| {
            // Work that was done or begun under another limit is replayed or continued.
            if execution.whereabouts.left_by(execution.progress).is_empty() {
                check_volume(change.bytes(), self.max_produce_bytes)?;
            }
            let order = order(Work::Change { target, execution: execution.clone(), change });
            outcome(send(&self.mq_access, self.budget.as_ref(), &order).await, execution)
        })
        .await
    }

    /// Makes all checks that need the request alone, in the order of the contract.
    async fn check<O: Operation>(&self, request: &Request) -> Result<Checked, Problem> {
        let headers = request.headers();
        let principal = access::authenticate(&self.access, headers).await?;
        tracing::Span::current().record("tenant", &principal.tenant);
        principal.require_any(O::SCOPES)?;
        let (key, retention) = self.idempotency_headers::<O>(headers)?;
        let body = body::json(headers, request.body(), O::MAX_BODY)?;
        let value = json::parse(&body).map_err(with_advice)?;
        let fingerprint = Fingerprint::of(&value)
            .map_err(|error| Problem::new(Reason::MalformedJson, error.to_string()))?;
        let plan = json::read::<O>(value)?.plan()?;
        principal.require_any(&[plan.scope()])?;
        if matches!(plan.action, Action::Change(..)) && key.is_none() {
            return Err(from_key(KeyError::Missing(KeyForm::Uuid)));
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
        let key = match (IdempotencyKey::of(headers, KeyForm::Uuid), O::KEY) {
            (Ok(key), _) => Some(key),
            (Err(KeyError::Missing(_)), KeyRule::RequiredUnlessRead) => None,
            (Err(error), _) => return Err(from_key(error)),
        };
        let retention = idempotency
            .expiry
            .of(headers)
            .map_err(|error| Problem::new(Reason::IdempotencyExpiryOutOfRange, error.to_string()))?;
        Ok((key, retention))
    }

    async fn read(&self, order: &WorkOrder) -> Result<Reply, Problem> {
        send(&self.mq_access, self.budget.as_ref(), order).await.map_err(|unanswered| {
            unanswered.log();
            unanswered.as_problem()
        })
    }
}

/// Sends an order to `mq-access`, within its tenant's budget.
///
/// # Errors
/// When the tenant has no room for an order, or there is no answer; [`InvokeError`] tells whether
/// the work may have been done.
pub async fn send(
    mq_access: &MqAccess,
    budget: Option<&Budget>,
    order: &WorkOrder,
) -> Result<Reply, InvokeError> {
    let Some(budget) = budget else { return mq_access.execute(order).await };
    let lease = budget.lease(&order.tenant).await?;
    let answer = mq_access.execute(order).await;
    // Work that may still be in progress keeps its lease.
    if !matches!(&answer, Err(unanswered) if unanswered.may_have_run()) {
        budget.release(&order.tenant, lease).await;
    }
    answer
}

/// Refuses a small request whose messages would fill the broker.
fn check_volume(bytes: u64, most: u64) -> Result<(), Problem> {
    if bytes <= most {
        return Ok(());
    }
    let detail = format!(
        "all messages have up to {bytes} bytes together, and one request may put {most}; send fewer at a time, \
         under another idempotency key"
    );
    Err(Problem::new(Reason::ExceedsVolume, detail))
}

/// Adds advice to a problem of a header's integer that no JSON number can be: the form to write it
/// in. As a text, its receiver would get a text.
fn with_advice(problem: Problem) -> Problem {
    let is_header = |fault: &Fault| fault.pointer.split('/').any(|member| member == "headers");
    if problem.reason != Reason::NumberOutOfRange || !problem.faults.iter().any(is_header) {
        return problem;
    }
    let advised = |mut fault: Fault| {
        if is_header(&fault) {
            fault.detail.push_str("; if 64 bits hold it, write it {\"int64\": \"…\"}");
        }
        fault
    };
    let faults = problem.faults.into_iter().map(advised).collect();
    Problem::faulty(problem.reason, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_s_integer_that_is_too_large_is_written_as_one_and_nothing_else_becomes_a_text() {
        let detail = |body: &str| {
            let problem = with_advice(json::parse(body.as_bytes()).unwrap_err());
            assert_eq!(problem.reason, Reason::NumberOutOfRange, "{body}");
            problem.detail
        };
        for body in [
            r#"{"headers": {"ts": 1559224445019561728}}"#,
            r#"{"messages": [{"headers": {"deep": [{"ts": -1559224445019561728}]}}]}"#,
        ] {
            assert!(
                detail(body).ends_with(r#"; if 64 bits hold it, write it {"int64": "…"}"#),
                "{}",
                detail(body)
            );
        }
        for body in
            [r#"{"maxMessages": 1559224445019561728}"#, r#"{"batch": {"count": 1000000000000000000000}}"#]
        {
            assert!(detail(body).ends_with("(2^53-1)"), "{}", detail(body));
        }
        let other = with_advice(json::parse(br#"{"headers": {"a": 1, "a": 2}}"#).unwrap_err());
        assert!(!other.detail.contains("int64"), "{}", other.detail);
    }
}
