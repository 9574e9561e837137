//! Work orders of the HTTP functions to `mq-access`. It responds with the finished
//! [`Reply`](api::Reply).

use api::TraceId;
use idempotency::Execution;
use mq::{ConsumeCommand, Large, MoveCommand, ProduceCommand, Target};
use serde::{Deserialize, Serialize};

/// Order for the function that speaks to brokers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkOrder {
    /// Trace id of the request, for the log of `mq-access`.
    pub trace_id: TraceId,
    /// Tenant of the caller.
    pub tenant: String,
    /// Work that `mq-access` must do.
    pub work: Work,
}

/// Work of an order. Work that changes something carries the right to execute it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "one variant for each operation, with what its name says")]
pub enum Work {
    Produce {
        target: Target,
        command: ProduceCommand,
        execution: Execution,
    },
    Consume {
        target: Target,
        command: ConsumeCommand,
        /// Treatment of a message that no response can carry. It is absent in orders of an earlier
        /// version, which could only refuse one.
        #[serde(default)]
        large: Large,
        execution: Execution,
    },
    Browse {
        target: Target,
        command: ConsumeCommand,
    },
    Move {
        target: Target,
        command: MoveCommand,
        execution: Execution,
    },
    PreviewMove {
        target: Target,
        command: MoveCommand,
    },
    Depth {
        target: Target,
    },
    Test {
        target: Target,
    },
    /// Lists the connections that the environment that responds holds for the tenant.
    Pools,
}

impl Work {
    /// Returns the target of the work; `None` if it is about the function itself.
    #[must_use]
    pub const fn target(&self) -> Option<&Target> {
        match self {
            Self::Produce { target, .. }
            | Self::Consume { target, .. }
            | Self::Browse { target, .. }
            | Self::Move { target, .. }
            | Self::PreviewMove { target, .. }
            | Self::Depth { target }
            | Self::Test { target } => Some(target),
            Self::Pools => None,
        }
    }
}
