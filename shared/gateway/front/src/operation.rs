//! The properties that distinguish one operation of the gateway from another.

use std::time::Duration;

use access::Scope;
use api::{Problem, Route};
use idempotency::{Execution, OperationType};
use mq::{QueueName, Target};
use serde::de::DeserializeOwned;

use crate::target_request::NamedTarget;
use orders::Work;

/// Time that the broker's part of one request may take: the time-out of `mq-access` less the time
/// for connecting and for recording the outcome.
pub const TIME_BUDGET: Duration = Duration::from_secs(20);

/// Rule for the `Idempotency-Key` of an operation's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// A key is required: every request changes something.
    Required,
    /// A key is required, unless the body asks for a read.
    RequiredUnlessRead,
    /// A key is ignored: the operation changes nothing.
    Ignored,
}

/// Rule for the queue of an operation's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRule {
    /// A queue is required: the work is about one queue.
    Required,
    /// A queue is required, or an exchange in its place.
    OrExchange,
    /// No queue is required: the work is about a connection, and about a queue if there is one.
    Optional,
}

/// A request's body in the form that its operation takes.
pub trait Operation: DeserializeOwned + Send {
    /// Route of the function.
    const ROUTE: Route;
    /// Scopes, of which a caller needs one to call the operation at all; a plan may need a
    /// particular one.
    const SCOPES: &'static [Scope];
    /// Rule for the requests' key. Requests with a key are recorded.
    const KEY: KeyRule;
    /// Rule for the target's queue. It is checked once the target is merged with its profile.
    const QUEUE: QueueRule;
    /// Largest body, decoded, in bytes.
    const MAX_BODY: usize = api::body::MAX_COMMAND;

    /// Checks the rules that the form alone does not express, and returns the work to do.
    ///
    /// # Errors
    /// If members contradict each other, or the work cannot fit into one request.
    fn plan(self) -> Result<Plan, Problem>;
}

/// Queues beside the target's that the work uses, at the same place and with the same login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Further {
    #[default]
    /// The work uses the target's queue alone.
    None,
    /// The work uses a named queue, which the caller must be allowed as well.
    Queue(QueueName),
    /// The work may use each queue that messages name and that the caller is allowed.
    Any,
}

/// Work that a request asks for, without its target, which is resolved next.
pub struct Plan {
    /// Target as the request names it.
    pub named: NamedTarget,
    /// Scope that the caller's key needs for this request.
    pub scope: Scope,
    /// Queues that the work reaches beside the target's.
    pub further: Further,
    /// Most bytes that the work makes of the request.
    pub bytes: u64,
    /// The work itself.
    pub work: PlannedWork,
}

/// Work that waits for its target and, if it changes something, for the right to execute it.
pub enum PlannedWork {
    /// Work that changes nothing, so it is neither claimed nor recorded.
    Read(Box<dyn FnOnce(Target) -> Work + Send>),
    /// Work that is done once for each key.
    Change(OperationType, Box<dyn FnOnce(Target, Execution) -> Work + Send>),
}

impl Plan {
    /// Makes the plan of a read, which needs the scope `mq:read`.
    pub fn read(named: NamedTarget, work: impl FnOnce(Target) -> Work + Send + 'static) -> Self {
        let work = PlannedWork::Read(Box::new(work));
        Self { named, scope: Scope::MqRead, further: Further::None, bytes: 0, work }
    }

    /// Makes the plan of a change, which needs the scope `mq:write`.
    pub fn change(
        named: NamedTarget,
        operation: OperationType,
        work: impl FnOnce(Target, Execution) -> Work + Send + 'static,
    ) -> Self {
        let work = PlannedWork::Change(operation, Box::new(work));
        Self { named, scope: Scope::MqWrite, further: Further::None, bytes: 0, work }
    }

    /// Sets the most bytes that the broker gets from the work.
    #[must_use]
    pub fn putting(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// Adds the further queues that the work reaches.
    #[must_use]
    pub fn reaching(self, further: Further) -> Self {
        Self { further, ..self }
    }
}

impl std::fmt::Debug for PlannedWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read(_) => "Read",
            Self::Change(..) => "Change",
        })
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("scope", &self.scope).field("work", &self.work).finish_non_exhaustive()
    }
}
