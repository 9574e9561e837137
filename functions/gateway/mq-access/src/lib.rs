//! Executes an order at a broker. An order is the work that an HTTP function of the gateway sends.
//! Writes the outcome into the request's idempotency record, and returns the finished response.
//!
//! Once an order arrives, only this function writes its record. Work stops early enough for this
//! write, and the outcome reports the messages that the deadline cut off.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod answer;
mod consume;
mod depths;
mod end;
mod explained;
mod large;
mod pool_users;
mod produce;
mod ready;
mod relocation;
mod uploaded;

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use api::{Problem, Reason, Reply};
use attempt::Malformed;
use broker::Deadline;
use broker_access::Brokers;
use idempotency::{Execution, Store};
use jiff::Timestamp;
use mq::Target;
use objects::Objects;
use orders::{Change, Read, Work, WorkOrder, from_broker};
use tracing::Instrument as _;

use crate::pool_users::PoolUsers;
use crate::ready::queue_of;

/// Bytes of memory that the function needs if `connections` connections may be open. The sum covers
/// the function itself, IBM MQ's client library, cached secrets, connection buffers, and the
/// largest request: its messages with the copies of a 6 MB order or response, or one message that
/// is too large for a response.
#[must_use]
pub const fn memory(connections: usize) -> usize {
    let most_held = max(rabbitmq::MOST_HELD, ibm_mq::MOST_HELD);
    let order_or_answer = COPIES_OF_A_PAYLOAD * 6 * MEBIBYTE;
    let usual = max(most_held, uploaded::MOST_HELD) + order_or_answer;
    let messages = max(usual, rabbitmq::held_alone(large::LARGEST_BODY));
    128 * MEBIBYTE
        + broker_access::SECRETS_MEMORY
        + connections * 16 * MEBIBYTE
        + ibm_mq::LIBRARY_MEMORY
        + messages
}

const fn max(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

const MEBIBYTE: usize = 1024 * 1024;
const COPIES_OF_A_PAYLOAD: usize = 32;

/// Time at the end of an invocation that is reserved for writing the outcome into the idempotency
/// record: one operation of the store, with a margin.
const TO_RECORD: Duration = Duration::from_secs(3);

/// Maximum time for closing connections that must not stay open after the response.
const TO_CLOSE: Duration = Duration::from_secs(1);

/// Parses an order (work that an HTTP function sends) from its event. After an error, the event is
/// parsed again with all member names, so that the error names the faulty member.
///
/// # Errors
/// If the event is not an order of this version.
pub fn order(event: &str) -> Result<WorkOrder, Malformed> {
    serde_json::from_str(event).or_else(|_| attempt::malformed::from_slice(event.as_bytes()))
}

/// State of the function `mq-access` that its invocations share: clients of stores and brokers.
#[derive(Debug)]
pub struct MqAccess {
    store: Store,
    brokers: Brokers,
    pool_users: PoolUsers,
    uploads: Option<Objects>,
}

impl MqAccess {
    /// Creates the function's state. `uploads` is the bucket of uploaded bodies; `None` if the
    /// deployment has none.
    pub fn new(store: Store, brokers: Brokers, uploads: Option<Objects>) -> Self {
        Self { store, brokers, pool_users: PoolUsers::default(), uploads }
    }

    /// Executes an order (work that an HTTP function sends), and returns its response before
    /// `ends_at`, the time-out of the invocation.
    pub async fn handle(&self, order: WorkOrder, ends_at: SystemTime) -> Reply {
        self.brokers.end_stale();
        let deadline = Deadline::of_invocation(ends_at, TO_RECORD);
        let WorkOrder { trace_id, tenant, work } = order;
        let key = match &work {
            Work::Change { execution, .. } => Some(execution.idempotency_key.as_str()),
            Work::Read { .. } | Work::Pools => None,
        };
        let span = tracing::error_span!("order", correlation_id = %trace_id, tenant, idempotency_key = key);
        let answer = self.answer(&tenant, work, deadline).instrument(span.clone()).await;
        self.brokers.settle(deadline.min(TO_CLOSE)).instrument(span.clone()).await;
        answer.unwrap_or_else(|problem| {
            let _entered = span.enter();
            tracing::warn!(
                event_type = "order.failed",
                reason = problem.reason.as_str(),
                action = problem.reason.action(),
                detail = problem.detail,
                error = problem.source(),
                "order {trace_id} failed: {}",
                problem.reason.as_str()
            );
            problem.to_reply(&trace_id)
        })
    }

    /// Executes the work of an order, and returns its reply or problem.
    async fn answer(&self, tenant: &str, work: Work, deadline: Deadline) -> Result<Reply, Problem> {
        let (target, answer) = match work {
            Work::Change { target, execution, change } => {
                self.pool_users.note(tenant, &target.endpoint);
                // Boxed: the futures of brokers are large.
                let answer = Box::pin(self.change(&target, execution, change, deadline)).await;
                (target, answer)
            }
            Work::Read { target, read } => {
                self.pool_users.note(tenant, &target.endpoint);
                let answer = Box::pin(self.read(&target, read, deadline)).await;
                (target, answer)
            }
            Work::Pools => return Ok(answer::pools(&self.pool_users.of(tenant, self.brokers.pools()))),
        };
        answer.map_err(|problem| explained::problem(problem, &target))
    }

    /// Executes a change (produce, consume or move) under its idempotency record, unless the order
    /// arrives too late to start, and completes the record. The futures are boxed, as in
    /// [`Self::read`], because each kind of work is large.
    async fn change(
        &self,
        target: &Target,
        mut execution: Execution,
        change: Change,
        deadline: Deadline,
    ) -> Result<Reply, Problem> {
        let ended = match change {
            _ if execution.is_stale(Timestamp::now()) => {
                let detail = "the work was handed over too late to start; nothing was done";
                Err(Problem::new(Reason::Busy, detail).into())
            }
            Change::Produce(command) => {
                Box::pin(self.produce(target, command, &mut execution, deadline)).await
            }
            Change::Consume { command, large } => {
                Box::pin(self.consume(target, (&command, large), &execution, deadline)).await
            }
            Change::Move(command) => {
                Box::pin(self.relocate(target, &command, &mut execution, deadline)).await
            }
        };
        self.end(&execution, ended).await
    }

    async fn read(&self, target: &Target, read: Read, deadline: Deadline) -> Result<Reply, Problem> {
        match read {
            Read::Browse(command) => Box::pin(self.browse(target, &command, deadline)).await,
            Read::PreviewMove(command) => Box::pin(self.preview_move(target, &command, deadline)).await,
            Read::Depth => Box::pin(self.depth(target, deadline)).await,
            Read::Depths(queues) => Box::pin(self.depths(target, &queues, deadline)).await,
            Read::Test => Ok(Box::pin(self.test(target, deadline)).await),
        }
    }

    async fn depth(&self, target: &Target, deadline: Deadline) -> Result<Reply, Problem> {
        let ready = self.ready(target, deadline).await?;
        let queue = queue_of(target)?;
        let report = ready.with_login(async |broker, access| broker.depth(access, queue, deadline).await);
        let report = report.await.map_err(|error| from_broker(&error))?;
        Ok(answer::depth(target, queue, &report, Timestamp::now()))
    }

    /// Tests the connection to a target, and returns the result of each step. An unreadable secret
    /// is a failed step of the test, as a wrong password is.
    async fn test(&self, target: &Target, deadline: Deadline) -> Reply {
        match self.brokers.ready(target, deadline).await {
            Ok(ready) => {
                let queue = target.queue.as_ref();
                let report =
                    ready.with_login(async |broker, access| broker.test(access, queue, deadline).await);
                answer::test(&explained::report(report.await, target))
            }
            Err(unusable) => answer::untested(&unusable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_malformed_order_quotes_nothing() {
        for event in [r#""s3cret""#, r#"{"tenant": "acme", "work": "s3cret"}"#] {
            let error = order(event).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    /// Checks the error type by which the HTTP functions know that the order was not executed.
    #[test]
    fn an_order_that_cannot_be_read_ends_the_invocation_with_the_agreed_type() {
        assert_eq!(runtime::answered(order("{}")).unwrap_err().error_type, orders::UNREADABLE);
    }

    /// Returns the number after the first `member` in the entry `entry` of template.yaml.
    fn of_template(entry: &str, member: &str) -> usize {
        let template = include_str!("../../../../template.yaml");
        let (_, after) = template.split_once(&format!("\n  {entry}:\n")).unwrap();
        let (_, value) = after.split_once(&format!("{member}: ")).unwrap();
        value.lines().next().unwrap().parse().unwrap()
    }

    #[test]
    fn the_template_gives_the_function_the_memory_that_it_needs_at_any_cap() {
        let mebibytes = of_template("MqAccessFunction", "MemorySize");
        let most = of_template("ConnectionCap", "MaxValue");
        assert!(most >= of_template("ConnectionCap", "Default"));
        let needed = memory(most);
        assert!(mebibytes * MEBIBYTE >= needed, "{mebibytes} MiB for {needed} bytes");
    }
}
