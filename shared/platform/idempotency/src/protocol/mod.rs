//! The protocol without its store: what a record is, which writes there are, and what a claim's
//! loser does.
//!
//! Nothing here does I/O or looks at a clock, so that the code that runs and the model that checks
//! it (`model`) are the same. [`Transition::apply`] is what a conditional write of the store
//! must do; the store's tests compare the two.

mod decision;
mod place;
mod progress;
mod record;
mod transition;

pub use decision::{Decision, decide};
pub use place::{Arrival, LeftBehind, Place, Whereabouts};
pub use progress::{Progress, Tally};
pub use record::{Body, Record, Status, StoredResponse};
pub(crate) use transition::lease_end;
pub use transition::{Token, Transition};
