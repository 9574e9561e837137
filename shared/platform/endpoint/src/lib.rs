//! Parts that all HTTP endpoints have in common: reading the requests of either kind of API
//! ([`run()`]); the trace, log line and metric of a request ([`serve()`]); its rate [`limits`] and
//! budget ([`Admission`]); and for work that must be done once, the claim and the end of its
//! idempotency record, and the replay ([`once()`]).

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
