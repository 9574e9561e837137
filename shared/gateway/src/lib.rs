//! The HTTP side of the message gateway: the order of checks, the target, the claim, and the call to `mq-access`;
//! and the words in which the two sides speak.

mod audit;
mod front;
mod idempotent;
mod mq_access;
mod operation;
mod problems;
mod protocol;
mod replay;
mod settings;
mod target;

pub use audit::AuditTrail;
pub use front::Gateway;
pub use idempotent::{Idempotency, in_progress};
pub use mq_access::{MqAccess, NotAnswered};
pub use operation::{KeyRule, Operation, Plan, PlannedWork, QueueRule, TIME_BUDGET};
pub use problems::{from_broker, from_produce, from_store, from_target};
pub use protocol::{Work, WorkOrder};
pub use replay::recorded;
pub use settings::{Records, records};
