//! What every door of the gateway shares: strict JSON, problem details with their codes, API keys and scopes, and
//! the headers of every response.

pub mod access;
pub mod auth;
pub mod body;
pub mod json;
mod problem;
pub mod readiness;
mod reason;
mod respond;
mod route;
mod trace;

pub use problem::{BrokerStatement, Fault, MAX_BODY, Problem, cut};
pub use reason::Reason;
pub use reply::Reply;
pub use respond::respond;
pub use route::Route;
pub use trace::TraceId;
