//! Refusal of a request by rate limits, and the problem response that describes it.

use std::sync::Arc;

use api::{Problem, Reason};

use crate::limits::headers::{fields, seconds};
use crate::limits::policy::{Policy, Scope};

/// Name of the problem's member that lists the limits which refused the request
/// (draft-ietf-httpapi-ratelimit-headers).
const VIOLATED_POLICIES: &str = "violated-policies";

/// Refusal of a request by rate limits: the limit with the longest wait, and the names of all
/// limits that refused the request.
#[derive(Clone, Debug)]
pub struct Refusal {
    policy: Arc<Policy>,
    /// Time until the request may be sent again, in nanoseconds.
    wait: i64,
    /// Names of all limits that refused the request.
    violated: Vec<&'static str>,
}

impl Refusal {
    /// Creates the refusal of a request by the limits `refused`, each with the time until which it
    /// refuses. Returns `None` if there are none. Times and `now` are in nanoseconds since 1970.
    /// The response describes only the limit that refuses for the longest time, and names all.
    pub(crate) fn by(refused: &[(&Arc<Policy>, i64)], now: i64) -> Option<Self> {
        let &(policy, until) = refused.iter().rev().max_by_key(|(_, until)| *until)?;
        let violated = refused.iter().map(|(policy, _)| policy.name()).collect();
        Some(Self { policy: Arc::clone(policy), wait: (until - now).max(0), violated })
    }

    /// Returns the problem `TENANT_RATE_LIMIT` or `TARGET_RATE_LIMIT`. `Retry-After` is up to a
    /// tenth longer than necessary, at random, so that not all clients return at once.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let Policy { scope, unit, rate, .. } = self.policy.as_ref();
        let (reason, whose) = match scope {
            Scope::Tenant => (Reason::TenantRateLimit, "the tenant's limit".to_owned()),
            Scope::Profile(name) => {
                (Reason::TargetRateLimit, format!("the tenant's limit of the target profile `{name}`"))
            }
            Scope::QueueManager(name) => {
                (Reason::TargetRateLimit, format!("the tenant's limit of the queue manager `{name}`"))
            }
        };
        let wait = u32::try_from(seconds(self.wait)).unwrap_or(u32::MAX);
        let detail = format!(
            "{whose} is {} {} a second, at most {} at once, and is reached; nothing was executed: send the same request with the same key again after {wait} s",
            rate.per_second,
            unit.as_str(),
            rate.burst,
        );
        let mut problem = Problem::new(reason, detail).retry_after(wait + fastrand::u32(0..=wait / 10));
        problem.headers = fields(std::iter::once((self.policy.as_ref(), 0, self.wait)));
        problem.extension(VIOLATED_POLICIES, self.violated.clone().into())
    }
}
