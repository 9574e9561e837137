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
/// The cost that is known before decides whether the request may begin. Messages and bytes that only
/// the response shows are charged afterwards, and later requests wait for them.
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
        match answer {
            Ok(reply) => Ok(self.done(ticket, reply)),
            Err(problem) => Err(self.failed(ticket, problem)),
        }
    }

    /// Charges what the work moved, and adds what is left of the limits to its response.
    pub(crate) fn done(&self, ticket: Ticket<'_>, mut reply: Reply) -> Reply {
        let moved = self.moved.map(|moved| moved(&reply, self.cost));
        for (name, value) in ticket.headers() {
            reply.set_header(name, value);
        }
        if let Some(moved) = moved {
            ticket.settle(moved);
        }
        reply
    }

    /// Gives back the messages and bytes of work that was not done, and adds what is left of the
    /// limits to its problem. The request stays charged, so that a client whose requests fail does
    /// not escape the limit.
    pub(crate) fn failed(&self, ticket: Ticket<'_>, problem: Problem) -> Problem {
        let problem = with_headers(&ticket, problem);
        ticket.settle(Cost::default());
        problem
    }
}

/// Adds what is left of the limits to a problem.
pub(crate) fn with_headers(ticket: &Ticket<'_>, mut problem: Problem) -> Problem {
    problem.headers.extend(ticket.headers());
    problem
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
