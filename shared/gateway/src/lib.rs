//! The HTTP side of the message gateway: the order of checks, the target, the claim, and the call
//! to `mq-access`; and the words in which the two sides speak.

mod budget;
mod front;
mod idempotent;
mod mq_access;
mod operation;
mod problems;
mod protocol;
mod settings;
mod target;
mod target_request;

pub use budget::{Budget, NoLease};
pub use endpoint::{AuditTrail, from_store, in_progress, records};
pub use front::Gateway;
pub use idempotent::Idempotency;
pub use mq_access::{MqAccess, NotAnswered};
pub use operation::{Further, KeyRule, Operation, Plan, PlannedWork, QueueRule, TIME_BUDGET};
pub use problems::{from_broker, from_move, from_produce, from_target};
pub use protocol::{Work, WorkOrder};
pub use settings::Records;
pub use target_request::{NamedTarget, TargetPlace, TargetRequest};
