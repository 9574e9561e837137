//! Types of the HTTP contract: strict JSON, problem details with their codes, routes, trace ids and
//! finished responses.

pub mod body;
pub mod json;
mod nearest;
mod problem;
pub mod readiness;
mod reason;
mod reply;
mod respond;
mod route;
mod trace;

pub use nearest::nearest;
pub use problem::{Fault, MAX_BODY, Problem, cut};
pub use reason::Reason;
pub use reply::{Reply, content_digest};
pub use respond::respond;
pub use route::{Route, path_parameter};
pub use trace::TraceId;
