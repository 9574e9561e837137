//! Limits of a request: what it draws from them before its work, and what its work charges
//! afterwards.

use std::fmt;

use access::{AccessStore, LimitsItem};
use api::{Problem, Reply};
use limits::{Cost, Limiter, Policies, Refusal, Ticket};

/// Finds the messages and bytes that work moved, by its response and by what was drawn before.
pub type Moved = fn(&Reply, Cost) -> Cost;

/// Limits that a request draws from before its work.
///
/// The cost that is known before decides whether the request may begin. Messages and bytes that
/// only the response shows are charged afterwards, and later requests wait for them.
pub struct Admission<'a> {
    limiter: &'a Limiter,
    policies: Policies,
    cost: Cost,
    moved: Option<Moved>,
}

impl<'a> Admission<'a> {
    /// Makes the admission of a request whose work moves no messages.
    #[must_use]
    pub fn new(limiter: &'a Limiter, policies: Policies) -> Self {
        Self { limiter, policies, cost: Cost::default(), moved: None }
    }

    /// Makes the admission of a request that no target has a part in: the tenant's limit decides.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the tenant's limits cannot be read.
    pub async fn of_tenant(
        limiter: &'a Limiter,
        access: &AccessStore,
        tenant: &str,
    ) -> Result<Self, Problem> {
        let item = limits_of(limiter, access, tenant).await?;
        Ok(Self::new(limiter, limiter.policies(&item, tenant, None)))
    }

    /// Sets the messages and bytes that the work is to move, and how its response shows those that
    /// it did move.
    #[must_use]
    pub fn moving(self, cost: Cost, moved: Moved) -> Self {
        Self { cost, moved: Some(moved), ..self }
    }

    /// Draws the cost that is known before the work.
    pub(crate) async fn admit(&self) -> Result<Ticket<'a>, Refusal> {
        // Boxed: the compiler cannot lay out a deeper nest of futures.
        Box::pin(self.limiter.admit(&self.policies, self.cost)).await
    }

    /// Does work that has no record, if the limits allow it.
    ///
    /// # Errors
    /// 429 if a limit does not allow it, or the problem of `work`.
    pub async fn unrecorded(
        &self,
        work: impl Future<Output = Result<Reply, Problem>>,
    ) -> Result<Reply, Problem> {
        let ticket = self.admit().await.map_err(|refusal| refusal.problem())?;
        let (answer, ()) = tokio::join!(Box::pin(work), Box::pin(ticket.renew()));
        self.end(ticket, answer)
    }

    /// Charges what the work moved. A response says what is left of the limits, if that is little.
    ///
    /// Work that was not done gives its messages and bytes back. Its request stays charged, so that
    /// a client whose requests fail does not escape the limit.
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

/// Reads the limits of a tenant. A function without limits reads nothing.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the item cannot be read, or is malformed.
pub async fn limits_of(limiter: &Limiter, access: &AccessStore, tenant: &str) -> Result<LimitsItem, Problem> {
    if limiter.is_off() {
        return Ok(LimitsItem::default());
    }
    Ok(access.limits(tenant).await?)
}

impl fmt::Debug for Admission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limiter: _, policies, cost, moved: _ } = self;
        f.debug_struct("Admission").field("policies", policies).field("cost", cost).finish_non_exhaustive()
    }
}
