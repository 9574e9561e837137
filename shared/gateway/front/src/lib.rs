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
mod stored_body;
mod target;
mod target_request;
mod uploaded_body;

pub use budget::{Budget, NoLease};
pub use endpoint::{AuditTrail, from_store, in_progress, records};
pub use front::Gateway;
pub use idempotent::Idempotency;
pub use mq_access::{MqAccess, NotAnswered};
pub use operation::{Further, KeyRule, Operation, Plan, PlannedWork, QueueRule, TIME_BUDGET};
pub use problems::{from_broker, from_move, from_produce, from_target};
pub use protocol::{Work, WorkOrder};
pub use settings::Records;
pub use stored_body::{STORED_BODY, stored_body_url};
pub use target_request::{NamedTarget, TargetPlace, TargetRequest};
pub use uploaded_body::{UPLOADED_BODY, uploaded_body_key};
