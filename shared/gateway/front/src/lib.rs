//! HTTP side of the message gateway: checks each request, resolves its target, claims its
//! idempotency record, and invokes `mq-access`. A function that does its work itself uses
//! [`Front`], which does all of this but the invocation.

mod audited;
mod checks;
mod front;
mod idempotent;
mod mq_access;
mod operation;
mod order_limit;
mod settings;
mod stored_body;
mod target;
mod target_request;
mod targets;
mod uploaded_body;
mod volume;

pub use endpoint::run;

pub use audited::note_reached;
pub use checks::{Accepted, Front, Identity};
pub use front::{Gateway, origin, send};
pub use idempotent::Idempotency;
pub use mq_access::{InvokeError, MqAccess};
pub use operation::{Action, KeyRule, Operation, OtherQueues, Plan, QueueRule, Reports, TIME_BUDGET, Work};
pub use order_limit::{OrderLimit, OrderLimitError};
pub use settings::{FrontSettings, Records};
pub use target_request::{NamedTarget, QueuesRequest, TargetPlace, TargetRequest};
pub use targets::TARGETS;
pub use uploaded_body::UPLOADED_BODY;
