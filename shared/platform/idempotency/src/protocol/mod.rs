//! The protocol without its store: the attributes of a record, the possible writes, and the
//! decision of a claim that lost.
//!
//! Nothing here does I/O or reads a clock, so that the code that runs and the model that checks it
//! (`model`) are the same. [`Transition::apply`] is the specification of the store's conditional
//! writes; the store's tests compare the two.

mod decision;
mod place;
mod progress;
mod record;
mod transition;

pub use decision::{Decision, decide};
pub use place::{AbandonedProgress, Arrival, LocationHistory, Place};
pub use progress::{Progress, Tally};
pub use record::{Body, Record, Status, StoredResponse};
pub(crate) use transition::lease_end;
pub use transition::{Token, Transition};
