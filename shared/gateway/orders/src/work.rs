//! Work orders of the HTTP functions to `mq-access`. It responds with the finished
//! [`Reply`](api::Reply).

use api::TraceId;
use idempotency::Execution;
use mq::{ConsumeCommand, MoveCommand, OversizedBodies, ProduceCommand, QueueName, Target};
use serde::{Deserialize, Serialize};

use crate::former::Received;

/// Type of the error with which `mq-access` ends an invocation whose order it cannot read. It has
/// done nothing then. Functions of the version before and after know it by this name.
pub const UNREADABLE: &str = "Malformed";

/// Order for the function that speaks to brokers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkOrder {
    /// Trace id of the request, for the log of `mq-access`.
    pub trace_id: TraceId,
    /// Id of the caller's tenant.
    pub tenant: String,
    /// Work that the function `mq-access` has to do.
    pub work: Work,
}

/// Work of an order, with its target. Work that changes something carries the right to execute it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Received")]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, for as long as a request lasts")]
#[expect(missing_docs, reason = "members are named as their types")]
pub enum Work {
    /// Work that is done once for each key.
    Change { target: Target, execution: Execution, change: Change },
    /// Work that changes nothing.
    Read { target: Target, read: Read },
    /// Lists the connections that the environment that responds holds for the tenant.
    Pools,
}

/// Work that changes the messages on queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "one variant for each operation, with what its name says")]
pub enum Change {
    Produce(ProduceCommand),
    Consume { command: ConsumeCommand, large: OversizedBodies },
    Move(MoveCommand),
}

/// Work that reads a queue or a broker, and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "one variant for each operation, with what its name says")]
pub enum Read {
    Browse(ConsumeCommand),
    PreviewMove(MoveCommand),
    Depth,
    /// Depths of these queues, in place of the target's.
    Depths(Vec<QueueName>),
    Test,
}

impl Change {
    /// Returns the largest number of bytes that the change adds to queues.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Produce(command) => command.bytes(),
            Self::Consume { .. } | Self::Move(_) => 0,
        }
    }
}
