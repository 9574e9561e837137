//! The HTTP side of the message gateway: the order of checks, the target, the claim, and the call
//! to `mq-access`. A function whose work is its own uses [`Front`], which has all but the call.

mod audited;
mod budget;
mod checks;
mod front;
mod idempotent;
mod mq_access;
mod operation;
mod settings;
mod stored_body;
mod target;
mod target_request;
mod targets;
mod uploaded_body;
mod volume;

pub use endpoint::run;

pub use audited::note_reached;
pub use budget::{Budget, BudgetError};
pub use checks::{Accepted, Front, Identity};
pub use front::{Gateway, origin, send};
pub use idempotent::Idempotency;
pub use mq_access::{InvokeError, MqAccess};
pub use operation::{Action, KeyRule, Operation, OtherQueues, Plan, QueueRule, Reports, TIME_BUDGET, Work};
pub use settings::{FrontSettings, Records};
pub use target_request::{NamedTarget, QueuesRequest, TargetPlace, TargetRequest};
pub use targets::TARGETS;
pub use uploaded_body::UPLOADED_BODY;
