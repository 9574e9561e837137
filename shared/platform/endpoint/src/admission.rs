//! Admission of requests by rate limits and by the tenant's monthly budget. A request is charged
//! before its work. Afterwards, the messages and bytes that the work put, got or moved replace
//! those that were charged.

use std::fmt;

use access::{AccessStore, LimitsItem, SpentItem};
use api::{Problem, Reason, Reply};
use jiff::Timestamp;

use crate::limits::{Cost, Limiter, Policies, Ticket};

/// Function that returns the number and bytes of the messages that a request put, got or moved,
/// from the response and from the cost that was charged before the work.
pub type Moved = fn(&Reply, Cost) -> Cost;

/// Rate limits and budget that a request must pass before its work.
///
/// The cost that is known before the work decides whether the request is admitted. Messages and
/// bytes that only the response shows are charged after the work, and delay later requests.
pub struct Admission<'a> {
    limiter: &'a Limiter,
    policies: Policies,
    spent: Option<SpentItem>,
    cost: Cost,
    moved: Option<Moved>,
}

impl<'a> Admission<'a> {
    /// Creates the admission of a request under these limits. The request counts as one without
    /// messages until [`moving`](Self::moving) sets them.
    #[must_use]
    pub fn new(limiter: &'a Limiter, policies: Policies) -> Self {
        Self { limiter, policies, spent: None, cost: Cost::default(), moved: None }
    }

    /// Creates the admission of a request without a target: only the tenant's limit of requests and
    /// the tenant's budget apply.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the tenant's limits cannot be read.
    pub async fn of_tenant(
        limiter: &'a Limiter,
        access: &AccessStore,
        tenant: &str,
    ) -> Result<Self, Problem> {
        let (item, spent) = tokio::join!(limits_of(limiter, access, tenant), spent_of(access, tenant));
        Ok(Self::new(limiter, limiter.policies(&item?, tenant, None)).within(spent))
    }

    /// Sets the amount that the tenant has spent of its monthly budget. If the budget is spent, the
    /// request may be refused; with `None` it is not.
    #[must_use]
    pub fn within(self, spent: Option<SpentItem>) -> Self {
        Self { spent, ..self }
    }

    /// Sets the messages and bytes that the request announces, and the function that reads from the
    /// response how many were moved.
    #[must_use]
    pub fn moving(self, cost: Cost, moved: Moved) -> Self {
        Self { cost, moved: Some(moved), ..self }
    }

    /// Charges the cost that is known before the work, and returns the permission to begin. If the
    /// budget is spent, nothing is charged.
    ///
    /// # Errors
    /// 429 if a limit or the budget refuses the request.
    pub(crate) async fn admit(&self) -> Result<Ticket<'a>, Problem> {
        let wait = self.spent.as_ref().and_then(|spent| spent.refuses_for(Timestamp::now()));
        if let Some(wait) = wait {
            return Err(over_budget(wait));
        }
        // Boxed: the compiler cannot lay out a deeper nest of futures.
        let admitted = Box::pin(self.limiter.admit(&self.policies, self.cost)).await;
        admitted.map_err(|refusal| refusal.problem())
    }

    /// Executes work that has no idempotency record, if the limits admit it.
    ///
    /// # Errors
    /// 429 if a limit or the budget refuses the request, or the problem of `work`.
    pub async fn unrecorded(
        &self,
        work: impl Future<Output = Result<Reply, Problem>>,
    ) -> Result<Reply, Problem> {
        let ticket = self.admit().await?;
        let (answer, ()) = tokio::join!(Box::pin(work), Box::pin(ticket.renew()));
        self.end(ticket, answer)
    }

    /// Charges the messages and bytes that the work moved, and adds headers to the response if less
    /// than half of a limit is left.
    ///
    /// If the work failed, its messages and bytes are given back. The request itself stays charged,
    /// so that failing requests do not escape the limit.
    pub(crate) fn end(&self, ticket: Ticket<'_>, answer: Result<Reply, Problem>) -> Result<Reply, Problem> {
        let mut reply = match answer {
            Ok(reply) => reply,
            Err(problem) => {
                ticket.settle(Cost::default());
                return Err(problem);
            }
        };
        let moved = self.moved.map_or(self.cost, |moved| moved(&reply, self.cost));
        if reply.status < 400 {
            for (name, value) in ticket.headers() {
                reply.set_header(name, value);
            }
        }
        ticket.settle(moved);
        Ok(reply)
    }
}

/// Reads the rate limits of a tenant. Nothing is read if the function has no limiter.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the item cannot be read, or is malformed.
pub async fn limits_of(limiter: &Limiter, access: &AccessStore, tenant: &str) -> Result<LimitsItem, Problem> {
    if limiter.is_off() {
        return Ok(LimitsItem::default());
    }
    Ok(access.limits(tenant).await?)
}

/// Reads the amount that a tenant has spent of its budget; `None` if no amount is stored, or if it
/// cannot be read. A budget protects no data, so the request then proceeds. The store has logged
/// the error.
pub async fn spent_of(access: &AccessStore, tenant: &str) -> Option<SpentItem> {
    access.spent(tenant).await.ok().flatten()
}

fn over_budget(wait: u32) -> Problem {
    let detail = format!(
        "the tenant's budget of this month is spent; nothing was executed: ask the operator to raise it, or send the same request with the same key again when the month is over, in {wait} s"
    );
    Problem::new(Reason::BudgetExceeded, detail).retry_after(wait)
}

impl fmt::Debug for Admission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limiter: _, policies, spent, cost, moved: _ } = self;
        let mut debug = f.debug_struct("Admission");
        debug.field("policies", policies).field("spent", spent).field("cost", cost).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use access::Month;
    use serde_json::json;

    use super::*;

    async fn admitted(month: &str, refuse: bool) -> Result<Reply, Problem> {
        let limiter = Limiter::off();
        let item = json!({"month": month, "amount": "1", "exceeded": true, "refuse": refuse});
        let spent = SpentItem::read(item).ok();
        assert!(spent.is_some());
        let admission = Admission::new(&limiter, Policies::default()).within(spent);
        admission.unrecorded(async { Ok(Reply::json(200, &json!({}))) }).await
    }

    #[tokio::test]
    async fn a_spent_budget_refuses_if_it_shall_and_is_of_this_month() {
        let now = Timestamp::now();
        let month = Month::of(now).to_string();
        let refused = admitted(&month, true).await.unwrap_err();
        assert_eq!(refused.reason, Reason::BudgetExceeded);
        assert!(refused.retry_after.is_some_and(|wait| (1..=31 * 86_400).contains(&wait)));
        assert!(admitted(&month, false).await.is_ok());
        assert!(admitted("2026-01", true).await.is_ok());
    }
}
