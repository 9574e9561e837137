//! Types of the HTTP contract: strict JSON, idempotency keys, parameters and cursors of lists,
//! problem details with their codes, routes, trace ids and finished responses.

mod accept;
pub mod body;
mod cursor;
pub mod idempotency_key;
pub mod json;
mod nearest;
mod problem;
mod query;
pub mod readiness;
mod reason;
mod reply;
mod respond;
mod route;
mod trace;

pub use accept::prefers;
pub use cursor::ListOf;
pub use nearest::nearest;
pub use problem::{Fault, MAX_BODY, Problem, cut};
pub use query::{Query, invalid_parameter};
pub use reason::Reason;
pub use reply::{Reply, content_digest};
pub use respond::respond;
pub use route::{Route, path_parameter};
pub use trace::{TraceId, Traceparent};
