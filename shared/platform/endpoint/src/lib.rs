//! What every HTTP endpoint does around its own work: the trace, the log line and the metric of a
//! request ([`serve()`]); and for work that must be done once, the claim before it, the end of its
//! record after it, and the replay instead of it ([`once()`]).

mod audit;
mod once;
mod problems;
mod serve;
mod settings;
mod signed;

pub use audit::AuditTrail;
pub use once::{Done, NotDone, from_key, in_progress, once, whole_seconds};
pub use problems::from_store;
pub use serve::{Keyed, check_method, check_route, serve};
pub use settings::{expiry_bounds, records, reuse_limits};
pub use signed::{SIGNED_FOR, see_signed};
