//! The properties that distinguish one operation of the gateway from another.

use std::time::Duration;

use access::Scope;
use api::{Problem, Route};
use idempotency::OperationType;
use mq::{QueueName, ReportPlace, Tags};
use orders::{Change, Read};
use serde::de::DeserializeOwned;

use crate::target_request::NamedTarget;

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

/// Operation of the API, parsed from the request's body.
pub trait Operation: DeserializeOwned + Send {
    /// Work that the operation plans: an [`Action`] if `mq-access` does it.
    type Work: Work;

    /// Route of the function.
    const ROUTE: Route;
    /// Scopes, of which a caller needs one to call the operation at all; a plan may need a
    /// particular one.
    const SCOPES: &'static [Scope];
    /// Rule for the idempotency key. Requests with a key are recorded.
    const KEY: KeyRule;
    /// Rule for the target's queue. It is checked once the target is merged with its profile.
    const QUEUE: QueueRule;
    /// Bytes of the largest decoded body that the route accepts.
    const MAX_BODY: usize = api::body::MAX_COMMAND;

    /// Checks the rules that the form alone does not express, and returns the work to do.
    ///
    /// # Errors
    /// If members contradict each other, or the work cannot fit into one request.
    fn plan(self) -> Result<Plan<Self::Work>, Problem>;
}

/// Work of an operation, as far as the checks before it ask about it.
pub trait Work: Send {
    /// Returns the scope that the caller's key needs for this work.
    fn scope(&self) -> Scope;

    /// Returns the type of the work in idempotency records. `None` if it changes nothing: it is
    /// neither claimed nor recorded.
    fn recorded_as(&self) -> Option<OperationType>;
}

/// Queues that the work uses besides the target's, at the same broker and with the same login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OtherQueues {
    #[default]
    /// The work uses the target's queue alone.
    None,
    /// The work uses a named queue, which the caller must be allowed as well.
    Queue(QueueName),
    /// The work may use each queue that messages name and that the caller is allowed.
    Any,
    /// The work uses these queues in place of the target's, and the caller must be allowed each of
    /// them. The first one becomes the target's. A fault points to `queues`.
    InPlace(Vec<QueueName>),
    /// The work uses these queues in place of the target's, as [`Self::InPlace`], but the member
    /// `queues` is the list. A fault points to the queue's place in it.
    Listed(Vec<QueueName>),
}

/// Place to which reports about a message of a request go, if the broker is IBM MQ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    /// JSON Pointer to the object with the message's properties.
    pub pointer: String,
    /// Queue and queue manager to which the reports go.
    pub place: ReportPlace,
}

/// Work that a request asks for, before its target is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<W = Action> {
    /// Target as the request names it, before it is resolved.
    pub named: NamedTarget,
    /// Queues that the work reaches besides the target's.
    pub further: OtherQueues,
    /// Places to which the broker sends reports about the messages.
    pub reports: Vec<Reports>,
    /// Tags of the caller's own, for the audit event and the messages.
    pub tags: Tags,
    /// The work itself.
    pub action: W,
}

/// Work of `mq-access` without its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Work that changes nothing, so it is neither claimed nor recorded.
    Read(Read),
    /// Work that is done once for each key, and its kind, as records name it.
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
    /// Creates the plan of work at a target and no other queue.
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
