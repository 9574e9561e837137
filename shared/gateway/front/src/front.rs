//! Handles one HTTP request whose work `mq-access` does, from the request's headers to the
//! response.

use api::{Problem, Reason, Reply, TraceId, Traceparent};
use endpoint::limits::Policies;
use endpoint::{Admission, Keyed};
use idempotency::KeyForm;
use lambda_http::{Body, Request, Response};
use mq::{Headers, TagOrigin};
use objects::Objects;
use orders::{Change, Work, WorkOrder};

use crate::checks::{Accepted, Front};
use crate::idempotent::outcome;
use crate::mq_access::{InvokeError, MqAccess};
use crate::operation::{Action, KeyRule, Operation};
use crate::order_limit::OrderLimit;

/// Clients and settings of an HTTP function of the gateway.
#[derive(Debug)]
pub struct Gateway {
    /// Stores and settings for the checks that each request must pass.
    pub front: Front,
    /// Client of `mq-access`, the function that connects to brokers.
    pub mq_access: MqAccess,
    /// Limit on each tenant's orders in progress at `mq-access`; `None` if there is no limit.
    pub order_limit: Option<OrderLimit>,
    /// Maximum number of bytes of the messages that one produce may put.
    pub max_produce_bytes: u64,
    /// True if the deployment has load tests, which may take longer than a request.
    pub has_load_tests: bool,
    /// Bucket to which clients upload message bodies that are too large for a request; `None` if
    /// the function accepts none.
    pub uploads: Option<Objects>,
}

impl Gateway {
    /// Runs the checks for a request of the operation `O`, sends its work to `mq-access`, and
    /// responds.
    pub async fn handle<O: Operation<Work = Action>>(&self, request: Request) -> Response<Body> {
        let keyed = if O::KEY == KeyRule::Ignored { Keyed::No } else { Keyed::Yes(KeyForm::Uuid) };
        endpoint::serve(self.front.service, O::ROUTE, keyed, request.headers(), async |trace_id| {
            self.answer::<O>(&request, trace_id).await
        })
        .await
    }

    async fn answer<O: Operation<Work = Action>>(
        &self,
        request: &Request,
        trace_id: &TraceId,
    ) -> Result<Reply, Problem> {
        let accepted = self.front.accept::<O>(request).await;
        let Accepted { identity, target, policies, spent, tags, mut work } =
            accepted.map_err(|problem| self.advise(problem))?;
        let target_name = target.to_string();
        let mut given = Headers::default();
        if let Action::Change(_, Change::Produce(command)) = &mut work {
            given.clone_from(&command.headers);
            // Before its cost is counted, so that no limit of bytes is passed by tags.
            let tenant = identity.principal.tenant.as_str();
            tags.mark(&mut command.headers, origin(trace_id.as_str(), tenant, &target_name));
        }
        let admission = self.admission(policies, &work).within(spent);
        let order =
            |work| WorkOrder { trace_id: trace_id.clone(), tenant: identity.principal.tenant.clone(), work };
        let (operation, change) = match work {
            Action::Read(read) => {
                let order = order(Work::Read { target, read });
                return admission.unrecorded(self.read(&order)).await;
            }
            Action::Change(operation, change) => (operation, change),
        };
        self.front
            .once(&identity, operation, &target_name, trace_id, &admission, async |execution| {
                let mut change = change;
                // The values are those of the first execution, so that a message that is put again
                // is the same message.
                if let Change::Produce(command) = &mut change
                    && execution.first_trace_id() != trace_id.as_str()
                {
                    command.headers = given;
                    let of_first = origin(execution.first_trace_id(), &execution.tenant, &execution.target);
                    tags.mark(&mut command.headers, of_first);
                }
                // Work that was done or begun under another limit is replayed or continued.
                if execution.place_history.left_by(execution.progress).is_empty() {
                    check_volume(change.bytes(), self.max_produce_bytes)?;
                }
                let order = order(Work::Change { target, execution: execution.clone(), change });
                outcome(send(&self.mq_access, self.order_limit.as_ref(), &order).await, execution)
            })
            .await
    }

    /// Builds the rate-limit check of a request, with the number and bytes of its messages if a
    /// limit counts them.
    fn admission(&self, policies: Policies, work: &Action) -> Admission<'_> {
        let volume = if policies.count_volume() { work.volume() } else { None };
        let admission = Admission::new(&self.front.limiter, policies);
        match volume {
            Some((cost, moved)) => admission.moving(cost, moved),
            None => admission,
        }
    }

    async fn read(&self, order: &WorkOrder) -> Result<Reply, Problem> {
        send(&self.mq_access, self.order_limit.as_ref(), order).await.map_err(|unanswered| {
            unanswered.log();
            unanswered.as_problem()
        })
    }

    /// Adds to a problem about too much time the advice to use a load test, if the deployment has
    /// load tests.
    fn advise(&self, problem: Problem) -> Problem {
        if self.has_load_tests { with_load_test(problem) } else { problem }
    }
}

/// Sends an order to `mq-access`, and returns the response. `order_limit` is the limit on the
/// tenant's orders in progress; `None` if there is no limit.
///
/// # Errors
/// If the tenant has reached the limit, or there is no response. [`InvokeError`] tells whether the
/// work may have been done.
pub async fn send(
    mq_access: &MqAccess,
    order_limit: Option<&OrderLimit>,
    order: &WorkOrder,
) -> Result<Reply, InvokeError> {
    let Some(order_limit) = order_limit else { return mq_access.execute(order).await };
    let lease = order_limit.lease(&order.tenant).await?;
    let answer = mq_access.execute(order).await;
    // Work that may still be in progress keeps its lease.
    if !matches!(&answer, Err(unanswered) if unanswered.may_have_run()) {
        order_limit.release(&order.tenant, lease).await;
    }
    answer
}

/// Returns what the gateway writes into the headers of a tagged request's messages: the trace id
/// (also as `traceparent`, if it has that form), the tenant and the target.
#[must_use]
pub fn origin<'a>(trace_id: &'a str, tenant: &'a str, target: &'a str) -> TagOrigin<'a> {
    let traceparent = Traceparent::parse(trace_id).map(|context| context.text);
    TagOrigin { trace_id, traceparent, tenant, target }
}

/// Refuses a produce whose messages have more than `most` bytes. A small request may generate many
/// messages.
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

/// Adds the route for load tests to a problem of the reason [`Reason::ExceedsTimeBudget`]. Other
/// problems stay as they are.
fn with_load_test(mut problem: Problem) -> Problem {
    if problem.reason == Reason::ExceedsTimeBudget {
        problem.detail.push_str(", or let a load test put them, which may take hours: POST /tests");
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_hours_is_sent_to_the_load_tests_and_nothing_else() {
        let detail = |reason| with_load_test(Problem::new(reason, "send fewer at a time")).detail;
        assert!(detail(Reason::ExceedsTimeBudget).ends_with("POST /tests"));
        assert_eq!(detail(Reason::ExceedsVolume), "send fewer at a time");
    }
}
