//! Checks an HTTP request before its work, in the order of the public contract, and claims its
//! idempotency record.
//!
//! The checks are the same for work that `mq-access` does ([`Gateway`](crate::Gateway)) and for
//! work that the HTTP function does itself.

use std::time::Duration;

use access::{AccessStore, LimitedTarget, Principal, Scope, SpentItem};
use api::{Fault, Problem, Reason, Reply, TraceId, body, json};
use endpoint::limits::{Limiter, Policies};
use endpoint::{Admission, WorkDone, WorkFailure, check_route, from_key, limits_of, spent_of};
use http::HeaderMap;
use idempotency::{ClaimRequest, Execution, Fingerprint, IdempotencyKey, KeyError, KeyForm, OperationType};
use lambda_http::Request;
use mq::{InlineTargets, Tags, Target};
use serde_json::Value;

use crate::audited;
use crate::idempotent::Idempotency;
use crate::operation::{KeyRule, Operation, Plan, Work};
use crate::target::{self, Queues};

/// Stores and settings with which an HTTP function checks requests.
#[derive(Debug)]
pub struct Front {
    /// Name of the function, in its metrics.
    pub service: &'static str,
    /// Store of API keys, target profiles and the tenants' own allow-lists.
    pub access: AccessStore,
    /// Deployment's allow-list of targets that requests may use without a profile.
    pub inline_targets: InlineTargets,
    /// Store of idempotency records, and the limits of their retention; `None` if no request to the
    /// function changes anything.
    pub idempotency: Option<Idempotency>,
    /// Rate limiter of tenants and targets.
    pub limiter: Limiter,
}

/// Request that passed all checks except those of its idempotency record and its rate limits, which
/// come last.
#[derive(Debug)]
pub struct Accepted<W> {
    /// Caller, idempotency key and fingerprint of the request.
    pub identity: Identity,
    /// Resolved target that the caller may use.
    pub target: Target,
    /// Rate limits of the tenant and the target that apply to the request.
    pub policies: Policies,
    /// Amount that the tenant has spent of its monthly budget; `None` if the tenant has no budget.
    pub spent: Option<SpentItem>,
    /// Tags that the caller gave the request, for its messages and the audit event.
    pub tags: Tags,
    /// Work to do at the target.
    pub work: W,
}

/// Identity of a request: its caller, its idempotency key, and the fingerprint of its content. A
/// retry of the request has the same identity.
#[derive(Debug)]
pub struct Identity {
    /// Authenticated caller of the request.
    pub principal: Principal,
    key: Option<IdempotencyKey>,
    retention: Duration,
    fingerprint: Fingerprint,
}

impl Front {
    /// Runs all checks of a request for the operation `O`, and resolves its target.
    ///
    /// # Errors
    /// Returns the problem of the first check that the request does not pass.
    pub async fn accept<O: Operation>(&self, request: &Request) -> Result<Accepted<O::Work>, Problem> {
        check_route(O::ROUTE, request)?;
        let (identity, plan) = self.check::<O>(request).await?;
        let tenant = &identity.principal.tenant;
        let queues = Queues { own: O::QUEUE, further: &plan.further, reports: &plan.reports };
        let target = target::resolve(&self.access, &self.inline_targets, tenant, &plan.named, queues);
        let limits = limits_of(&self.limiter, &self.access, tenant);
        // Boxed: the compiler cannot lay out a deeper nest of futures.
        let (target, limits, spent) = tokio::join!(Box::pin(target), limits, spent_of(&self.access, tenant));
        let target = target?;
        audited::note_reached(&target);
        let queue_manager = target.endpoint.broker.certain_queue_manager(&target.endpoint.queue_manager);
        let limited = LimitedTarget::new(plan.named.target_ref.as_deref(), queue_manager);
        let policies = self.limiter.policies(&limits?, tenant, Some(&limited));
        Ok(Accepted { identity, target, policies, spent, tags: plan.tags, work: plan.action })
    }

    /// Builds the rate-limit check of a request that involves no target.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the tenant's limits cannot be read.
    pub async fn admission(&self, principal: &Principal) -> Result<Admission<'_>, Problem> {
        Admission::of_tenant(&self.limiter, &self.access, &principal.tenant).await
    }

    /// Checks a request that has no body but needs an idempotency key, and returns the caller, the
    /// key and the fingerprint. The caller needs one of `scopes`. The fingerprint is made from
    /// `content`, the request's path and query.
    ///
    /// # Errors
    /// Returns the problem of the first check that the request does not pass.
    pub async fn identify(
        &self,
        headers: &HeaderMap,
        scopes: &[Scope],
        content: &Value,
    ) -> Result<Identity, Problem> {
        let principal = self.authenticate(headers, scopes).await?;
        let (key, retention) = self.idempotency_headers(headers, KeyRule::Required)?;
        Ok(Identity { principal, key, retention, fingerprint: fingerprint(content)? })
    }

    /// Authenticates the caller, who needs one of `scopes`.
    ///
    /// # Errors
    /// `API_KEY_REQUIRED`, `API_KEY_INVALID`, `TOKEN_INVALID`, `SCOPE_REQUIRED`, or
    /// `STORE_UNAVAILABLE`.
    pub async fn authenticate(&self, headers: &HeaderMap, scopes: &[Scope]) -> Result<Principal, Problem> {
        let principal = access::authenticate(&self.access, headers).await?;
        principal.require_any(scopes)?;
        Ok(principal)
    }

    /// Runs `work` once for each identity and operation type, if the limits of `admission` allow
    /// it, and answers every retry from the idempotency record. `target` is the name of the target
    /// in the record.
    ///
    /// # Errors
    /// Returns the problem of `work`, or the problem of the record: see [`endpoint::once`].
    pub async fn once(
        &self,
        identity: &Identity,
        operation: OperationType,
        target: &str,
        trace_id: &TraceId,
        admission: &Admission<'_>,
        work: impl AsyncFnOnce(&Execution) -> Result<WorkDone, WorkFailure>,
    ) -> Result<Reply, Problem> {
        let (Some(idempotency), Some(key)) = (&self.idempotency, &identity.key) else {
            return Err(from_key(KeyError::Missing(KeyForm::Uuid)));
        };
        let claim = ClaimRequest {
            operation,
            tenant: &identity.principal.tenant,
            key,
            fingerprint: &identity.fingerprint,
            rights: None,
            target,
            key_name: identity.principal.key_name(),
            trace_id: trace_id.as_str(),
            retention: identity.retention,
        };
        endpoint::once(&idempotency.store, &claim, admission, work).await
    }

    /// Authenticates the caller, and checks the headers, the body and the operation's own rules, in
    /// the order of the public contract. Returns the request's identity and the plan of its work,
    /// whose target is not resolved yet.
    async fn check<O: Operation>(&self, request: &Request) -> Result<(Identity, Plan<O::Work>), Problem> {
        let headers = request.headers();
        let principal = self.authenticate(headers, O::SCOPES).await?;
        let (key, retention) = self.idempotency_headers(headers, O::KEY)?;
        let body = body::json(headers, request.body(), O::MAX_BODY)?;
        let value = json::parse(&body).map_err(with_advice)?;
        let fingerprint = fingerprint(&value)?;
        let plan = json::read::<O>(value)?.plan()?;
        audited::note_asked(&plan);
        principal.require_any(&[Work::scope(&plan.action)])?;
        if Work::recorded_as(&plan.action).is_some() && key.is_none() {
            return Err(from_key(KeyError::Missing(KeyForm::Uuid)));
        }
        Ok((Identity { principal, key, retention, fingerprint }, plan))
    }

    fn idempotency_headers(
        &self,
        headers: &HeaderMap,
        rule: KeyRule,
    ) -> Result<(Option<IdempotencyKey>, Duration), Problem> {
        let (Some(idempotency), false) = (&self.idempotency, rule == KeyRule::Ignored) else {
            return Ok((None, Duration::ZERO));
        };
        let key = match (IdempotencyKey::of(headers, KeyForm::Uuid), rule) {
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
}

fn fingerprint(of: &Value) -> Result<Fingerprint, Problem> {
    Fingerprint::of(of).map_err(|error| Problem::new(Reason::MalformedJson, error.to_string()))
}

/// Adds advice to the problem of an integer in a message header that is too large for a JSON
/// number: to write the integer as `{"int64": "…"}`. Written as plain JSON text, the integer would
/// reach the message's receiver as text.
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
