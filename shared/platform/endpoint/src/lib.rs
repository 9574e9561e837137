//! The wrapper of every HTTP endpoint's own work: the trace, the log line and the metric of a
//! request ([`serve()`]); and for work that must be done once, the claim before it, the end of its
//! record after it, and the replay instead of it ([`once()`]).

mod once;
mod serve;
mod signed;

pub use once::{WorkDone, WorkFailure, from_key, once};
pub use serve::{Keyed, check_method, check_route, serve};
pub use signed::{SIGNED_FOR, see_signed};
