//! Ticket: the permission to execute a request, whose cost is charged to the rate limits.

use futures_util::future::join_all;

use crate::limits::headers;
use crate::limits::limiter::Inner;
use crate::limits::policy::{Cost, Policies, Unit};
use crate::limits::share::signed;

/// Permission to execute a request, whose cost is charged. Dropping the ticket keeps the charge.
#[derive(Debug)]
pub struct Ticket<'a> {
    /// Limiter that charged the request; `None` if nothing is limited.
    inner: Option<&'a Inner>,
    policies: Policies,
    cost: Cost,
}

impl<'a> Ticket<'a> {
    /// Creates the ticket of a request without limits.
    pub(crate) fn free() -> Self {
        Self { inner: None, policies: Policies::default(), cost: Cost::default() }
    }

    pub(crate) const fn new(inner: &'a Inner, policies: Policies, cost: Cost) -> Self {
        Self { inner: Some(inner), policies, cost }
    }

    /// Refills this environment's shares of the buckets (units taken in advance) that run low or
    /// are old. Up to two calls to the table for each limit may take a second each. This request
    /// does not need them, so they should run while it claims its idempotency key.
    pub async fn renew(&self) {
        let Some(inner) = self.inner else { return };
        join_all(self.policies.0.iter().map(|policy| inner.renew(policy))).await;
    }

    /// Gives back the whole cost, because the request was a replay or a conflict, or did nothing.
    pub fn refund(self) {
        let Some(inner) = self.inner else { return };
        for policy in &self.policies.0 {
            inner.give_back(policy, policy.unit.of(self.cost));
        }
    }

    /// Replaces the messages and bytes that [`admit`](crate::limits::Limiter::admit) charged by
    /// `actual`, those that the work put, got or moved. If they are more, later requests wait for
    /// the difference. The request itself stays charged.
    pub fn settle(self, actual: Cost) {
        let Some(inner) = self.inner else { return };
        for policy in self.policies.0.iter().filter(|policy| policy.unit != Unit::Requests) {
            let more = signed(policy.unit.of(actual)) - signed(policy.unit.of(self.cost));
            policy.share().spend(more, inner.now());
        }
    }

    /// Returns the header fields `ratelimit-policy` and `ratelimit` for the limits of which less
    /// than half is left; none if there are no such limits.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let Some(inner) = self.inner else { return Vec::new() };
        let now = inner.now();
        let is_low = |remaining: u64, burst: u64| remaining.saturating_mul(2) < burst;
        let low = self.policies.0.iter().filter_map(|policy| {
            let (remaining, full_at) = policy.share().left(policy.pace(), now);
            is_low(remaining, policy.rate.burst).then_some((policy.as_ref(), remaining, full_at - now))
        });
        headers::fields(low)
    }
}
