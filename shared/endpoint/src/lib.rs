//! What every HTTP endpoint does around its own work: the trace, the log line and the metric of a request, and, where something must be done
//! once, the claim before it and the replay instead of it.

mod audit;
mod once;
mod problems;
mod replay;
mod serve;
mod settings;

pub use audit::AuditTrail;
pub use once::{Granted, claim, from_key, in_progress, whole_seconds};
pub use problems::from_store;
pub use replay::{recorded, reply};
pub use serve::{Keyed, check_route, serve};
pub use settings::{expiry_bounds, records, reuse_limits};
