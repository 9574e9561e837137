//! The wrapper of every HTTP endpoint's own work: the request as either kind of API passes it on
//! ([`run()`]); the trace, the log line and the metric of a request ([`serve()`]); the [`limits`]
//! that it draws from ([`Admission`]); and for work that must be done once, the claim before it,
//! the end of its record after it, and the replay instead of it ([`once()`]).

mod admission;
pub mod limits;
mod once;
mod run;
mod serve;
mod signed;
mod tokens;

pub use admission::{Admission, Moved, limits_of, spent_of};
pub use once::{WorkDone, WorkFailure, from_key, once};
pub use run::{may_be_inflated, run};
pub use serve::{Keyed, check_method, check_route, log_completed, serve};
pub use signed::{SIGNED_FOR, see_signed};
pub use tokens::token_settings;
