//! What distinguishes one operation of the gateway from another.

use std::time::Duration;

use access::Scope;
use api::{Problem, Route};
use idempotency::{Execution, OperationType};
use mq::{QueueName, Target};
use serde::de::DeserializeOwned;

use crate::target_request::NamedTarget;
use orders::Work;

/// Time that the broker's part of one request may take: the time-out of `mq-access` less what it
/// takes to connect and to record the outcome.
pub const TIME_BUDGET: Duration = Duration::from_secs(20);

/// Whether an operation takes an `Idempotency-Key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// Every request changes something.
    Required,
    /// Required, unless the body asks for a read.
    RequiredUnlessRead,
    /// The operation changes nothing.
    Ignored,
}

/// Whether the target must name a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRule {
    /// The work is about one queue.
    Required,
    /// An exchange may take its place.
    OrExchange,
    /// The work is about a connection, and about a queue if there is one.
    Optional,
}

/// A request's body in the form that its operation takes.
pub trait Operation: DeserializeOwned + Send {
    /// The one route of the function.
    const ROUTE: Route;
    /// Scopes of which one is needed to call the operation at all; a plan may need a particular
    /// one.
    const SCOPES: &'static [Scope];
    /// Whether requests are recorded.
    const KEY: KeyRule;
    /// Checked once the target is merged with its profile.
    const QUEUE: QueueRule;
    /// The largest body, decoded, in bytes.
    const MAX_BODY: usize = api::body::MAX_COMMAND;

    /// Checks what the form alone does not, and says what is to be done.
    ///
    /// # Errors
    /// When members contradict each other, or the work cannot fit into one request.
    fn plan(self) -> Result<Plan, Problem>;
}

/// Whether the work uses queues beside the target's, at the same place and with the same login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Further {
    #[default]
    /// The target's alone.
    None,
    /// A named queue, which the caller has to be allowed as well.
    Queue(QueueName),
    /// Any that messages name and the caller is allowed.
    Any,
}

/// Work that a request asks for, without its target, which is resolved next.
pub struct Plan {
    /// The target as the request names it.
    pub named: NamedTarget,
    /// Scope that the caller's key needs for this request.
    pub scope: Scope,
    /// Queues that the work reaches beside the target's.
    pub further: Further,
    /// Bytes that the work makes of the request at most.
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
    /// A read, which needs the scope `mq:read`.
    pub fn read(named: NamedTarget, work: impl FnOnce(Target) -> Work + Send + 'static) -> Self {
        let work = PlannedWork::Read(Box::new(work));
        Self { named, scope: Scope::MqRead, further: Further::None, bytes: 0, work }
    }

    /// A change, which needs the scope `mq:write`.
    pub fn change(
        named: NamedTarget,
        operation: OperationType,
        work: impl FnOnce(Target, Execution) -> Work + Send + 'static,
    ) -> Self {
        let work = PlannedWork::Change(operation, Box::new(work));
        Self { named, scope: Scope::MqWrite, further: Further::None, bytes: 0, work }
    }

    /// Sets the most bytes that the broker gets.
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
