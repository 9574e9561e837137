//! Answer to a request that a limit refuses.

use std::sync::Arc;

use api::{Problem, Reason};

use crate::headers::{fields, seconds};
use crate::policy::{Policy, Scope};

/// Limit that refused a request, and for how long.
#[derive(Clone, Debug)]
pub struct Refusal {
    policy: Arc<Policy>,
    /// Time until the request may be sent again, in nanoseconds.
    wait: i64,
}

impl Refusal {
    pub(crate) fn new(policy: &Arc<Policy>, until: i64, now: i64) -> Self {
        Self { policy: policy.clone(), wait: (until - now).max(0) }
    }

    /// Makes the problem: `TENANT_RATE_LIMIT` or `TARGET_RATE_LIMIT`. Its `Retry-After` has up to a
    /// tenth more than the time for which the limit refuses, so that not all clients come back at
    /// once.
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
        problem
    }
}
