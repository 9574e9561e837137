//! Work orders that the HTTP functions send to `mq-access`. It responds with the finished
//! [`Reply`](api::Reply).

use api::TraceId;
use idempotency::Execution;
use mq::{ConsumeCommand, MoveCommand, OversizedBodies, ProduceCommand, QueueName, Target};
use serde::{Deserialize, Serialize};

use crate::previous_form::Received;

/// Error type with which `mq-access` ends an invocation whose order it cannot parse. No work was
/// done then. Functions of the previous and the next version rely on this name.
pub const UNREADABLE: &str = "Malformed";

/// Order that an HTTP function sends to `mq-access`, the function that connects to brokers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkOrder {
    /// Trace id of the request, for the log lines of `mq-access`.
    pub trace_id: TraceId,
    /// Id of the caller's tenant.
    pub tenant: String,
    /// Work that `mq-access` has to execute.
    pub work: Work,
}

/// Work of an order, with its target. `Change` also has the execution (the claimed idempotency
/// record) that allows the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Received")]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, for as long as a request lasts")]
#[expect(missing_docs, reason = "members are named as their types")]
pub enum Work {
    /// Work that changes messages, and is done once for each idempotency key.
    Change { target: Target, execution: Execution, change: Change },
    /// Work that changes nothing, and has no idempotency record.
    Read { target: Target, read: Read },
    /// Listing of the tenant's connections in the execution environment that responds.
    Pools,
}

/// Work that puts, takes or moves messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "one variant for each operation, with what its name says")]
pub enum Change {
    Produce(ProduceCommand),
    Consume { command: ConsumeCommand, large: OversizedBodies },
    Move(MoveCommand),
}

/// Work that reads a queue or tests a broker, without changing anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "one variant for each operation, with what its name says")]
pub enum Read {
    Browse(ConsumeCommand),
    PreviewMove(MoveCommand),
    Depth,
    /// Depths of these queues, each in place of the target's own queue.
    Depths(Vec<QueueName>),
    Test,
}

impl Change {
    /// Returns the maximum number of bytes that the change adds to queues; 0 unless it is a
    /// produce.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Produce(command) => command.bytes(),
            Self::Consume { .. } | Self::Move(_) => 0,
        }
    }
}
