//! Properties in which the operations of the gateway differ from each other, such as route, scopes
//! and rules for keys and queues.

use std::time::Duration;

use access::Scope;
use api::{Problem, Route};
use idempotency::OperationType;
use mq::{QueueName, ReportPlace, Tags};
use orders::{Change, Read};
use serde::de::DeserializeOwned;

use crate::target_request::NamedTarget;

/// Time that the broker's part of a request may take: the time-out of `mq-access`, less the time
/// for connecting and for recording the outcome.
pub const TIME_BUDGET: Duration = Duration::from_secs(20);

/// Rule that decides whether requests of an operation need an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// The `Idempotency-Key` header is required, because every request changes something.
    Required,
    /// The `Idempotency-Key` header is required, unless the body asks for work that changes
    /// nothing.
    RequiredUnlessRead,
    /// The `Idempotency-Key` header is ignored, because the operation changes nothing.
    Ignored,
}

/// Rule whether the target of an operation needs a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRule {
    /// A queue is required, because the work is about one queue.
    Required,
    /// A queue or an exchange is required.
    OrExchange,
    /// The queue is optional: the work is about a connection, and about the queue if one is named.
    Optional,
}

/// Operation of the API, parsed from the body of a request.
pub trait Operation: DeserializeOwned + Send {
    /// Work that the operation plans: an [`Action`] if `mq-access` executes it.
    type Work: Work;

    /// HTTP method and path of the operation.
    const ROUTE: Route;
    /// Scopes of which a caller needs at least one to call the operation. [`Work::scope`] may
    /// require a particular one.
    const SCOPES: &'static [Scope];
    /// Rule that decides whether requests need an idempotency key. Requests that need one have an
    /// idempotency record.
    const KEY: KeyRule;
    /// Rule for the target's queue, which is checked after the target is merged with its profile.
    const QUEUE: QueueRule;
    /// Maximum number of bytes of the decoded request body.
    const MAX_BODY: usize = api::body::MAX_COMMAND;

    /// Checks the rules between members of the request, and returns the work to do.
    ///
    /// # Errors
    /// If members contradict each other, or the work cannot be done within one request.
    fn plan(self) -> Result<Plan<Self::Work>, Problem>;
}

/// Properties of an operation's work that the checks of a request need.
pub trait Work: Send {
    /// Returns the scope that the caller's API key or token needs for this work.
    fn scope(&self) -> Scope;

    /// Returns the operation type in idempotency records; `None` if the work changes nothing, so
    /// that it is not recorded.
    fn recorded_as(&self) -> Option<OperationType>;
}

/// Queues that the work uses besides the target's queue, or in place of it, at the same broker with
/// the same login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OtherQueues {
    #[default]
    /// The work uses the target's queue only.
    None,
    /// The work also uses the named queue, which the caller must be allowed to use, too.
    Queue(QueueName),
    /// The work may use each queue that the messages themselves name, if the caller may use it: a
    /// move of messages back to their origins.
    Any,
    /// The work uses these queues in place of the target's, and the caller must be allowed to use
    /// each of them. The first becomes the target's queue. Faults have the JSON Pointer `/queues`.
    InPlace(Vec<QueueName>),
    /// The work uses the queues of the request's member `queues` in place of the target's, as for
    /// [`Self::InPlace`]. Faults have the JSON Pointer to the queue in that list.
    Listed(Vec<QueueName>),
}

/// Reply queue to which IBM MQ sends the reports that a message of the request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    /// JSON Pointer to the object in the request that sets the message's reply queue.
    pub pointer: String,
    /// Reply queue and queue manager that the message names.
    pub place: ReportPlace,
}

/// Work that a request asks for, with its target before resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<W = Action> {
    /// Target as the request names it, before it is merged with its profile.
    pub named: NamedTarget,
    /// Queues that the work uses besides the target's queue, or in place of it.
    pub further: OtherQueues,
    /// Reply queues to which IBM MQ sends the reports that the messages ask for.
    pub reports: Vec<Reports>,
    /// Tags that the caller gave the request, for the audit event and the messages.
    pub tags: Tags,
    /// Work to do at the target.
    pub action: W,
}

/// Work that `mq-access` executes at a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Work that changes nothing, and has no idempotency record.
    Read(Read),
    /// Work that is done once for each idempotency key, with its operation type in records.
    Change(OperationType, Change),
}

impl Plan {
    /// Builds the plan of a read, which needs the scope `mq:read`.
    #[must_use]
    pub fn read(named: NamedTarget, read: Read) -> Self {
        Self::new(named, Action::Read(read))
    }

    /// Builds the plan of a change, which needs the scope `mq:write`.
    #[must_use]
    pub fn change(named: NamedTarget, operation: OperationType, change: Change) -> Self {
        Self::new(named, Action::Change(operation, change))
    }
}

impl<W> Plan<W> {
    /// Creates the plan of work that uses only the target's queue and has no tags.
    #[must_use]
    pub const fn new(named: NamedTarget, action: W) -> Self {
        Self { named, further: OtherQueues::None, reports: Vec::new(), tags: Tags::NONE, action }
    }
}

impl Work for Action {
    fn scope(&self) -> Scope {
        match self {
            Self::Read(_) => Scope::MqRead,
            Self::Change(..) => Scope::MqWrite,
        }
    }

    fn recorded_as(&self) -> Option<OperationType> {
        match self {
            Self::Read(_) => None,
            Self::Change(operation, _) => Some(*operation),
        }
    }
}
